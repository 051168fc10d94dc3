//! Printing one value with one verb.

use super::{Fault, MAX_DEPTH, Printer};
use crate::str::Str;
use crate::value::{FloatType, Kind, List, Map, Object, Value};
use steersman_gostd::fmt::Integer;
use steersman_gostd::unicode;

impl Printer<'_> {
    /// Prints an operand.
    pub(super) fn arg(&mut self, arg: &Value, verb: char) -> Result<(), Fault> {
        self.check_size()?;
        match (arg, verb) {
            (Value::Nil, 'T' | 'v') => self.layout.pad(self.out, b"<nil>"),
            (Value::Nil, _) => return self.bad_verb(arg, verb),
            (_, 'T') => self.layout.string(self.out, arg.type_str().as_bytes()),
            (_, 'p') => return self.pointer(arg, verb),
            (Value::Bytes(bytes), 'v' | 'd') if self.sharp_v => self.go_bytes(bytes, "[]byte"),
            (Value::Object(object), _) if self.methods(object.as_ref(), arg, verb)? => {}
            _ => return self.value(arg, verb, 0),
        }
        Ok(())
    }

    /// Prints an operand that is a `reflect.Value`.
    pub(super) fn reflected(&mut self, value: &Value, verb: char) -> Result<(), Fault> {
        match value {
            Value::Nil => self.text("<invalid reflect.Value>"),
            Value::Object(object) if self.methods(object.as_ref(), value, verb)? => {}
            _ => return self.value(value, verb, 0),
        }
        Ok(())
    }

    /// Prints the value with its `String` or `Error` method, if it has one and the verb allows it.
    fn methods(&mut self, object: &dyn Object, value: &Value, verb: char) -> Result<bool, Fault> {
        if self.erroring {
            return Ok(false);
        }
        if verb == 'w' {
            self.bad_verb(value, verb)?;
            return Ok(true);
        }
        if self.sharp_v
            && let Some(text) = object.go_string()
        {
            self.layout.string(self.out, text.as_bytes());
            return Ok(true);
        }
        if self.sharp_v || !object.is_stringer() || !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return Ok(false);
        }
        self.string(object.display().as_bytes(), value, verb)?;
        Ok(true)
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Fault> {
        self.held(value, value, verb, depth)
    }

    /// Prints the value held. Errors about the verb name `value`, whose type may be a named one.
    fn held(&mut self, held: &Value, value: &Value, verb: char, depth: usize) -> Result<(), Fault> {
        match held {
            // Only an empty interface inside a slice, map or struct gets here.
            Value::Nil => self.text(if self.sharp_v { "interface {}(nil)" } else { "<nil>" }),
            Value::Bool(b) => match verb {
                't' | 'v' => self.layout.pad(self.out, if *b { b"true" } else { b"false" }),
                _ => return self.bad_verb(value, verb),
            },
            Value::Int(n, _) => {
                let number =
                    Integer { negative: *n < 0, magnitude: n.unsigned_abs(), bits: n.cast_unsigned() };
                return self.integer(number, true, value, verb);
            }
            Value::Uint(n, _) => {
                return self.integer(
                    Integer { negative: false, magnitude: *n, bits: *n },
                    false,
                    value,
                    verb,
                );
            }
            Value::Float(n, ty) => return self.float(*n, *ty == FloatType::Float32, value, verb),
            Value::Complex(re, im) => return self.complex(*re, *im, value, verb),
            Value::String(text) => return self.string(text, value, verb),
            Value::Bytes(bytes) => return self.bytes(bytes, value, verb, depth),
            // Only errors take `%w`, and only in Errorf.
            Value::List(_) | Value::Map(_) if verb == 'w' && !self.erroring => {
                return self.bad_verb(value, verb);
            }
            Value::List(list) => return self.guarded(|printer| printer.list(list, verb, depth), depth),
            Value::Map(map) => return self.guarded(|printer| printer.map(map, verb, depth), depth),
            Value::Object(object) => {
                return self.guarded(|printer| printer.object(object.as_ref(), value, verb, depth), depth);
            }
        }
        Ok(())
    }

    /// Descends one level, or fails if that is too deep.
    fn guarded(
        &mut self,
        print: impl FnOnce(&mut Self) -> Result<(), Fault>,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::Depth);
        }
        self.check_size()?;
        crate::stack::grow(|| print(self))
    }

    fn inner(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Fault> {
        match value {
            Value::Object(object) if self.methods(object.as_ref(), value, verb)? => Ok(()),
            _ => self.value(value, verb, depth),
        }
    }

    fn list(&mut self, list: &List, verb: char, depth: usize) -> Result<(), Fault> {
        if self.sharp_v {
            self.text(list.ty().name);
            if list.is_nil() {
                self.text("(nil)");
                return Ok(());
            }
        }
        self.text(if self.sharp_v { "{" } else { "[" });
        for (i, item) in list.iter().enumerate() {
            self.separate(i);
            self.inner(item, verb, depth + 1)?;
        }
        self.text(if self.sharp_v { "}" } else { "]" });
        Ok(())
    }

    fn map(&mut self, map: &Map, verb: char, depth: usize) -> Result<(), Fault> {
        if self.sharp_v {
            self.text(map.ty().name);
            if map.is_nil() {
                self.text("(nil)");
                return Ok(());
            }
        }
        self.text(if self.sharp_v { "{" } else { "map[" });
        for (i, (key, value)) in map.borrow().iter().enumerate() {
            self.separate(i);
            self.inner(&Value::String(key.clone()), verb, depth + 1)?;
            self.text(":");
            self.inner(value, verb, depth + 1)?;
        }
        self.text(if self.sharp_v { "}" } else { "]" });
        Ok(())
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.text(if self.sharp_v { ", " } else { " " });
        }
    }

    fn object(&mut self, object: &dyn Object, value: &Value, verb: char, depth: usize) -> Result<(), Fault> {
        if let Some(underlying) = object.underlying() {
            return self.held(&underlying, value, verb, depth);
        }
        let pointer = object.kind() == Kind::Ptr;
        if pointer && (depth > 0 || !object.truth()) {
            return self.pointer(value, verb);
        }
        if pointer && !self.indirect {
            self.text("&");
        }
        let Some(fields) = object.fields() else {
            self.text(&object.display());
            return Ok(());
        };
        if self.sharp_v {
            self.text(object.type_name().trim_start_matches('*'));
        }
        self.text("{");
        for (i, (name, field)) in fields.iter().enumerate() {
            self.separate(i);
            if self.plus_v || self.sharp_v {
                self.text(name);
                self.text(":");
            }
            self.inner(field, verb, depth + 1)?;
        }
        self.text("}");
        Ok(())
    }

    fn integer(&mut self, number: Integer, signed: bool, value: &Value, verb: char) -> Result<(), Fault> {
        match verb {
            'v' if self.sharp_v && !signed => self.address(number.magnitude, true),
            'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' => self.layout.integer(self.out, number, verb),
            'c' => self.layout.character(self.out, number),
            'q' => self.layout.quoted_character(self.out, number),
            'U' => self.layout.unicode(self.out, number),
            _ => return self.bad_verb(value, verb),
        }
        Ok(())
    }

    /// Writes hexadecimal with or without `0x`, regardless of the flags.
    fn address(&mut self, bits: u64, prefix: bool) {
        let layout = super::Layout { sharp: prefix, ..self.layout };
        layout.integer(self.out, Integer { negative: false, magnitude: bits, bits }, 'x');
    }

    fn float(&mut self, number: f64, single: bool, value: &Value, verb: char) -> Result<(), Fault> {
        let (letter, precision) = match verb {
            'v' => (b'g', None),
            'F' => (b'f', Some(6)),
            'f' => (b'f', Some(6)),
            'e' => (b'e', Some(6)),
            'E' => (b'E', Some(6)),
            'b' => (b'b', None),
            'g' => (b'g', None),
            'G' => (b'G', None),
            'x' => (b'x', None),
            'X' => (b'X', None),
            _ => return self.bad_verb(value, verb),
        };
        self.layout.float(self.out, number, single, letter, precision);
        Ok(())
    }

    fn complex(&mut self, re: f64, im: f64, value: &Value, verb: char) -> Result<(), Fault> {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(value, verb);
        }
        let plus = self.layout.plus;
        self.text("(");
        self.float(re, false, value, verb)?;
        self.layout.plus = true;
        self.float(im, false, value, verb)?;
        self.layout.plus = plus;
        self.text("i)");
        Ok(())
    }

    fn string(&mut self, text: &[u8], value: &Value, verb: char) -> Result<(), Fault> {
        match verb {
            'v' if self.sharp_v => self.layout.quoted(self.out, text),
            'v' | 's' => self.layout.string(self.out, text),
            'x' | 'X' => self.layout.hex(self.out, text, verb == 'X'),
            'q' => self.layout.quoted(self.out, text),
            _ => return self.bad_verb(value, verb),
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &Str, value: &Value, verb: char, depth: usize) -> Result<(), Fault> {
        match verb {
            's' | 'q' | 'x' | 'X' => return self.string(bytes, value, verb),
            'v' if self.sharp_v => self.go_bytes(bytes, "[]uint8"),
            _ => {
                let (open, close) = if self.sharp_v { ("[]uint8{", "}") } else { ("[", "]") };
                self.text(open);
                for (i, byte) in bytes.iter().enumerate() {
                    self.separate(i);
                    let element = Value::Uint(u64::from(*byte), crate::value::UintType::Uint8);
                    self.value(&element, verb, depth + 1)?;
                }
                self.text(close);
            }
        }
        Ok(())
    }

    fn go_bytes(&mut self, bytes: &[u8], type_name: &str) {
        self.text(type_name);
        self.text("{");
        for (i, byte) in bytes.iter().enumerate() {
            self.separate(i);
            self.address(u64::from(*byte), true);
        }
        self.text("}");
    }

    fn pointer(&mut self, value: &Value, verb: char) -> Result<(), Fault> {
        let address = match value {
            Value::List(list) => list.address(),
            Value::Map(map) => map.address(),
            Value::Bytes(bytes) => bytes.as_bytes().as_ptr().addr(),
            Value::Object(object) if object.kind() == Kind::Ptr && !object.truth() => 0,
            Value::Object(object)
                if matches!(object.kind(), Kind::Ptr | Kind::Func | Kind::Map | Kind::Slice) =>
            {
                std::rc::Rc::as_ptr(object).addr()
            }
            _ => return self.bad_verb(value, verb),
        };
        let bits = address as u64;
        match verb {
            'v' if self.sharp_v => {
                self.text("(");
                self.text(value.type_str());
                self.text(")(");
                if bits == 0 {
                    self.text("nil");
                } else {
                    self.address(bits, true);
                }
                self.text(")");
            }
            'v' if bits == 0 => self.layout.pad(self.out, b"<nil>"),
            'v' | 'p' => self.address(bits, !self.layout.sharp),
            'b' | 'o' | 'd' | 'x' | 'X' => {
                self.layout.integer(self.out, Integer { negative: false, magnitude: bits, bits }, verb);
            }
            _ => return self.bad_verb(value, verb),
        }
        Ok(())
    }

    /// Writes the error for a verb that does not fit: `%!d(string=hi)`.
    fn bad_verb(&mut self, value: &Value, verb: char) -> Result<(), Fault> {
        self.text("%!");
        unicode::push(self.out, verb);
        self.text("(");
        if matches!(value, Value::Nil) {
            self.text("<nil>");
        } else {
            self.erroring = true;
            self.text(value.type_str());
            self.text("=");
            self.arg(value, 'v')?;
            self.erroring = false;
        }
        self.text(")");
        Ok(())
    }
}
