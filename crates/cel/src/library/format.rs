//! `"…".format([…])` and `strings.quote`.

use steersman_gostd::strconv;

use super::{Library, unfit};
use crate::ast::{Expr, ExprKind};
use crate::check::Checked;
use crate::types::Type;
use crate::value::{EvalError, Value, fail};

pub(super) fn add(library: &mut Library) {
    use Type::String;
    library.member("format", [String, Type::list(Type::Dyn)], String, |args| match args {
        [Value::String(text), Value::List(items)] => {
            let mut out = std::string::String::with_capacity(text.len());
            let (mut next, mut left) = (0, MOST);
            for piece in pieces(text) {
                match piece {
                    Piece::Text(text) => out.push_str(text),
                    Piece::Clause(clause) => {
                        let item = items.get(next).map_or_else(|| fail(out_of_range(next)), Ok)?;
                        let clause = clause.map_err(EvalError::from)?;
                        if !fits(item, &mut left) {
                            return Err(EvalError::CostLimitExceeded);
                        }
                        out.push_str(&clause.write(item)?);
                        next += 1;
                    }
                }
            }
            Ok(Value::string(out))
        }
        _ => unfit(),
    });
    library.global("strings.quote", [String], String, |args| match args {
        [Value::String(text)] => Ok(Value::string(quote(text))),
        _ => unfit(),
    });
}

/// Maximum size that one format call may process, in bytes and items of values.
/// Output is not charged to the cost budget, and values share their parts: without a limit, ten clauses per call
/// multiply a string tenfold each time.
const MOST: usize = 10 << 20;

/// Subtracts the value's size from `left`; false if it does not fit.
fn fits(value: &Value, left: &mut usize) -> bool {
    let size = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    let Some(rest) = left.checked_sub(size + 1) else { return false };
    *left = rest;
    match value {
        Value::List(items) => items.iter().all(|item| fits(item, left)),
        Value::Map(entries) => entries.iter().all(|(key, value)| fits(key, left) && fits(value, left)),
        _ => true,
    }
}

/// A part of a format string.
enum Piece<'t> {
    Text(&'t str),
    /// The clause after a `%`, or why it is invalid.
    Clause(Result<Clause, String>),
}

/// A formatting clause.
#[derive(Clone, Copy)]
enum Clause {
    Text,
    Decimal,
    /// With this number of decimal places.
    Fixed(usize),
    /// Padded to this minimum width.
    Scientific(usize),
    Binary,
    Hex {
        upper: bool,
    },
    Octal,
}

/// Number of decimal places, unless the clause specifies it.
const PRECISION: usize = 6;

/// Limit on the precision that a clause can specify.
const MAX_PRECISION: usize = 1_000;

const UNFINISHED: &str = "unexpected end of string";

fn out_of_range(index: usize) -> String {
    format!("index {index} out of range")
}

/// Splits a format string into literals and clauses. Stops after an invalid clause.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('%') else {
            let end = rest.find('%').unwrap_or(rest.len());
            let (text, tail) = rest.split_at(end);
            rest = tail;
            return Some(Piece::Text(text));
        };
        if let Some(tail) = after.strip_prefix('%') {
            rest = tail;
            return Some(Piece::Text("%"));
        }
        let (clause, tail) = match read_clause(after) {
            _ if after.is_empty() => (Err(UNFINISHED.to_owned()), ""),
            Ok((clause, tail)) => (Ok(clause), tail),
            Err(why) => (Err(format!("could not parse formatting clause: {why}")), ""),
        };
        rest = tail;
        Some(Piece::Clause(clause))
    })
}

/// Returns the clause if it is valid and has an argument; a missing argument is reported first.
fn clause_of(clause: Result<Clause, String>, index: usize, count: usize) -> Result<Clause, String> {
    match clause {
        Err(why) if why == UNFINISHED => Err(why),
        _ if index >= count => Err(out_of_range(index)),
        clause => clause,
    }
}

fn read_clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(after) => {
            let wrong = |why: &str| format!("error while parsing precision: {why}");
            let end = after
                .find(|c: char| !c.is_ascii_digit())
                .ok_or_else(|| wrong("could not find end of precision specifier"))?;
            let (digits, rest) = after.split_at(end);
            let precision = strconv::atoi(digits.as_bytes())
                .map_err(|error| wrong(&format!("error while converting precision to integer: {error}")))?;
            (Some(usize::try_from(precision).unwrap_or(MAX_PRECISION).min(MAX_PRECISION)), rest)
        }
    };
    let mut characters = rest.chars();
    let clause = match characters.next() {
        Some('s') => Clause::Text,
        Some('d') => Clause::Decimal,
        Some('f') => Clause::Fixed(precision.unwrap_or(PRECISION)),
        Some('e') => Clause::Scientific(precision.unwrap_or(PRECISION)),
        Some('b') => Clause::Binary,
        Some(c @ ('x' | 'X')) => Clause::Hex { upper: c == 'X' },
        Some('o') => Clause::Octal,
        // Go takes the first byte as a character.
        _ => {
            let first = rest.bytes().next().map_or('\0', char::from);
            return Err(format!("unrecognized formatting clause \"{first}\""));
        }
    };
    Ok((clause, characters.as_str()))
}

impl Clause {
    /// The error for a value of an unsupported type.
    fn refusal(self, type_name: &str) -> String {
        let rule = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {rule}, was given {type_name}")
    }

    /// Returns the value that the clause does not support, searching list and map literals.
    fn culprit<'e>(self, value: &'e Expr, types: &Checked) -> Option<&'e Expr> {
        if !self.takes(types.of(value)) {
            return Some(value);
        }
        let inside = |part: &'e Expr| Self::Text.culprit(part, types);
        match &value.kind {
            ExprKind::List(items) => items.iter().find_map(|(item, _)| inside(item)),
            ExprKind::Map(entries) => {
                entries.iter().find_map(|entry| inside(&entry.key).or_else(|| inside(&entry.value)))
            }
            _ => None,
        }
    }

    fn takes(self, ty: &Type) -> bool {
        match (self, ty) {
            (_, Type::Dyn | Type::Error | Type::Param(_)) => true,
            (Self::Text, ty) => !matches!(ty, Type::Opaque(_) | Type::Object(_) | Type::Optional(_)),
            (Self::Decimal | Self::Octal | Self::Binary | Self::Hex { .. }, Type::Int | Type::Uint) => true,
            (Self::Fixed(_) | Self::Scientific(_), Type::Double | Type::String)
            | (Self::Binary, Type::Bool)
            | (Self::Hex { .. }, Type::String | Type::Bytes) => true,
            _ => false,
        }
    }

    fn write(self, value: &Value) -> Result<String, EvalError> {
        let text = match (self, value) {
            (Self::Text, value) if has_broken_text(value) => {
                let why = "invalid UTF-8 in bytes, cannot convert to string";
                return fail(format!(
                    "error during formatting: could not convert argument {why:?} to string"
                ));
            }
            (Self::Text, value) => {
                return text(value).or_else(|NoStringForm { type_name, is_inside }| match is_inside {
                    true => fail(format!("error during formatting: no formatting function for {type_name}")),
                    false => fail(self.refusal(type_name)),
                });
            }
            (Self::Decimal, Value::Int(n)) => n.to_string(),
            (Self::Decimal, Value::Uint(n)) => n.to_string(),
            (Self::Fixed(digits), value) => match float(value) {
                Some(number) => fixed(number, digits),
                None => return fail(self.refusal(value.type_name())),
            },
            (Self::Scientific(width), value) => match float(value) {
                Some(number) => scientific(number, width),
                None => return fail(self.refusal(value.type_name())),
            },
            (Self::Binary, Value::Int(n)) => signed(*n, |n| format!("{n:b}")),
            (Self::Binary, Value::Uint(n)) => format!("{n:b}"),
            (Self::Binary, Value::Bool(yes)) => u8::from(*yes).to_string(),
            (Self::Octal, Value::Int(n)) => signed(*n, |n| format!("{n:o}")),
            (Self::Octal, Value::Uint(n)) => format!("{n:o}"),
            (Self::Hex { upper }, value) => {
                let text = match value {
                    Value::Int(n) => signed(*n, |n| format!("{n:x}")),
                    Value::Uint(n) => format!("{n:x}"),
                    Value::String(text) => hex(text.as_bytes()),
                    Value::Bytes(bytes) => hex(bytes),
                    other => return fail(self.refusal(other.type_name())),
                };
                if upper { text.to_uppercase() } else { text }
            }
            (_, other) => return fail(self.refusal(other.type_name())),
        };
        Ok(text)
    }
}

/// Whether a value contains bytes that are not valid UTF-8.
fn has_broken_text(value: &Value) -> bool {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).is_err(),
        Value::List(items) => items.iter().any(has_broken_text),
        Value::Map(entries) => {
            entries.iter().any(|(key, value)| has_broken_text(key) || has_broken_text(value))
        }
        _ => false,
    }
}

/// Formats like Go: the sign, then the magnitude.
fn signed(n: i64, write: impl Fn(u64) -> String) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}", write(n.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Formats infinities and NaN as in American English.
fn special(number: f64) -> Option<&'static str> {
    match number {
        n if n.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Formats a number with thousands separators.
fn fixed(number: f64, digits: usize) -> String {
    if let Some(text) = special(number) {
        return text.to_owned();
    }
    let text = format!("{:.digits$}", number.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut out = String::from(if number < 0.0 { "-" } else { "" });
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats a number in scientific notation with a superscript exponent, padded to a minimum width.
fn scientific(number: f64, width: usize) -> String {
    let text = match special(number) {
        Some(text) => text.to_owned(),
        None => {
            // Zero is unsigned.
            let number = if number == 0.0 { 0.0 } else { number };
            let text = format!("{number:.PRECISION$e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
            let raised = format!("{exponent:0>2}");
            let raised = raised.chars().map(|c| match c.to_digit(10) {
                Some(1) => '¹',
                Some(2) => '²',
                Some(3) => '³',
                Some(n) => char::from_u32(0x2070 + n).unwrap_or(c),
                None => c,
            });
            format!("{digits}×10{sign}{}", raised.collect::<String>())
        }
    };
    let missing = width.saturating_sub(text.chars().count());
    format!("{}{text}", " ".repeat(missing))
}

/// Formats a value for `%s`, or returns the type that has no string form.
fn text(value: &Value) -> Result<String, NoStringForm<'_>> {
    Ok(match value {
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Null => "null".into(),
        Value::Bool(yes) => yes.to_string(),
        Value::Type(name) => name.to_string(),
        Value::List(items) => {
            let items: Result<Vec<String>, _> = items.iter().map(inner).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(entries) => {
            let mut pairs = Vec::with_capacity(entries.len());
            for (key, value) in entries.iter() {
                pairs.push(format!("{}:{}", inner(key)?, inner(value)?));
            }
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Timestamp(_) | Value::Duration(_) => {
            match super::numbers::to_string(std::slice::from_ref(value)) {
                Ok(Value::String(text)) => text.to_string(),
                _ => return Err(NoStringForm { type_name: value.type_name(), is_inside: false }),
            }
        }
        _ => return Err(NoStringForm { type_name: value.type_name(), is_inside: false }),
    })
}

/// A value's type without a string form, and whether the value is inside a list or map.
struct NoStringForm<'v> {
    type_name: &'v str,
    is_inside: bool,
}

/// Formats a value inside a list or map as a CEL literal.
fn inner(value: &Value) -> Result<String, NoStringForm<'_>> {
    Ok(match value {
        Value::String(text) => strconv::quote(&**text),
        Value::Bytes(bytes) => format!("b{}", strconv::quote(&*String::from_utf8_lossy(bytes))),
        Value::Double(number) if number.is_nan() => "\"NaN\"".into(),
        Value::Double(number) if number.is_infinite() => {
            (if *number > 0.0 { "\"+Inf\"" } else { "\"-Inf\"" }).into()
        }
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::Timestamp(_) => format!("timestamp(\"{}\")", text(value)?),
        Value::Duration(_) => format!("duration(\"{}\")", text(value)?),
        other => text(other).map_err(|why| NoStringForm { is_inside: true, ..why })?,
    })
}

/// Quotes a string, escaping what literals cannot contain.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Checks a format string against its arguments.
/// Returns the offset of the offending argument, if there is one, and the message.
pub(crate) fn check(text: &str, values: &[&Expr], types: &Checked) -> Option<(Option<usize>, String)> {
    let mut next = 0;
    for piece in pieces(text) {
        match piece {
            Piece::Text(_) => {}
            Piece::Clause(clause) => {
                let clause = match clause_of(clause, next, values.len()) {
                    Ok(clause) => clause,
                    Err(why) => return Some((None, why)),
                };
                if let Some(culprit) = values.get(next).and_then(|value| clause.culprit(value, types)) {
                    return Some((Some(culprit.offset), clause.refusal(name(types.of(culprit)))));
                }
                next += 1;
            }
        }
    }
    let given = values.len();
    (given > next).then(|| {
        (None, format!("too many arguments supplied to string.format (expected {next}, got {given})"))
    })
}

/// Returns the name of a type without its parameters.
fn name(ty: &Type) -> &str {
    match ty {
        Type::Null => "null_type",
        Type::Bool => "bool",
        Type::Int => "int",
        Type::Uint => "uint",
        Type::Double => "double",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Duration => "google.protobuf.Duration",
        Type::List(_) => "list",
        Type::Map(..) => "map",
        Type::Object(object) => &object.name,
        Type::Optional(_) => "optional_type",
        Type::Type(_) => "type",
        Type::Opaque(name) => name,
        Type::Dyn | Type::Error | Type::Param(_) => "dyn",
    }
}

#[cfg(test)]
mod tests {
    use crate::{Environment, Program, Value};

    fn run(text: &str) -> Result<String, String> {
        let program = Program::compile(&Environment::new(), text).map_err(|e| e.to_string())?;
        match program.run([], 1_000_000).0 {
            Ok(Value::String(text)) => Ok(text.to_string()),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn texts_do_not_grow_without_end() {
        let tenfold = ".map(a, '%s%s%s%s%s%s%s%s%s%s'.format([a, a, a, a, a, a, a, a, a, a]))".repeat(12);
        let doubled = ".map(a, [a, a])".repeat(40);
        let bytes = format!("b'{}'", "x".repeat(90_000));
        let large = format!("'%s'.format([{bytes}]{})", ".map(a, [a, a])".repeat(7));
        for expression in [format!("['x']{tenfold}[0]"), format!("'%s'.format(['x']{doubled})"), large] {
            let refused = run(&expression).map(|text| text.len()).unwrap_err();
            assert!(refused.contains("actual cost limit exceeded"), "{refused}");
        }
    }

    #[test]
    fn values_are_written_as_kubernetes_writes_them() {
        for (expression, expected) in [
            (r#"'%d of %d'.format([1, 2u])"#, "1 of 2"),
            (r#"'%f'.format([1234567.891])"#, "1,234,567.891000"),
            (r#"'%.3f %%'.format([0.5])"#, "0.500 %"),
            (r#"'%e'.format([1234567.891])"#, "1.234568×10⁰⁶"),
            (r#"'%.2e'.format([0.00012345])"#, "1.234500×10⁻⁰⁴"),
            (r#"'%f'.format(['Infinity'])"#, "∞"),
            (r#"'%f'.format(['NaN'])"#, "NaN"),
            (r#"'%e'.format(['-Infinity'])"#, "    -∞"),
            (
                r#"'%s'.format([[1, 2.5, 'a', b'x', null, true, {'k': 1}]])"#,
                r#"[1, 2.500000, "a", b"x", null, true, {"k":1}]"#,
            ),
            (
                r#"'%s'.format([[duration('1h'), timestamp('2020-01-01T00:00:00Z')]])"#,
                r#"[duration("3600s"), timestamp("2020-01-01T00:00:00Z")]"#,
            ),
            (r#"'%s %s'.format([1.5, type(1)])"#, "1.5 int"),
            (r#"'%x %X %b %o'.format(['abc', -255, -5, 8u])"#, "616263 -FF -101 10"),
            (r#"strings.quote('a"b\n')"#, r#""a\"b\n""#),
        ] {
            assert_eq!(run(expression).as_deref(), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (expression, expected) in [
            (r#"'%d'.format(['a'])"#, "decimal clause can only be used on integers, was given string"),
            (r#"'%d %d'.format([1])"#, "index 1 out of range"),
            (r#"'%d'.format([1, 2])"#, "too many arguments supplied to string.format (expected 1, got 2)"),
            (r#"'%y'.format([1])"#, "unrecognized formatting clause \"y\""),
            (r#"'%'.format([1])"#, "unexpected end of string"),
            (r#"'%s'.format([quantity('1Gi')])"#, "was given kubernetes.Quantity"),
            (r#"'%s'.format([dyn(quantity('1Gi'))])"#, "was given kubernetes.Quantity"),
        ] {
            let error = run(expression).unwrap_err();
            assert!(error.contains(expected), "{expression}: {error}");
        }
    }
}
