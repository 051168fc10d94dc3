//! The verbs of Go's `fmt` for basic kinds, under their flags, width and precision.
//!
//! Parsing the format and traversing values is left to the caller, which defines what a value is.

use crate::strconv;
use crate::unicode::{self, RUNE_ERROR};

/// The flags, width and precision of one verb. None is set by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Minimum width in characters.
    pub width: Option<usize>,
    /// Decimals of a number, or the maximum number of characters of a string.
    pub precision: Option<usize>,
    /// `-`: pads on the right.
    pub minus: bool,
    /// `+`: numbers show their sign, `%q` writes only ASCII.
    pub plus: bool,
    /// `#`: the alternate form.
    pub sharp: bool,
    /// ` `: a space where a plus sign would be, or between bytes in hexadecimal.
    pub space: bool,
    /// `0`: pads with zeros.
    pub zero: bool,
}

/// An integer's sign and magnitude.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    /// Whether it is below zero.
    pub negative: bool,
    /// Its absolute value.
    pub magnitude: u64,
    /// Go's conversion to `uint64`, which `%c`, `%q` and `%U` read.
    pub bits: u64,
}

impl Layout {
    fn fill(self, out: &mut Vec<u8>, count: usize) {
        let fill = if self.zero && !self.minus { b'0' } else { b' ' };
        out.resize(out.len() + count, fill);
    }

    /// Appends text padded to the width.
    pub fn pad(self, out: &mut Vec<u8>, text: &[u8]) {
        let padding = self.width.map_or(0, |width| width.saturating_sub(unicode::count(text)));
        if self.minus {
            out.extend_from_slice(text);
            self.fill(out, padding);
        } else {
            self.fill(out, padding);
            out.extend_from_slice(text);
        }
    }

    fn pad_with_spaces(mut self, out: &mut Vec<u8>, text: &[u8]) {
        self.zero = false;
        self.pad(out, text);
    }

    /// Cuts a string to the precision, counted in characters.
    fn truncate(self, text: &[u8]) -> &[u8] {
        let Some(precision) = self.precision else { return text };
        let end = unicode::chars(text).take(precision).map(|(_, raw)| raw.len()).sum();
        text.get(..end).unwrap_or(text)
    }

    /// Appends text as `%s` does.
    pub fn string(self, out: &mut Vec<u8>, text: &[u8]) {
        self.pad(out, self.truncate(text));
    }

    /// Appends text as `%q` does.
    pub fn quoted(self, out: &mut Vec<u8>, text: &[u8]) {
        let text = self.truncate(text);
        let mut quoted = Vec::new();
        if self.sharp && strconv::can_backquote(text) {
            quoted.push(b'`');
            quoted.extend_from_slice(text);
            quoted.push(b'`');
        } else {
            strconv::append_quote(&mut quoted, text, self.plus);
        }
        self.pad(out, &quoted);
    }

    /// Appends bytes as `%x` does, or as `%X` does if `upper`.
    pub fn hex(self, out: &mut Vec<u8>, text: &[u8], upper: bool) {
        let text = self.precision.and_then(|precision| text.get(..precision)).unwrap_or(text);
        if text.is_empty() {
            return self.fill(out, self.width.unwrap_or(0));
        }
        let prefix = if upper { "0X" } else { "0x" };
        let mut hex = String::with_capacity(text.len() * 2);
        for (i, byte) in text.iter().enumerate() {
            if i > 0 && self.space {
                hex.push(' ');
            }
            if self.sharp && (i == 0 || self.space) {
                hex.push_str(prefix);
            }
            hex.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.pad(out, hex.as_bytes());
    }

    /// Appends an integer as `%d`, `%b`, `%o`, `%O`, `%x` or `%X` does.
    pub fn integer(self, out: &mut Vec<u8>, number: Integer, verb: char) {
        let Integer { negative, magnitude, .. } = number;
        let mut precision = 0;
        if let Some(wanted) = self.precision {
            precision = wanted;
            if wanted == 0 && magnitude == 0 {
                let spaces = Self { zero: false, ..self };
                return spaces.fill(out, self.width.unwrap_or(0));
            }
        } else if let (true, false, Some(width)) = (self.zero, self.minus, self.width) {
            precision = width.saturating_sub(usize::from(negative || self.plus || self.space));
        }
        let digits = match verb {
            'b' => format!("{magnitude:b}"),
            'o' | 'O' => format!("{magnitude:o}"),
            'x' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            _ => magnitude.to_string(),
        };
        let zeros = precision.saturating_sub(digits.len());
        let mut text = String::with_capacity(digits.len() + zeros + 3);
        if negative {
            text.push('-');
        } else if self.plus {
            text.push('+');
        } else if self.space {
            text.push(' ');
        }
        if verb == 'O' {
            text.push_str("0o");
        }
        if self.sharp {
            match verb {
                'b' => text.push_str("0b"),
                'o' | 'O' if zeros == 0 && !digits.starts_with('0') => text.push('0'),
                'x' => text.push_str("0x"),
                'X' => text.push_str("0X"),
                _ => {}
            }
        }
        text.extend(std::iter::repeat_n('0', zeros));
        text.push_str(&digits);
        self.pad_with_spaces(out, text.as_bytes());
    }

    /// Appends a character as `%U` does: `U+0078`, or `U+0078 'x'` with `#`.
    pub fn unicode(self, out: &mut Vec<u8>, number: Integer) {
        let digits = self.precision.unwrap_or(0).max(4);
        let hex = format!("{:X}", number.bits);
        let mut text = String::from("U+");
        text.extend(std::iter::repeat_n('0', digits.saturating_sub(hex.len())));
        text.push_str(&hex);
        let shown =
            u32::try_from(number.bits).ok().and_then(char::from_u32).filter(|&c| unicode::is_print(c));
        if let (true, Some(c)) = (self.sharp, shown) {
            text.push_str(&format!(" '{c}'"));
        }
        self.pad_with_spaces(out, text.as_bytes());
    }

    /// Appends a character as `%c` does.
    pub fn character(self, out: &mut Vec<u8>, number: Integer) {
        self.pad(out, as_char(number).encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Appends a character as `%q` does.
    pub fn quoted_character(self, out: &mut Vec<u8>, number: Integer) {
        let mut quoted = Vec::new();
        strconv::append_quote_rune(&mut quoted, as_char(number), self.plus);
        self.pad(out, &quoted);
    }

    /// Appends a float as `%e`, `%f`, `%g`, `%x` or `%b` does.
    ///
    /// `precision` applies if the layout has none.
    pub fn float(self, out: &mut Vec<u8>, value: f64, single: bool, verb: u8, precision: Option<usize>) {
        let precision = self.precision.or(precision);
        let mut number = Vec::with_capacity(24);
        strconv::append_float(&mut number, value, verb, precision, single);
        let signed = matches!(number.first(), Some(b'-' | b'+'));
        let sign = if signed { number.remove(0) } else { b'+' };
        let sign = if self.space && sign == b'+' && !self.plus { b' ' } else { sign };
        if matches!(number.first(), Some(b'I' | b'N')) {
            let show = if value.is_nan() { self.space || self.plus } else { self.plus || sign != b'+' };
            if show || value.is_infinite() {
                // An infinity keeps the sign that strconv gave it.
                number.insert(0, sign);
            }
            return self.pad_with_spaces(out, &number);
        }
        if self.sharp && verb != b'b' {
            restore_point(&mut number, verb, precision);
        }
        if !self.plus && sign == b'+' {
            return self.pad(out, &number);
        }
        if let (true, false, Some(width)) = (self.zero, self.minus, self.width)
            && width > number.len() + 1
        {
            out.push(sign);
            self.fill(out, width - number.len() - 1);
            return out.extend_from_slice(&number);
        }
        number.insert(0, sign);
        self.pad(out, &number);
    }
}

fn as_char(number: Integer) -> char {
    u32::try_from(number.bits).ok().and_then(char::from_u32).unwrap_or(RUNE_ERROR)
}

/// Restores what `#` requires: a decimal point always, and the trailing zeros of `%g`.
fn restore_point(number: &mut Vec<u8>, verb: u8, precision: Option<usize>) {
    let mut digits = match verb {
        b'g' | b'G' | b'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let hexadecimal = matches!(verb, b'x' | b'X');
    let is_tail = |b: &u8| matches!(b, b'p' | b'P') || (!hexadecimal && matches!(b, b'e' | b'E'));
    let tail = number.iter().position(is_tail).map(|at| number.split_off(at)).unwrap_or_default();
    let significant = number.iter().filter(|&&b| b != b'.').skip_while(|&&b| b == b'0').count();
    digits = digits.saturating_sub(significant);
    if !number.contains(&b'.') {
        if number.as_slice() == b"0" {
            digits = digits.saturating_sub(1);
        }
        number.push(b'.');
    }
    number.resize(number.len() + digits, b'0');
    number.extend_from_slice(&tail);
}
