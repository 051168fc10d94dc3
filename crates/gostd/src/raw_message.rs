/// A value of valid JSON text, unparsed, as Go's `json.RawMessage` holds it.
///
/// What was written is compared and copied without loss: `1` and `1.0` differ, and long numbers keep their digits.
/// The text is not validated. Of text that is not JSON, parts may be missing; nothing panics.
///
/// ```
/// use steersman_gostd::json::RawMessage;
///
/// let ports = RawMessage::new(r#"{"web": 80, "debug": [1.0, {"a": "]"}]}"#);
/// let (key, value) = ports.fields().unwrap().last().unwrap();
/// assert_eq!((key, value.get()), (r#""debug""#, r#"[1.0, {"a": "]"}]"#));
/// assert_eq!(value.items().unwrap().count(), 2);
/// assert!(value.fields().is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMessage<'a>(&'a str);

impl<'a> RawMessage<'a> {
    /// Wraps valid JSON text, without the whitespace around it.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self(text.trim_matches(is_space))
    }

    /// Returns the text as it was written.
    #[must_use]
    pub fn get(self) -> &'a str {
        self.0
    }

    /// Iterates over the fields of an object as written, duplicates included; `None` for other values.
    ///
    /// Keys are JSON strings, with their quotes and escapes.
    pub fn fields(self) -> Option<impl Iterator<Item = (&'a str, RawMessage<'a>)>> {
        let mut rest = self.0.strip_prefix('{')?;
        Some(std::iter::from_fn(move || {
            let key = next_value(&mut rest)?;
            rest = rest.trim_start_matches(is_space).strip_prefix(':')?;
            Some((key, RawMessage(next_value(&mut rest)?)))
        }))
    }

    /// Iterates over the items of an array; `None` for other values.
    pub fn items(self) -> Option<impl Iterator<Item = RawMessage<'a>>> {
        let mut rest = self.0.strip_prefix('[')?;
        Some(std::iter::from_fn(move || next_value(&mut rest).map(RawMessage)))
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// Takes the next value of a list or object off the text, if there is one before its end.
fn next_value<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start_matches(|character| character == ',' || is_space(character));
    let (value, after) = text.split_at_checked(value_length(text.as_bytes()))?;
    *rest = after;
    (!value.is_empty()).then_some(value)
}

/// The length of the value at the beginning: up to what ends it, or all.
fn value_length(text: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            // After a number, a boolean or null.
            b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

/// The place after the string that begins at a quote.
fn string_end(text: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Option<Vec<(&str, &str)>> {
        Some(RawMessage::new(text).fields()?.map(|(key, value)| (key, value.get())).collect())
    }

    fn items(text: &str) -> Option<Vec<&str>> {
        Some(RawMessage::new(text).items()?.map(RawMessage::get).collect())
    }

    #[test]
    fn values_are_as_written() {
        assert_eq!(
            items(" [1.0,\t-2e+9 , \"a\\\"],[\\\\\", true,null,{},[] , [[1, 2], {\"}\": \"]\"}]\n]\n")
                .unwrap(),
            ["1.0", "-2e+9", r#""a\"],[\\""#, "true", "null", "{}", "[]", r#"[[1, 2], {"}": "]"}]"#]
        );
        assert_eq!(
            fields("{\"a\":1,\n\t\"b:\\\"\" : {\"c\": [ ]} ,\"é\":\"ü\",\"a\" :null}").unwrap(),
            [("\"a\"", "1"), (r#""b:\"""#, "{\"c\": [ ]}"), ("\"é\"", "\"ü\""), ("\"a\"", "null")]
        );
        assert_eq!(RawMessage::new(" \r\n 1 ").get(), "1");
    }

    #[test]
    fn empty_containers_have_nothing_in_them() {
        assert_eq!(items("[ ]").unwrap(), [""; 0]);
        assert_eq!(fields("{\n}").unwrap(), []);
    }

    #[test]
    fn other_values_have_no_parts() {
        for text in ["1", "\"[\"", "null", "true", ""] {
            assert_eq!((fields(text), items(text)), (None, None), "{text}");
        }
        assert_eq!(fields("[1]"), None);
        assert_eq!(items("{\"a\": 1}"), None);
    }

    #[test]
    fn broken_text_does_no_harm() {
        let text = r#"{"a\u00e9": [1, {"b": "c\\", "ü": [true, null]}], "d": {}}"#;
        for from in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            for to in (from..=text.len()).filter(|&at| text.is_char_boundary(at)) {
                let part = RawMessage::new(&text[from..to]);
                assert!(part.fields().map_or(0, Iterator::count) < text.len());
                assert!(part.items().map_or(0, Iterator::count) < text.len());
            }
        }
        assert_eq!(items("[\"a\\").unwrap(), ["\"a\\"]);
        assert_eq!(fields("{\"a\" 1}").unwrap(), []);
    }
}
