use serde_json::{Number, Value};
use steersman_gostd::unicode;

use super::FromJson;

use crate::{Error, compose::MAX_DEPTH, go};

/// Reads a value, and returns Go's error for the first number in it that is out of range, if any.
///
/// Callers report that error last: Go checks the grammar of the whole input first, and then the type of the value.
pub(super) fn from_slice<T: FromJson>(bytes: &[u8]) -> Result<(T, Option<Error>), Error> {
    let mut reader = Reader { bytes, pos: 0, depth: 0, out_of_range: None };
    reader.skip_space();
    let value = reader.value()?;
    reader.skip_space();
    if reader.pos < bytes.len() {
        return Err(reader.unexpected("after top-level value"));
    }
    Ok((value, reader.out_of_range))
}

impl FromJson for Value {
    fn null() -> Self {
        Value::Null
    }

    fn bool(value: bool) -> Self {
        Value::Bool(value)
    }

    fn number(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Number::from_f64).map(Value::Number)
    }

    fn string(text: String) -> Self {
        Value::String(text)
    }

    fn array(items: Vec<Self>) -> Self {
        Value::Array(items)
    }

    fn object(entries: Vec<(String, Self)>) -> Self {
        Value::Object(entries.into_iter().collect())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    depth: usize,
    out_of_range: Option<Error>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    fn skip_space(&mut self) {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        self.pos += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
    }

    /// Returns the error for the byte at the current position, or for the end of the input.
    fn unexpected(&self, context: &str) -> Error {
        let problem = match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quote_byte(byte)),
        };
        Error::Json { problem, offset: (self.pos + 1).min(self.bytes.len()) }
    }

    /// As [`Reader::unexpected`], within a word, number or escape, where Go reads a space at the end.
    fn cut_short(&self, context: &str) -> Error {
        match self.peek() {
            Some(_) => self.unexpected(context),
            None => Error::Json { problem: format!("invalid character ' ' {context}"), offset: self.pos },
        }
    }

    fn take(&mut self, allowed: impl Fn(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|&byte| allowed(byte))?;
        self.pos += 1;
        Some(byte)
    }

    fn value<T: FromJson>(&mut self) -> Result<T, Error> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(T::string),
            Some(b't') => self.word("true").map(|()| T::bool(true)),
            Some(b'f') => self.word("false").map(|()| T::bool(false)),
            Some(b'n') => self.word("null").map(|()| T::null()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested<T>(&mut self, read: fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.depth += 1;
        self.pos += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::Json { problem: "exceeded max depth".to_owned(), offset: self.pos });
        }
        self.skip_space();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object<T: FromJson>(&mut self) -> Result<T, Error> {
        let mut entries = Vec::new();
        if self.peek() == Some(b'}') {
            self.pos += 1;
            return Ok(T::object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            self.take(|byte| byte == b':').ok_or_else(|| self.unexpected("after object key"))?;
            self.skip_space();
            let value = self.value()?;
            entries.push((key, value));
            self.skip_space();
            match self.take(|byte| matches!(byte, b',' | b'}')) {
                Some(b'}') => return Ok(T::object(entries)),
                Some(_) => {}
                None => return Err(self.unexpected("after object key:value pair")),
            }
            self.skip_space();
        }
    }

    fn array<T: FromJson>(&mut self) -> Result<T, Error> {
        let mut array = Vec::new();
        if self.peek() == Some(b']') {
            self.pos += 1;
            return Ok(T::array(array));
        }
        loop {
            array.push(self.value()?);
            self.skip_space();
            match self.take(|byte| matches!(byte, b',' | b']')) {
                Some(b']') => return Ok(T::array(array)),
                Some(_) => {}
                None => return Err(self.unexpected("after array element")),
            }
            self.skip_space();
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        for expected in word.bytes() {
            if self.take(|byte| byte == expected).is_none() {
                return Err(
                    self.cut_short(&format!("in literal {word} (expecting {})", quote_byte(expected)))
                );
            }
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<u8, Error> {
        self.take(|byte| byte.is_ascii_digit()).ok_or_else(|| self.cut_short(context))
    }

    fn digits(&mut self) {
        while self.take(|byte| byte.is_ascii_digit()).is_some() {}
    }

    fn number<T: FromJson>(&mut self) -> Result<T, Error> {
        let start = self.pos;
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        let first = self.digit("in numeric literal")?;
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        let text = self
            .bytes
            .get(start..self.pos)
            .and_then(|text| std::str::from_utf8(text).ok())
            .unwrap_or_default();
        Ok(T::number(text).unwrap_or_else(|| {
            let problem = format!("json: cannot unmarshal number {text} into Go value of type float64");
            self.out_of_range.get_or_insert(Error::Type(problem));
            T::number("0").unwrap_or_else(T::null)
        }))
    }

    fn string(&mut self) -> Result<String, Error> {
        self.pos += 1;
        let start = self.pos;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        let (text, _) = rest.split_at(length.unwrap_or(rest.len()));
        self.pos += text.len();
        if self.peek() == Some(b'"') {
            self.pos += 1;
            return Ok(std::str::from_utf8(text).map_or_else(|_| unicode::to_utf8_lossy(text), str::to_owned));
        }
        let mut out = self.bytes.get(start..self.pos).unwrap_or_default().to_vec();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(unicode::to_utf8_lossy(&out));
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(byte @ 0x20..) => {
                    out.push(byte);
                    self.pos += 1;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.pos += 1;
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\x08',
            Some(b'f') => '\x0C',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.pos += 1;
                let character = self.unicode_escape()?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.cut_short("in string escape code")),
        };
        self.pos += 1;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char, Error> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.cut_short("in \\u hexadecimal character escape"));
            };
            self.pos += 1;
            unit = unit << 4 | digit;
        }
        if let (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) = (unit, self.following_unit()) {
            self.pos += 6;
            let value = 0x10000 + ((unit & 0x3FF) << 10) + (low & 0x3FF);
            return Ok(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Returns the code unit of a `\uXXXX` escape at the current position, if there is one.
    fn following_unit(&self) -> Option<u32> {
        let [b'\\', b'u', digits @ ..] = self.bytes.get(self.pos..self.pos + 6)? else {
            return None;
        };
        digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
    }
}

fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = go::quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}
