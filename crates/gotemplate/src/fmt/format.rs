//! Parsing a format: verbs, flags, widths, precisions and argument indexes.

use super::{Fault, Layout, Printer};
use crate::value::Value;
use steersman_gostd::unicode;

/// Widths, precisions and argument indexes above this are rejected.
const MAX_NUMBER: i64 = 1_000_000;

/// Position while parsing a format.
struct Cursor<'a> {
    format: &'a [u8],
    at: usize,
    args: &'a [Value],
    /// Index of the next operand.
    arg: usize,
    /// Whether an index such as `[3]` was used anywhere.
    reordered: bool,
    /// Whether the indexes of this verb were valid so far.
    good_index: bool,
}

impl Printer<'_> {
    pub(super) fn printf(&mut self, format: &[u8], args: &[Value]) -> Result<(), Fault> {
        let mut cursor = Cursor { format, at: 0, args, arg: 0, reordered: false, good_index: true };
        while cursor.at < format.len() {
            let rest = format.get(cursor.at..).unwrap_or_default();
            let literal = rest.iter().position(|&b| b == b'%').unwrap_or(rest.len());
            self.out.extend_from_slice(rest.get(..literal).unwrap_or_default());
            self.check_size()?;
            cursor.at += literal;
            if cursor.peek().is_none() {
                break;
            }
            cursor.at += 1;
            if !self.verb(&mut cursor)? {
                break;
            }
        }
        if !cursor.reordered && cursor.arg < args.len() {
            self.extra(args.get(cursor.arg..).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Prints one `%...` directive. Returns false if the format ends within it.
    fn verb(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
        cursor.good_index = true;
        self.layout = Layout::default();
        (self.sharp_v, self.plus_v) = (false, false);
        while let Some(flag) = cursor.peek() {
            match flag {
                b'#' => self.layout.sharp = true,
                b'0' => self.layout.zero = true,
                b'+' => self.layout.plus = true,
                b'-' => self.layout.minus = true,
                b' ' => self.layout.space = true,
                _ => break,
            }
            cursor.at += 1;
        }
        let mut after_index = cursor.index();
        self.width(cursor, &mut after_index);
        self.precision(cursor, &mut after_index);
        if !after_index {
            cursor.index();
        }
        let Some((verb, width)) = unicode::decode(cursor.format.get(cursor.at..).unwrap_or_default()) else {
            self.text("%!(NOVERB)");
            return Ok(false);
        };
        cursor.at += width;
        let arg = cursor.args.get(cursor.arg);
        match (verb, arg) {
            ('%', _) => self.text("%"),
            _ if !cursor.good_index => self.complain(verb, "(BADINDEX)"),
            (_, None) => self.complain(verb, "(MISSING)"),
            (_, Some(arg)) => {
                if matches!(verb, 'v' | 'w') {
                    self.sharp_v = std::mem::take(&mut self.layout.sharp);
                    self.plus_v = std::mem::take(&mut self.layout.plus);
                }
                self.arg(arg, verb)?;
                cursor.arg += 1;
            }
        }
        Ok(true)
    }

    fn width(&mut self, cursor: &mut Cursor<'_>, after_index: &mut bool) {
        if cursor.peek() == Some(b'*') {
            cursor.at += 1;
            match cursor.int() {
                Some(width) => {
                    self.layout.width = usize::try_from(width.unsigned_abs()).ok();
                    if width < 0 {
                        self.layout.minus = true;
                        self.layout.zero = false;
                    }
                }
                None => self.text("%!(BADWIDTH)"),
            }
            *after_index = false;
        } else {
            self.layout.width = cursor.number();
            if *after_index && self.layout.width.is_some() {
                cursor.good_index = false;
            }
        }
    }

    fn precision(&mut self, cursor: &mut Cursor<'_>, after_index: &mut bool) {
        if cursor.peek() != Some(b'.') || cursor.at + 1 >= cursor.format.len() {
            return;
        }
        cursor.at += 1;
        if *after_index {
            cursor.good_index = false;
        }
        *after_index = cursor.index();
        if cursor.peek() == Some(b'*') {
            cursor.at += 1;
            self.layout.precision = cursor.int().and_then(|n| usize::try_from(n).ok());
            if self.layout.precision.is_none() {
                self.text("%!(BADPREC)");
            }
            *after_index = false;
        } else {
            self.layout.precision = Some(cursor.number().unwrap_or(0));
        }
    }

    fn complain(&mut self, verb: char, what: &str) {
        self.text("%!");
        unicode::push(self.out, verb);
        self.text(what);
    }

    /// Writes the error for unused operands: `%!(EXTRA string=hi, int=3)`.
    fn extra(&mut self, args: &[Value]) -> Result<(), Fault> {
        self.layout = Layout::default();
        (self.sharp_v, self.plus_v) = (false, false);
        self.text("%!(EXTRA ");
        for (i, arg) in args.iter().enumerate() {
            if i > 0 {
                self.text(", ");
            }
            if matches!(arg, Value::Nil) {
                self.text("<nil>");
            } else {
                self.text(arg.type_str());
                self.text("=");
                self.arg(arg, 'v')?;
            }
        }
        self.text(")");
        Ok(())
    }
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Parses a decimal number, if there is one. One that is too large ends the format.
    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let so_far: i64 = number.unwrap_or(0);
            if so_far > MAX_NUMBER {
                self.at = self.format.len();
                return None;
            }
            number = Some(so_far * 10 + i64::from(digit - b'0'));
            self.at += 1;
        }
        number.and_then(|n| usize::try_from(n).ok())
    }

    /// Parses an index such as `[3]` and makes that the next operand. Returns false if it is missing or malformed.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = self.format.get(self.at..).unwrap_or_default();
        let Some(close) = rest.iter().position(|&b| b == b']').filter(|_| rest.len() >= 3) else {
            self.good_index = false;
            self.at += 1;
            return false;
        };
        self.at += close + 1;
        let inside = rest.get(1..close).unwrap_or_default();
        let mut digits = Cursor { format: inside, at: 0, ..*self };
        let index = digits.number().filter(|_| digits.at == inside.len() && !inside.is_empty());
        match index.map(|index| index.checked_sub(1)) {
            Some(Some(index)) if index < self.args.len() => {
                self.arg = index;
                true
            }
            parsed => {
                self.good_index = false;
                parsed.is_some()
            }
        }
    }

    /// Takes the next operand as a width or precision; `None` unless an integer within [`MAX_NUMBER`].
    fn int(&mut self) -> Option<i64> {
        let arg = self.args.get(self.arg)?;
        self.arg += 1;
        let number = match arg.underlying().as_ref() {
            Value::Int(n, _) => *n,
            Value::Uint(n, _) => i64::try_from(*n).ok()?,
            _ => return None,
        };
        (-MAX_NUMBER..=MAX_NUMBER).contains(&number).then_some(number)
    }
}
