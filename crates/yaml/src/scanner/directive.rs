//! Directives, tags and anchors.

use super::{Mark, Scanner, TagDirective, TagName, TokenKind};
use crate::error::Fault;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_uri(byte: u8) -> bool {
    is_word(byte) || b";/?:@&=+$,.!~*'()[]%".contains(&byte)
}

impl<'a> Scanner<'a> {
    /// Scans a directive, and returns its end, before comments and the line break.
    pub(super) fn scan_directive(&mut self) -> Result<(TokenKind<'a>, Mark), Fault> {
        self.cursor.skip_ascii(1);
        let name = self.scan_word()?;
        if name.is_empty() {
            return Err(self.error("could not find expected directive name"));
        }
        if !self.cursor.is_blank_or_end(0) {
            return Err(self.error("found unexpected non-alphabetical character"));
        }
        let kind = match name {
            "YAML" => self.scan_version()?,
            "TAG" => self.scan_tag_directive()?,
            _ => return Err(self.error("found unknown directive name")),
        };
        let end = self.cursor.mark();
        self.skip_rest_of_line()?;
        Ok((kind, end))
    }

    fn scan_word(&mut self) -> Result<&'a str, Fault> {
        let start = self.cursor.pos();
        while is_word(self.cursor.at(0)) {
            self.cursor.skip_ascii(1);
        }
        self.cursor.ensure(1)?;
        Ok(self.cursor.slice(start, self.cursor.pos()))
    }

    fn scan_version(&mut self) -> Result<TokenKind<'a>, Fault> {
        self.cursor.skip_blanks(true);
        let major = self.scan_version_number()?;
        if self.cursor.at(0) != b'.' {
            return Err(self.error("did not find expected digit or '.' character"));
        }
        self.cursor.skip_ascii(1);
        let minor = self.scan_version_number()?;
        Ok(TokenKind::VersionDirective { major, minor })
    }

    fn scan_version_number(&mut self) -> Result<i8, Fault> {
        self.cursor.ensure(1)?;
        let mut value: i8 = 0;
        let mut length = 0;
        while self.cursor.at(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                return Err(self.error("found extremely long version number"));
            }
            value = value.wrapping_mul(10).wrapping_add((self.cursor.at(0) - b'0') as i8);
            self.cursor.skip_ascii(1);
            self.cursor.ensure(1)?;
        }
        if length == 0 {
            return Err(self.error("did not find expected version number"));
        }
        Ok(value)
    }

    fn scan_tag_directive(&mut self) -> Result<TokenKind<'a>, Fault> {
        self.cursor.skip_blanks(true);
        let handle = self.scan_tag_handle(true)?.to_owned();
        self.cursor.ensure(1)?;
        if !self.cursor.is_blank() {
            return Err(self.error("did not find expected whitespace"));
        }
        self.cursor.skip_blanks(true);
        let prefix = self.scan_tag_uri("")?;
        self.cursor.ensure(1)?;
        if !self.cursor.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(TokenKind::TagDirective(Box::new(TagDirective { handle, prefix })))
    }

    pub(super) fn scan_anchor(&mut self) -> Result<&'a str, Fault> {
        self.cursor.skip_ascii(1);
        let name = self.scan_word()?;
        let ends = self.cursor.is_blank_or_end(0)
            || matches!(self.cursor.at(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(self.error("did not find expected alphabetic or numeric character"));
        }
        Ok(name)
    }

    pub(super) fn scan_tag(&mut self) -> Result<TagName, Fault> {
        self.cursor.ensure(2)?;
        let tag = if self.cursor.at(1) == b'<' {
            self.cursor.skip_ascii(2);
            let suffix = self.scan_tag_uri("")?;
            if self.cursor.at(0) != b'>' {
                return Err(self.error("did not find the expected '>'"));
            }
            self.cursor.skip_ascii(1);
            TagName { handle: String::new(), suffix }
        } else {
            let handle = self.scan_tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                TagName { handle: handle.to_owned(), suffix: self.scan_tag_uri("")? }
            } else {
                // `!name` is a handle only if a second `!` follows.
                let suffix = self.scan_tag_uri(handle)?;
                if suffix.is_empty() {
                    TagName { handle: suffix, suffix: "!".to_owned() }
                } else {
                    TagName { handle: "!".to_owned(), suffix }
                }
            }
        };
        self.cursor.ensure(1)?;
        if !self.cursor.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(tag)
    }

    fn scan_tag_handle(&mut self, directive: bool) -> Result<&'a str, Fault> {
        self.cursor.ensure(1)?;
        if self.cursor.at(0) != b'!' {
            return Err(self.error("did not find expected '!'"));
        }
        let start = self.cursor.pos();
        self.cursor.skip_ascii(1);
        let word = self.scan_word()?;
        if self.cursor.at(0) == b'!' {
            self.cursor.skip_ascii(1);
        } else if directive && !word.is_empty() {
            return Err(self.error("did not find expected '!'"));
        }
        Ok(self.cursor.slice(start, self.cursor.pos()))
    }

    /// Scans the rest of a tag. `head` is the part already scanned, including its `!`.
    fn scan_tag_uri(&mut self, head: &str) -> Result<String, Fault> {
        let mut octets = head.bytes().skip(1).collect::<Vec<_>>();
        self.cursor.ensure(1)?;
        let start = self.cursor.pos();
        while is_uri(self.cursor.at(0)) {
            if self.cursor.at(0) == b'%' {
                self.scan_uri_escape(&mut octets)?;
            } else {
                octets.push(self.cursor.at(0));
                self.cursor.skip_ascii(1);
            }
            self.cursor.ensure(1)?;
        }
        if head.is_empty() && self.cursor.pos() == start {
            return Err(self.error("did not find expected tag URI"));
        }
        Ok(String::from_utf8_lossy(&octets).into_owned())
    }

    /// Scans one character written as `%XX` octets.
    fn scan_uri_escape(&mut self, octets: &mut Vec<u8>) -> Result<(), Fault> {
        let mut left = None;
        while left != Some(0) {
            self.cursor.ensure(3)?;
            let digits =
                (char::from(self.cursor.at(1)).to_digit(16), char::from(self.cursor.at(2)).to_digit(16));
            let (b'%', (Some(high), Some(low))) = (self.cursor.at(0), digits) else {
                return Err(self.error("did not find URI escaped octet"));
            };
            let octet = (high << 4 | low) as u8;
            let rest = match (left, octet) {
                (None, 0x00..=0x7F) => 0,
                (None, 0xC0..=0xDF) => 1,
                (None, 0xE0..=0xEF) => 2,
                (None, 0xF0..=0xF7) => 3,
                (None, _) => return Err(self.error("found an incorrect leading UTF-8 octet")),
                (Some(left), 0x80..=0xBF) => left - 1,
                (Some(_), _) => return Err(self.error("found an incorrect trailing UTF-8 octet")),
            };
            left = Some(rest);
            octets.push(octet);
            self.cursor.skip_ascii(3);
        }
        Ok(())
    }
}
