//! Composer: events to a flat list of nodes, and those to a value.
//!
//! Resolves aliases, merge keys, tags and repeated keys.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use steersman_gostd::unicode;

use crate::{
    Error, Mapping, Node,
    error::Fault,
    go,
    parser::{Event, EventKind, Parser, Properties},
    resolve::{Resolved, resolve},
    scanner::Mark,
};

/// Maximum nesting of collections.
///
/// goyaml allows 10000, for which the stack of a thread may not suffice in all the code that traverses values.
pub(crate) const MAX_DEPTH: usize = 500;

/// Maximum bytes of text that aliases may repeat. goyaml counts only nodes, so one long text could exhaust memory.
const MAX_REPEATED: usize = 64 << 20;

/// Prefix of the message about a key that JSON does not support.
const REFUSED_KEY: &str = "unsupported map key of type: ";

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// As in Go, bits after the last byte are ignored. Line breaks are removed beforehand.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A node of the document. Its descendants follow it, up to but not including `end`.
struct Item<'a> {
    kind: Kind<'a>,
    mark: Mark,
    end: usize,
}

enum Kind<'a> {
    Scalar { value: Cow<'a, str>, tag: Option<Box<str>>, implicit: bool },
    Sequence { length: usize },
    Mapping { length: usize },
    Alias { name: &'a str, target: usize },
}

/// Reads the first document. `problem` is the error that follows a text that was cut short.
pub(crate) fn load(text: &str, problem: Option<Error>, strict: bool) -> Result<Node<'_>, Fault> {
    let mut parser = Parser::new(text, problem);
    let mut items = Vec::new();
    let aliased = compose(&mut parser, &mut items)?;
    if items.is_empty() {
        return Ok(Node::Null);
    }
    let mut decoder = Decoder {
        items,
        aliased,
        strict,
        // The document itself counts as a node.
        decoded: 1,
        through_alias: 0,
        open_aliases: Vec::new(),
        depth: 0,
        duplicates: Vec::new(),
        first_duplicate: None,
        refused_key: false,
        infinite: false,
        go_keys: false,
        repeated: 0,
    };
    let node = decoder.decode(0)?;
    decoder.finish(node)
}

/// Appends the first document's nodes to `items` in input order. Returns whether it has aliases.
fn compose<'a>(parser: &mut Parser<'a>, items: &mut Vec<Item<'a>>) -> Result<bool, Fault> {
    parser.next()?;
    if !matches!(parser.next()?.kind, EventKind::DocumentStart) {
        return Ok(false);
    }
    let mut anchors: HashMap<&'a str, usize> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    let mut aliased = false;
    loop {
        let Event { kind, start: mark } = parser.next()?;
        let here = items.len();
        let mut anchor = |properties: &Properties<'a>| {
            if let Some(name) = properties.anchor {
                anchors.insert(name, here);
            }
        };
        let kind = match kind {
            EventKind::Scalar { value, implicit, properties } => {
                anchor(&properties);
                Kind::Scalar { value, tag: properties.tag, implicit }
            }
            EventKind::SequenceStart(properties) => {
                anchor(&properties);
                Kind::Sequence { length: 0 }
            }
            EventKind::MappingStart(properties) => {
                anchor(&properties);
                Kind::Mapping { length: 0 }
            }
            EventKind::Alias(name) => {
                aliased = true;
                let Some(&target) = anchors.get(name) else {
                    return Err(decode_error(format!("unknown anchor '{name}' referenced"), Some(mark)));
                };
                Kind::Alias { name, target }
            }
            EventKind::SequenceEnd | EventKind::MappingEnd => {
                if let Some(item) = open.pop().and_then(|at| items.get_mut(at)) {
                    item.end = here;
                }
                if open.is_empty() {
                    break;
                }
                continue;
            }
            EventKind::StreamStart
            | EventKind::StreamEnd
            | EventKind::DocumentStart
            | EventKind::DocumentEnd => break,
        };
        let opens = matches!(kind, Kind::Sequence { .. } | Kind::Mapping { .. });
        items.push(Item { kind, mark, end: here + 1 });
        if let Some(Kind::Sequence { length } | Kind::Mapping { length }) =
            open.last().and_then(|&at| items.get_mut(at)).map(|item| &mut item.kind)
        {
            *length += 1;
        }
        if opens {
            open.push(here);
            if open.len() > MAX_DEPTH {
                return Err(decode_error(format!("exceeded max depth of {MAX_DEPTH}"), Some(mark)));
            }
        } else if open.is_empty() {
            break;
        }
    }
    // Reads the end of the document, for errors that are only detected there.
    parser.next()?;
    Ok(aliased)
}

fn decode_error(problem: String, mark: Option<Mark>) -> Fault {
    Box::new(Error::Decode { problem, position: mark.map(Into::into) })
}

struct Decoder<'a> {
    items: Vec<Item<'a>>,
    /// Whether a node may be used more than once.
    aliased: bool,
    strict: bool,
    decoded: usize,
    through_alias: usize,
    open_aliases: Vec<usize>,
    depth: usize,
    duplicates: Vec<String>,
    first_duplicate: Option<Mark>,
    refused_key: bool,
    infinite: bool,
    /// Whether the value is only decoded for an error message, with keys as Go prints them.
    go_keys: bool,
    /// Bytes of text repeated by aliases.
    repeated: usize,
}

/// The pairs of a mapping while it is filled, and in strict mode the keys seen so far.
#[derive(Default)]
struct Pairs<'a> {
    pairs: Vec<(Cow<'a, str>, Node<'a>)>,
    /// Keys as Go prints them. The flag marks integers, since a float may look the same.
    seen: HashSet<(bool, String)>,
}

impl<'a> Decoder<'a> {
    /// Reports the errors that goyaml reports only after decoding the whole document, in its order.
    fn finish(self, node: Node<'a>) -> Result<Node<'a>, Fault> {
        if !self.duplicates.is_empty() {
            let position = self.first_duplicate.map(Into::into);
            return Err(Box::new(Error::Duplicate { problems: self.duplicates, position }));
        }
        if let Some(problem) = self.refused_key.then(|| first_refused_key(&node)).flatten() {
            return Err(Box::new(Error::NotJson(problem.to_owned())));
        }
        match self.infinite.then(|| first_infinite(&node)).flatten() {
            Some(value) => {
                let problem = format!("json: unsupported value: {}", go::float_general(value));
                Err(Box::new(Error::NotJson(problem)))
            }
            None => Ok(node),
        }
    }

    /// Counts a decoded node, and rejects documents that consist mostly of repeated aliases.
    fn count(&mut self, mark: Mark) -> Result<(), Fault> {
        self.decoded += 1;
        self.through_alias += usize::from(!self.open_aliases.is_empty());
        if self.through_alias > 100
            && self.decoded > 1000
            && self.through_alias as f64 / self.decoded as f64 > allowed_alias_ratio(self.decoded)
        {
            return Err(decode_error("document contains excessive aliasing".to_owned(), Some(mark)));
        }
        Ok(())
    }

    fn decode(&mut self, at: usize) -> Result<Node<'a>, Fault> {
        let mark = self.mark(at);
        self.count(mark)?;
        let Some(Item { kind, end, .. }) = self.items.get(at) else {
            return Ok(Node::Null);
        };
        let end = *end;
        match *kind {
            Kind::Scalar { .. } => self.scalar(at),
            Kind::Alias { name, target } => {
                self.enter_alias(at, name, mark)?;
                let node = self.decode(target);
                self.leave_alias();
                node
            }
            Kind::Sequence { length } => {
                self.enter(mark)?;
                let mut nodes = Vec::with_capacity(length);
                let mut child = at + 1;
                while child < end {
                    nodes.push(self.decode(child)?);
                    child = self.end_of(child);
                }
                self.depth -= 1;
                Ok(Node::Sequence(nodes))
            }
            Kind::Mapping { length } => {
                self.enter(mark)?;
                let mut pairs = Pairs { pairs: Vec::with_capacity(length / 2), seen: HashSet::new() };
                self.fill(at, &mut pairs)?;
                self.depth -= 1;
                Ok(Node::Mapping(Mapping::from_pairs(pairs.pairs)))
            }
        }
    }

    fn end_of(&self, at: usize) -> usize {
        self.items.get(at).map_or(usize::MAX, |item| item.end)
    }

    fn enter(&mut self, mark: Mark) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(decode_error(format!("exceeded max depth of {MAX_DEPTH}"), Some(mark)));
        }
        Ok(())
    }

    fn enter_alias(&mut self, at: usize, name: &str, mark: Mark) -> Result<(), Fault> {
        if self.open_aliases.contains(&at) {
            return Err(decode_error(format!("anchor '{name}' value contains itself"), Some(mark)));
        }
        self.open_aliases.push(at);
        self.enter(mark)
    }

    fn leave_alias(&mut self) {
        self.open_aliases.pop();
        self.depth -= 1;
    }

    /// Adds the pairs of the mapping at `at`, including those that it merges.
    fn fill(&mut self, at: usize, out: &mut Pairs<'a>) -> Result<(), Fault> {
        let end = self.end_of(at);
        let mut key_at = at + 1;
        while key_at < end {
            let value_at = self.end_of(key_at);
            let next = self.end_of(value_at);
            if self.is_merge(key_at) {
                self.merge(value_at, out)?;
            } else {
                let mark = self.mark(key_at);
                let go_keys = self.go_keys;
                self.go_keys = true;
                let key = self.decode(key_at)?;
                if matches!(key, Node::Sequence(_) | Node::Mapping(_)) {
                    return Err(decode_error(format!("invalid map key: {}", key.go_syntax()), Some(mark)));
                }
                self.go_keys = go_keys || matches!(key, Node::Null | Node::Uint(_));
                let value = self.decode(value_at)?;
                self.go_keys = go_keys;
                self.insert(key, value, value_at, out);
            }
            key_at = next;
        }
        Ok(())
    }

    fn insert(&mut self, key: Node<'a>, value: Node<'a>, value_at: usize, out: &mut Pairs<'a>) {
        if self.strict {
            let shown = if key == Node::Null { "<nil>".to_owned() } else { key.go_syntax() };
            let is_number = matches!(key, Node::Int(_) | Node::Uint(_));
            // NaN is not equal to any other NaN.
            if shown != "NaN" && !out.seen.insert((is_number, shown.clone())) {
                let mark = self.mark(value_at);
                self.first_duplicate.get_or_insert(mark);
                self.duplicates.push(format!("line {}: key {shown} already set in map", mark.line + 1));
                return;
            }
        }
        if self.go_keys {
            out.pairs.push((Cow::Owned(go_key(&key)), value));
            return;
        }
        let key = match key {
            Node::String(text) => text,
            Node::Int(number) => Cow::Owned(number.to_string()),
            Node::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
            Node::Float(number) => Cow::Owned(float_key(number)),
            Node::Uint(number) => {
                self.refuse_key("uint64", &format!("{number:#x}"), &value, out);
                return;
            }
            Node::Null | Node::Sequence(_) | Node::Mapping(_) => {
                self.refuse_key("%!s(<nil>)", "<nil>", &value, out);
                return;
            }
        };
        out.pairs.push((key, value));
    }

    /// Stores goyaml's error about a key in place of its pair.
    ///
    /// It is not reported at once because a later key may yet replace the enclosing mapping.
    fn refuse_key(&mut self, kind: &str, key: &str, value: &Node<'_>, out: &mut Pairs<'a>) {
        let value = if *value == Node::Null { "<nil>".to_owned() } else { value.go_syntax() };
        let problem = format!("{REFUSED_KEY}{kind}, key: {key}, value: {value}");
        out.pairs.push((Cow::Owned(format!("\0{key}")), Node::String(Cow::Owned(problem))));
        self.refused_key = true;
    }

    fn mark(&self, at: usize) -> Mark {
        self.items.get(at).map(|item| item.mark).unwrap_or_default()
    }

    fn is_merge(&self, at: usize) -> bool {
        match self.items.get(at).map(|item| &item.kind) {
            Some(Kind::Scalar { value, tag, implicit }) if value == "<<" => {
                *implicit || tag.as_deref() == Some("tag:yaml.org,2002:merge")
            }
            _ => false,
        }
    }

    /// Returns the kind of a node, or of the node that it is an alias of.
    fn kind(&self, at: usize) -> Option<&Kind<'a>> {
        match self.items.get(at).map(|item| &item.kind) {
            Some(Kind::Alias { target, .. }) => self.items.get(*target).map(|item| &item.kind),
            kind => kind,
        }
    }

    fn is_mapping(&self, at: usize) -> bool {
        matches!(self.kind(at), Some(Kind::Mapping { .. }))
    }

    /// Adds the pairs of a merged mapping, or of a list of mappings, of which the first one wins.
    fn merge(&mut self, at: usize, out: &mut Pairs<'a>) -> Result<(), Fault> {
        let mut sources = vec![at];
        if let Some(Item { kind: Kind::Sequence { .. }, end, .. }) = self.items.get(at) {
            sources.clear();
            let mut child = at + 1;
            while child < *end {
                sources.push(child);
                child = self.end_of(child);
            }
        }
        for &source in sources.iter().rev() {
            if !self.is_mapping(source) {
                let problem = "map merge requires map or sequence of maps as the value";
                return Err(decode_error(problem.to_owned(), Some(self.mark(source))));
            }
            self.fill_from(source, out)?;
        }
        Ok(())
    }

    fn fill_from(&mut self, at: usize, out: &mut Pairs<'a>) -> Result<(), Fault> {
        let mark = self.mark(at);
        self.count(mark)?;
        if let Some(Item { kind: Kind::Alias { name, target }, .. }) = self.items.get(at) {
            let (name, target) = (*name, *target);
            self.enter_alias(at, name, mark)?;
            self.fill_from(target, out)?;
            self.leave_alias();
            return Ok(());
        }
        self.enter(mark)?;
        self.fill(at, out)?;
        self.depth -= 1;
        Ok(())
    }

    fn scalar(&mut self, at: usize) -> Result<Node<'a>, Fault> {
        let aliased = self.aliased;
        let Some(Item { kind: Kind::Scalar { value, tag, implicit }, mark, .. }) = self.items.get_mut(at)
        else {
            return Ok(Node::Null);
        };
        if !self.open_aliases.is_empty() {
            self.repeated += value.len();
            if self.repeated > MAX_REPEATED {
                return Err(decode_error("document contains excessive aliasing".to_owned(), Some(*mark)));
            }
        }
        let text = |value: &mut Cow<'a, str>| {
            Node::String(if aliased { value.clone() } else { std::mem::take(value) })
        };
        let Some(tag) = tag.as_deref() else {
            if !*implicit {
                return Ok(text(value));
            }
            let node = match resolve(value, false) {
                Resolved::Null => Node::Null,
                Resolved::Bool(value) => Node::Bool(value),
                Resolved::Int(value) => Node::Int(value),
                Resolved::Uint(value) => Node::Uint(value),
                Resolved::Float(value) => {
                    self.infinite |= !value.is_finite();
                    Node::Float(value)
                }
                Resolved::Timestamp | Resolved::String => text(value),
            };
            return Ok(node);
        };
        let Some(kind) = tag.strip_prefix(TAG_PREFIX) else {
            return Ok(text(value));
        };
        let resolved = match kind {
            "str" => return Ok(text(value)),
            "binary" => {
                let encoded: Vec<u8> = value.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
                let Ok(bytes) = BASE64.decode(encoded) else {
                    return Err(decode_error(
                        "!!binary value contains invalid base64 data".to_owned(),
                        Some(*mark),
                    ));
                };
                return Ok(Node::String(Cow::Owned(unicode::to_utf8_lossy(&bytes))));
            }
            "bool" | "int" | "float" | "null" | "timestamp" => resolve(value, kind == "timestamp"),
            _ => return Ok(text(value)),
        };
        let node = match (kind, resolved) {
            ("null", Resolved::Null) => Node::Null,
            ("bool", Resolved::Bool(value)) => Node::Bool(value),
            ("int", Resolved::Int(value)) => Node::Int(value),
            ("int", Resolved::Uint(value)) => Node::Uint(value),
            ("float", Resolved::Float(value)) => {
                self.infinite |= !value.is_finite();
                Node::Float(value)
            }
            ("float", Resolved::Int(value)) => Node::Float(value as f64),
            ("timestamp", Resolved::Timestamp) => text(value),
            _ => {
                let problem = format!("cannot decode {} `{value}` as a !!{kind}", resolved.tag());
                return Err(decode_error(problem, Some(*mark)));
            }
        };
        Ok(node)
    }
}

/// Returns the maximum fraction of aliased nodes, which decreases with the size of the document.
fn allowed_alias_ratio(decoded: usize) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let decoded = decoded as f64;
    if decoded <= LOW {
        0.99
    } else if decoded >= HIGH {
        0.10
    } else {
        0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW))
    }
}

/// Formats a key for an error message: its sort key, a NUL, and the key as Go prints it.
fn go_key(key: &Node<'_>) -> String {
    let shown = key.go_syntax();
    match key {
        Node::Null => format!("0\0{shown}"),
        Node::String(text) => format!("1{text}\0{shown}"),
        _ => format!("2{shown}\0{shown}"),
    }
}

fn float_key(number: f64) -> String {
    match go::float_general_32(number).as_str() {
        "+Inf" => ".inf".to_owned(),
        "-Inf" => "-.inf".to_owned(),
        "NaN" => ".nan".to_owned(),
        text => text.to_owned(),
    }
}

fn first_refused_key<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    match node {
        Node::Sequence(items) => items.iter().find_map(first_refused_key),
        Node::Mapping(mapping) => mapping.iter().find_map(|(key, value)| match value {
            Node::String(problem) if key.starts_with('\0') && problem.starts_with(REFUSED_KEY) => {
                Some(&**problem)
            }
            _ => first_refused_key(value),
        }),
        _ => None,
    }
}

fn first_infinite(node: &Node<'_>) -> Option<f64> {
    match node {
        Node::Float(value) if !value.is_finite() => Some(*value),
        Node::Sequence(items) => items.iter().find_map(first_infinite),
        Node::Mapping(mapping) => mapping.iter().find_map(|(_, value)| first_infinite(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::allowed_alias_ratio;

    #[test]
    fn the_larger_a_document_the_fewer_of_its_nodes_may_be_aliases() {
        for (decoded, allowed) in [(0, 0.99), (400_000, 0.99), (4_000_000, 0.10), (5_000_000, 0.10)] {
            assert!((allowed_alias_ratio(decoded) - allowed).abs() < f64::EPSILON, "{decoded}");
        }
        for (decoded, allowed) in
            [(1_300_000, 0.7675), (2_200_000, 0.545), (3_100_000, 0.3225), (3_999_999, 0.10)]
        {
            assert!((allowed_alias_ratio(decoded) - allowed).abs() < 1e-6, "{decoded}");
        }
    }
}
