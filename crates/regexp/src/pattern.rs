//! Go's regular expression syntax, translated for the `regex` crate.
//!
//! That crate's own syntax is close but differs visibly: in Go, classes such as `\d` are ASCII, `a{,2}` and `[a&&b]`
//! are literal, flags apply from their position on, group names may repeat, and error messages differ.

/// Maximum height of the syntax tree, as in Go.
const MAX_DEPTH: usize = 1000;

/// A translated expression.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Expression in the syntax of the `regex` crate, with only unnamed groups.
    pub source: String,
    /// Names of the groups from index 0, empty for unnamed ones.
    pub names: Vec<String>,
}

/// Formats Go's error for an invalid expression.
pub fn syntax_error(what: &str, expr: &[u8]) -> String {
    format!("error parsing regexp: {what}: `{}`", String::from_utf8_lossy(expr))
}

/// Translates an expression; the error is Go's message.
pub fn translate(expr: &[u8]) -> Result<Pattern, String> {
    Parser {
        whole: expr,
        rest: expr,
        flags: Flags::default(),
        frames: vec![Frame::default()],
        names: vec![String::new()],
    }
    .parse()
    .map_err(|(what, expr)| syntax_error(what, &expr))
}

type Error = (&'static str, Vec<u8>);

const INVALID_CHAR_RANGE: &str = "invalid character class range";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_NAMED_CAPTURE: &str = "invalid named capture";
const INVALID_PERL_OP: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT_OP: &str = "invalid nested repetition operator";
const INVALID_REPEAT_SIZE: &str = "invalid repeat count";
const INVALID_UTF8: &str = "invalid UTF-8";
const MISSING_BRACKET: &str = "missing closing ]";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_REPEAT_ARGUMENT: &str = "missing argument to repetition operator";
const TRAILING_BACKSLASH: &str = "trailing backslash at end of expression";
const UNEXPECTED_PAREN: &str = "unexpected )";
const NESTING_DEPTH: &str = "expression nests too deeply";

/// Maximum product of nested repetition counts.
const MAX_REPEAT: u32 = 1000;

#[derive(Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    non_greedy: bool,
}

/// A complete part of the expression.
struct Piece {
    source: String,
    /// Height of Go's syntax tree for this part.
    height: usize,
    /// Counted repetitions inside this part.
    repeats: Vec<Repeat>,
}

struct Repeat {
    /// The larger bound of the count.
    count: u32,
    within: Vec<Repeat>,
}

impl Repeat {
    fn fits(&self, limit: u32) -> bool {
        self.count == 0
            || (self.count <= limit && self.within.iter().all(|repeat| repeat.fits(limit / self.count)))
    }
}

/// An open group.
#[derive(Default)]
struct Frame {
    /// Flags to restore when the group closes.
    flags: Flags,
    captures: bool,
    /// Completed alternatives.
    alternatives: Vec<Piece>,
    /// Parts of the current alternative.
    pieces: Vec<Piece>,
}

impl Frame {
    fn end_alternative(&mut self) {
        let joined = combine(std::mem::take(&mut self.pieces), "");
        self.alternatives.push(joined);
    }

    fn close(mut self) -> Piece {
        self.end_alternative();
        let several = self.alternatives.len() > 1;
        let mut piece = combine(self.alternatives, "|");
        if self.captures {
            piece.source = format!("({})", piece.source);
            piece.height += 1;
        } else if several {
            piece.source = format!("(?:{})", piece.source);
        }
        piece
    }
}

fn combine(pieces: Vec<Piece>, separator: &str) -> Piece {
    let several = pieces.len() > 1;
    let height = pieces.iter().map(|piece| piece.height).max().unwrap_or(1) + usize::from(several);
    let source = pieces.iter().map(|piece| piece.source.as_str()).collect::<Vec<_>>().join(separator);
    Piece { source, height, repeats: pieces.into_iter().flat_map(|piece| piece.repeats).collect() }
}

struct Parser<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
    flags: Flags,
    frames: Vec<Frame>,
    names: Vec<String>,
}

impl<'a> Parser<'a> {
    fn parse(mut self) -> Result<Pattern, Error> {
        // Start of the last repetition operator, if that directly precedes the current position.
        let mut last_repeat = None;
        while let Some(first) = self.rest.first() {
            let mut repeat = None;
            match first {
                b'(' if self.rest.starts_with(b"(?") => self.perl_group()?,
                b'(' => {
                    self.names.push(String::new());
                    self.open(true)?;
                    self.skip(1);
                }
                b'|' => {
                    self.frame().end_alternative();
                    self.skip(1);
                }
                b')' => {
                    self.close_group()?;
                    self.skip(1);
                }
                b'^' => self.operator(if self.flags.multi_line { "(?m:^)" } else { r"\A" }, 1),
                b'$' => self.operator(if self.flags.multi_line { "(?m:$)" } else { r"\z" }, 1),
                b'.' => self.operator(if self.flags.dot_newline { "(?s:.)" } else { r"[^\n]" }, 1),
                b'[' => self.class()?,
                b'*' | b'+' | b'?' => {
                    let before = self.rest;
                    let operator = match first {
                        b'*' => "*",
                        b'+' => "+",
                        _ => "?",
                    };
                    self.skip(1);
                    self.repeat(operator, None, before, last_repeat)?;
                    repeat = Some(before);
                }
                b'{' => match parse_repeat(self.rest) {
                    None => {
                        self.literal('{');
                        self.skip(1);
                    }
                    Some((bounds, after)) => {
                        let before = self.rest;
                        let text = || before.get(..before.len() - after.len()).unwrap_or_default().to_vec();
                        let Some((min, max)) = bounds else { return Err((INVALID_REPEAT_SIZE, text())) };
                        self.rest = after;
                        let operator = match max {
                            Some(max) => format!("{{{min},{max}}}"),
                            None => format!("{{{min},}}"),
                        };
                        self.repeat(&operator, Some(max.unwrap_or(min)), before, last_repeat)?;
                        repeat = Some(before);
                    }
                },
                b'\\' => self.escape()?,
                _ => {
                    let c = self.next_char()?;
                    self.literal(c);
                }
            }
            last_repeat = repeat;
        }
        let Some(frame) = self.frames.pop().filter(|_| self.frames.is_empty()) else {
            return Err((MISSING_PAREN, self.whole.to_vec()));
        };
        let piece = frame.close();
        self.check_height(piece.height)?;
        Ok(Pattern { source: piece.source, names: self.names })
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn check_height(&self, height: usize) -> Result<(), Error> {
        if height > MAX_DEPTH { Err((NESTING_DEPTH, self.whole.to_vec())) } else { Ok(()) }
    }

    /// Returns the input from `start` up to the current position.
    fn since(&self, start: &[u8]) -> Vec<u8> {
        start.get(..start.len() - self.rest.len()).unwrap_or(start).to_vec()
    }

    fn next_char(&mut self) -> Result<char, Error> {
        match first_char(self.rest) {
            // Go decodes this character at the end; callers only reject it as one that does not fit.
            None => Ok(char::REPLACEMENT_CHARACTER),
            Some((char::REPLACEMENT_CHARACTER, 1)) => Err((INVALID_UTF8, self.rest.to_vec())),
            Some((c, len)) => {
                self.skip(len);
                Ok(c)
            }
        }
    }

    fn push(&mut self, source: String) {
        self.frame().pieces.push(Piece { source, height: 1, repeats: Vec::new() });
    }

    fn operator(&mut self, source: &str, len: usize) {
        self.push(source.into());
        self.skip(len);
    }

    fn literal(&mut self, c: char) {
        let escaped = format!(r"\x{{{:x}}}", u32::from(c));
        self.push(if self.flags.fold_case { format!("(?i:{escaped})") } else { escaped });
    }

    fn open(&mut self, captures: bool) -> Result<(), Error> {
        self.check_height(self.frames.len())?;
        self.frames.push(Frame { flags: self.flags, captures, ..Frame::default() });
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), Error> {
        match self.frames.pop() {
            Some(frame) if !self.frames.is_empty() => {
                self.flags = frame.flags;
                let piece = frame.close();
                self.check_height(piece.height)?;
                self.frame().pieces.push(piece);
                Ok(())
            }
            _ => Err((UNEXPECTED_PAREN, self.whole.to_vec())),
        }
    }

    /// Applies a repetition that begins at `before`; `count` is the larger bound of a counted one.
    fn repeat(
        &mut self,
        operator: &str,
        count: Option<u32>,
        before: &[u8],
        last_repeat: Option<&[u8]>,
    ) -> Result<(), Error> {
        let mut non_greedy = self.flags.non_greedy;
        if self.rest.starts_with(b"?") {
            self.skip(1);
            non_greedy = !non_greedy;
        }
        if let Some(last) = last_repeat {
            return Err((INVALID_REPEAT_OP, self.since(last)));
        }
        let text = self.since(before);
        let Some(piece) = self.frame().pieces.pop() else { return Err((MISSING_REPEAT_ARGUMENT, text)) };
        let source = format!("(?:{}){operator}{}", piece.source, if non_greedy { "?" } else { "" });
        let height = piece.height + 1;
        let repeats = match count {
            None => piece.repeats,
            Some(count) => {
                let repeat = Repeat { count, within: piece.repeats };
                if count >= 2 && !repeat.fits(MAX_REPEAT) {
                    return Err((INVALID_REPEAT_SIZE, text));
                }
                vec![repeat]
            }
        };
        self.check_height(height)?;
        self.frame().pieces.push(Piece { source, height, repeats });
        Ok(())
    }

    /// Parses a group that begins with `(?`, or a setting of flags.
    fn perl_group(&mut self) -> Result<(), Error> {
        let start = self.rest;
        let named = if start.len() > 4 && start.starts_with(b"(?P<") {
            Some(4)
        } else if start.len() > 3 && start.starts_with(b"(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(name_at) = named {
            let Some(end) = memchr::memchr(b'>', start) else {
                check_utf8(start)?;
                return Err((INVALID_NAMED_CAPTURE, start.to_vec()));
            };
            let name = start.get(name_at..end).unwrap_or_default();
            check_utf8(name)?;
            if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                return Err((INVALID_NAMED_CAPTURE, start.get(..=end).unwrap_or_default().to_vec()));
            }
            self.names.push(String::from_utf8_lossy(name).into_owned());
            self.open(true)?;
            self.skip(end + 1);
            return Ok(());
        }
        self.skip(2);
        let mut flags = self.flags;
        let mut on = true;
        let mut saw_flag = false;
        while !self.rest.is_empty() {
            match self.next_char()? {
                'i' => flags.fold_case = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.non_greedy = on,
                '-' if on => {
                    on = false;
                    saw_flag = false;
                    continue;
                }
                c @ (':' | ')') if on || saw_flag => {
                    if c == ':' {
                        self.open(false)?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            saw_flag = true;
        }
        Err((INVALID_PERL_OP, self.since(start)))
    }

    fn escape(&mut self) -> Result<(), Error> {
        match self.rest.get(1) {
            Some(b'A') => self.operator(r"\A", 2),
            Some(b'b') => self.operator(r"(?-u:\b)", 2),
            Some(b'B') => self.operator(r"(?-u:\B)", 2),
            Some(b'z') => self.operator(r"\z", 2),
            Some(b'C') => return Err((INVALID_ESCAPE, br"\C".to_vec())),
            Some(b'Q') => {
                let text = self.rest.get(2..).unwrap_or_default();
                let end = memchr::memmem::find(text, br"\E");
                let after = end.map_or(&[][..], |end| text.get(end + 2..).unwrap_or_default());
                self.rest = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
                while !self.rest.is_empty() {
                    let c = self.next_char()?;
                    self.literal(c);
                }
                self.rest = after;
            }
            _ => {
                if let Some(class) = self.class_escape()? {
                    let class = format!("[{class}]");
                    self.push(if self.flags.fold_case { format!("(?i:{class})") } else { class });
                } else {
                    match self.char_escape()? {
                        Some(c) => self.literal(c),
                        None => self.push(NO_CHARACTER.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Parses a class such as `\d` or `\p{Greek}` into an item of a bracketed class.
    fn class_escape(&mut self) -> Result<Option<String>, Error> {
        let perl = match self.rest.get(..2) {
            Some(br"\d") => "[0-9]",
            Some(br"\D") => "[^0-9]",
            Some(br"\s") => r"[\t\n\x0C\r ]",
            Some(br"\S") => r"[^\t\n\x0C\r ]",
            Some(br"\w") => "[0-9A-Za-z_]",
            Some(br"\W") => "[^0-9A-Za-z_]",
            Some(br"\p" | br"\P") => return self.unicode_class().map(Some),
            _ => return Ok(None),
        };
        self.skip(2);
        Ok(Some(perl.into()))
    }

    fn unicode_class(&mut self) -> Result<String, Error> {
        let start = self.rest;
        let mut negated = start.starts_with(br"\P");
        self.skip(2);
        let name = if self.next_char()? == '{' {
            let Some(end) = memchr::memchr(b'}', start) else {
                check_utf8(start)?;
                return Err((INVALID_CHAR_RANGE, start.to_vec()));
            };
            self.rest = start.get(end + 1..).unwrap_or_default();
            start.get(3..end).unwrap_or_default()
        } else {
            start.get(2..start.len() - self.rest.len()).unwrap_or_default()
        };
        check_utf8(name)?;
        let name = name.strip_prefix(b"^").map_or(name, |name| {
            negated = !negated;
            name
        });
        let property = unicode_property(name).ok_or_else(|| (INVALID_CHAR_RANGE, self.since(start)))?;
        Ok(format!(r"\{}{{{property}}}", if negated { 'P' } else { 'p' }))
    }

    /// Parses an escaped character; `None` for a surrogate code point, which matches nothing.
    fn char_escape(&mut self) -> Result<Option<char>, Error> {
        let start = self.rest;
        self.skip(1);
        if self.rest.is_empty() {
            return Err((TRAILING_BACKSLASH, Vec::new()));
        }
        let is_octal = |rest: &[u8]| rest.first().is_some_and(|b| (b'0'..=b'7').contains(b));
        let c = self.next_char()?;
        let plain = match c {
            'a' => Some('\x07'),
            'f' => Some('\x0C'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0B'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        if plain.is_some() {
            return Ok(plain);
        }
        match c {
            '0'..='7' if c == '0' || is_octal(self.rest) => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    if let Some(digit) = self.rest.first().filter(|_| is_octal(self.rest)) {
                        code = code * 8 + u32::from(digit - b'0');
                        self.skip(1);
                    }
                }
                Ok(char::from_u32(code))
            }
            'x' if !self.rest.is_empty() => self.hex_escape(start),
            _ => Err((INVALID_ESCAPE, self.since(start))),
        }
    }

    fn hex_escape(&mut self, start: &[u8]) -> Result<Option<char>, Error> {
        let c = self.next_char()?;
        let mut code = 0;
        if c == '{' {
            let mut digits = 0;
            while !self.rest.is_empty() {
                match self.next_char()? {
                    '}' if digits > 0 => return Ok(char::from_u32(code)),
                    c => match c.to_digit(16) {
                        Some(digit) if code * 16 + digit <= u32::from(char::MAX) => {
                            code = code * 16 + digit;
                            digits += 1;
                        }
                        _ => break,
                    },
                }
            }
            return Err((INVALID_ESCAPE, self.since(start)));
        }
        let second = self.next_char()?;
        match (c.to_digit(16), second.to_digit(16)) {
            (Some(high), Some(low)) => Ok(char::from_u32(high * 16 + low)),
            _ => Err((INVALID_ESCAPE, self.since(start))),
        }
    }

    /// Parses a bracketed class.
    fn class(&mut self) -> Result<(), Error> {
        let start = self.rest;
        self.skip(1);
        let negated = self.rest.starts_with(b"^");
        if negated {
            self.skip(1);
        }
        let mut items = String::new();
        let mut first = true;
        while first || !self.rest.starts_with(b"]") {
            first = false;
            if self.rest.starts_with(b"[:")
                && let Some(end) = self.rest.get(2..).and_then(|rest| memchr::memmem::find(rest, b":]"))
            {
                let name = self.rest.get(..end + 4).unwrap_or_default();
                items.push_str(&posix_class(name).ok_or_else(|| (INVALID_CHAR_RANGE, name.to_vec()))?);
                self.skip(end + 4);
            } else if let Some(class) = self.class_escape()? {
                items.push_str(&class);
            } else {
                let range = self.rest;
                let low = self.class_char(start)?;
                let mut high = low;
                if self.rest.len() >= 2 && self.rest.starts_with(b"-") && self.rest.get(1) != Some(&b']') {
                    self.skip(1);
                    high = self.class_char(start)?;
                    if high < low {
                        return Err((INVALID_CHAR_RANGE, self.since(range)));
                    }
                }
                push_range(&mut items, low, high);
            }
        }
        self.skip(1);
        let class = match (negated, items.is_empty()) {
            (false, true) => NO_CHARACTER.into(),
            (true, true) => "(?s:.)".into(),
            (false, false) => format!("[{items}]"),
            (true, false) => format!("[^{items}]"),
        };
        self.push(if self.flags.fold_case { format!("(?i:{class})") } else { class });
        Ok(())
    }

    /// Returns the code point of the next character in a class that began at `class`.
    fn class_char(&mut self, class: &[u8]) -> Result<u32, Error> {
        match self.rest.first() {
            None => Err((MISSING_BRACKET, class.to_vec())),
            Some(b'\\') => {
                let start = self.rest;
                // Only surrogates are code points without a character.
                Ok(self.char_escape()?.map_or_else(|| surrogate(start), u32::from))
            }
            Some(_) => self.next_char().map(u32::from),
        }
    }
}

/// A class that matches nothing.
const NO_CHARACTER: &str = r"[^\x{0}-\x{10FFFF}]";

/// Returns the code point of an escape such as `\x{D800}`.
fn surrogate(escape: &[u8]) -> u32 {
    let digits = escape.iter().skip(3).take_while(|b| b.is_ascii_hexdigit());
    digits
        .fold(0, |code, digit| code * 16 + char::from(*digit).to_digit(16).unwrap_or(0))
        .clamp(0xD800, 0xDFFF)
}

fn push_range(items: &mut String, low: u32, high: u32) {
    // Surrogates at either end of a range are left out.
    let low = if (0xD800..=0xDFFF).contains(&low) { 0xE000 } else { low };
    let high = if (0xD800..=0xDFFF).contains(&high) { 0xD7FF } else { high };
    if low <= high {
        items.push_str(&format!(r"\x{{{low:x}}}-\x{{{high:x}}}"));
    }
}

/// Decodes the first character and its length; an invalid byte is U+FFFD of length 1. `None` at the end.
fn first_char(bytes: &[u8]) -> Option<(char, usize)> {
    let window = bytes.get(..4.min(bytes.len()))?;
    if window.is_empty() {
        return None;
    }
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(window.get(..error.valid_up_to())?).ok()?,
    };
    Some(valid.chars().next().map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8())))
}

fn check_utf8(text: &[u8]) -> Result<(), Error> {
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err((INVALID_UTF8, text.get(error.valid_up_to()..).unwrap_or_default().to_vec())),
    }
}

type Bounds = (u32, Option<u32>);

/// Parses `{min}`, `{min,}` or `{min,max}`, returned with the rest; `None` for any other form.
///
/// The bounds are `None` if they are too large or in the wrong order.
fn parse_repeat(text: &[u8]) -> Option<(Option<Bounds>, &[u8])> {
    let (min, rest) = parse_count(text.strip_prefix(b"{")?)?;
    let (max, rest) = match rest.strip_prefix(b",") {
        None => (Some(min), rest),
        Some(rest) if rest.starts_with(b"}") => (None, rest),
        Some(rest) => {
            let (max, rest) = parse_count(rest)?;
            (Some(max), rest)
        }
    };
    let rest = rest.strip_prefix(b"}")?;
    let fits = min <= MAX_REPEAT && max.is_none_or(|max| max <= MAX_REPEAT && min <= max);
    Some((fits.then_some((min, max)), rest))
}

/// Parses a decimal number without leading zeros; one above any limit becomes `u32::MAX`.
fn parse_count(text: &[u8]) -> Option<(u32, &[u8])> {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(len)?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with(b"0")) {
        return None;
    }
    Some((std::str::from_utf8(digits).ok()?.parse().unwrap_or(u32::MAX), rest))
}

/// Returns a class such as `[:alpha:]` or `[:^alpha:]` as an item of a bracketed class.
///
/// Both syntaxes write these alike.
fn posix_class(name: &[u8]) -> Option<String> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
        "upper", "word", "xdigit",
    ];
    let name = std::str::from_utf8(name).ok()?;
    let bare = name.strip_prefix("[:")?.strip_suffix(":]")?;
    NAMES.contains(&bare.strip_prefix('^').unwrap_or(bare)).then(|| format!("[{name}]"))
}

/// Returns the property with this name in Go: a general category, a script, or one of three more.
fn unicode_property(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ')) {
        return None;
    }
    let candidates = [format!("gc={name}"), format!("sc={name}"), name.to_owned()];
    let known = |property: &&String| {
        let special = ["any", "assigned", "ascii"].contains(&property.to_ascii_lowercase().as_str());
        (property.contains('=') || special) && regex_syntax::parse(&format!(r"\p{{{property}}}")).is_ok()
    };
    candidates.iter().find(known).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_in_go() {
        for (expr, error) in [
            ("[a", "missing closing ]: `[a`"),
            ("a(b", "missing closing ): `a(b`"),
            ("a)", "unexpected ): `a)`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(x{30}){40}", "invalid repeat count: `{40}`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?P<n>a", "missing closing ): `(?P<n>a`"),
            ("(?P<>a)", "invalid named capture: `(?P<>`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(translate(expr.as_bytes()), Err(format!("error parsing regexp: {error}")), "{expr}");
        }
    }

    #[test]
    fn deep_nesting_ends() {
        let expr = "(".repeat(100_000);
        assert!(translate(expr.as_bytes()).unwrap_err().contains("expression nests too deeply"));
    }
}
