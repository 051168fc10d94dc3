//! Randomly generated values in templates: keeping those of the last revision.
//!
//! A field that differs between two renders of the same chart with the same values is random, or derived from something
//! random. Such fields keep the value of the last revision, if it had them. Within a string only the lines that differ are
//! kept, and within a line only the part that differs: the rest of a configuration file follows the values. Where the
//! former random part cannot be determined with certainty, the whole former string is kept: a password that is kept too
//! long can be changed, one mixed with other text is lost.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use steersman_chart::{Manifest, Rendered};

use crate::error::Result;
use crate::object::documents;
use crate::record::Release;

/// Identity of an object within a manifest.
type Key = (String, String, String, String);

fn key(document: &Value) -> Key {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |name: &str| text(document.get("metadata").and_then(|metadata| metadata.get(name)));
    let group = text(document.get("apiVersion"));
    let group = group.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    (group, text(document.get("kind")), metadata("namespace"), metadata("name"))
}

/// Replaces the fields of `rendered` that `again` shows to be random by those of the last revision.
pub(crate) fn keep(rendered: &mut Rendered, again: &Rendered, last: &Release) -> Result<()> {
    let mut known: HashMap<Key, Value> = HashMap::new();
    for document in documents(&last.manifest)? {
        known.insert(key(&document), document);
    }
    for hook in &last.hooks {
        for document in documents(&hook.manifest)? {
            known.insert(key(&document), document);
        }
    }
    // The record of a release has a line break after each manifest, and none after a hook. It becomes part of a block
    // scalar at the end.
    let manifests = rendered.manifests.iter_mut().zip(&again.manifests);
    let manifests = manifests.map(|(manifest, other)| Pair { manifest, other, ending: "\n" });
    let hooks = rendered.hooks.iter_mut().zip(&again.hooks);
    let hooks =
        hooks.map(|(hook, other)| Pair { manifest: &mut hook.manifest, other: &other.manifest, ending: "" });
    let (configs, others): (Vec<_>, Vec<_>) =
        manifests.chain(hooks).partition(|pair| is_config(&pair.manifest.kind));
    let mut gone: HashSet<&Key> = known.keys().filter(|(_, kind, ..)| is_config(kind)).collect();
    let mut same = true;
    for mut pair in configs {
        pair.keep(&known, Checksums::Keep)?;
        for document in pair.read(&pair.manifest.content)? {
            let key = key(&document);
            gone.remove(&key);
            same &= known.get(&key).is_some_and(|before| content(before) == content(&document));
        }
    }
    // The checksum of a random value does not fit the value that is kept. If the kept configuration has changed, pods
    // must be restarted: any new checksum will do. The next render finds the configuration unchanged, and keeps the
    // checksum.
    let checksums = if same && gone.is_empty() { Checksums::Keep } else { Checksums::Follow };
    for mut pair in others {
        pair.keep(&known, checksums)?;
    }
    Ok(())
}

/// How to treat a checksum that differs between renders.
#[derive(Clone, Copy, PartialEq)]
enum Checksums {
    /// Keep it: the configuration did not change.
    Keep,
    /// Use that of this render, so that pods are recreated.
    Follow,
}

fn is_config(kind: &str) -> bool {
    matches!(kind, "ConfigMap" | "Secret")
}

/// Returns the part of a configuration that pods see.
fn content(document: &Value) -> [Option<&Value>; 3] {
    ["data", "binaryData", "stringData"].map(|field| document.get(field))
}

/// A manifest, and the same manifest rendered again.
struct Pair<'a> {
    manifest: &'a mut Manifest,
    other: &'a Manifest,
    /// What follows it in the record of a release: a line break, or nothing.
    ending: &'static str,
}

impl Pair<'_> {
    fn read(&self, content: &str) -> Result<Vec<Value>> {
        documents(&format!("{content}{}", self.ending))
    }

    /// Replaces the random fields by those of the known object.
    fn keep(&mut self, known: &HashMap<Key, Value>, checksums: Checksums) -> Result<()> {
        if self.manifest.content == self.other.content {
            return Ok(());
        }
        let (ours, theirs) = (self.read(&self.manifest.content)?, self.read(&self.other.content)?);
        let ([ours], [theirs]) = (ours.as_slice(), theirs.as_slice()) else { return Ok(()) };
        let Some(before) = known.get(&key(ours)) else { return Ok(()) };
        let (mut merged, mut theirs) = (ours.clone(), theirs.clone());
        // A Job cannot be changed, and its pods cannot be recreated.
        if checksums == Checksums::Follow && self.manifest.kind != "Job" {
            agree_on_checksums(&mut theirs, ours);
        }
        let (mut taken, mut settled) = (false, None);
        if self.manifest.kind == "Secret"
            && let Some(data) = merged.get_mut("data").and_then(Value::as_object_mut)
        {
            taken = settle_data(data, theirs.get("data"), before.get("data"));
            // The data are settled: the comparison with the other render must not touch them again.
            settled = Some(std::mem::take(data));
            if let Some(other) = theirs.get_mut("data").and_then(Value::as_object_mut) {
                other.clear();
            }
        }
        taken |= settle(&mut merged, &theirs, before);
        if let (Some(data), Some(place)) = (settled, merged.get_mut("data")) {
            *place = Value::Object(data);
        }
        if taken && let Ok(text) = steersman_yaml::to_string(&merged) {
            self.manifest.content = text.strip_suffix(self.ending).unwrap_or(&text).to_owned();
        }
        Ok(())
    }
}

/// Makes the checksums among the annotations equal, as if they were not random.
fn agree_on_checksums(theirs: &mut Value, ours: &Value) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, other) in theirs.iter_mut() {
                let Some(own) = ours.get(key) else { continue };
                if key == "annotations"
                    && let (Value::Object(theirs), Value::Object(ours)) = (&mut *other, own)
                {
                    let checksums = ours.iter().filter(|(key, _)| key.to_lowercase().contains("checksum"));
                    theirs.extend(checksums.map(|(key, value)| (key.clone(), value.clone())));
                } else {
                    agree_on_checksums(other, own);
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.iter_mut().zip(ours).for_each(|(other, own)| agree_on_checksums(other, own));
        }
        _ => {}
    }
}

/// Takes over values of `before` where `ours` and `theirs` differ. Returns whether there were any.
fn settle(ours: &mut Value, theirs: &Value, before: &Value) -> bool {
    if ours == theirs {
        return false;
    }
    match (&mut *ours, theirs, before) {
        (Value::Object(ours), Value::Object(theirs), Value::Object(before)) => {
            let mut taken = false;
            for (key, value) in ours.iter_mut() {
                if let (Some(other), Some(before)) = (theirs.get(key), before.get(key)) {
                    taken |= settle(value, other, before);
                }
            }
            taken
        }
        (Value::Array(ours), Value::Array(theirs), Value::Array(before))
            if ours.len() == theirs.len() && ours.len() == before.len() =>
        {
            let mut taken = false;
            for ((value, other), before) in ours.iter_mut().zip(theirs).zip(before) {
                taken |= settle(value, other, before);
            }
            taken
        }
        (Value::Object(_) | Value::Array(_), ..) => false,
        (_, _, Value::Object(_) | Value::Array(_)) => false,
        (Value::String(ours), Value::String(theirs), Value::String(before)) => {
            *ours = settle_text(ours, theirs, before);
            true
        }
        _ => {
            *ours = before.clone();
            true
        }
    }
}

/// As [`settle`], for the data of a Secret, whose strings are base64-encoded.
fn settle_data(ours: &mut Map<String, Value>, theirs: Option<&Value>, before: Option<&Value>) -> bool {
    let plain = |value: &Value| {
        let text = value.as_str().and_then(|text| BASE64.decode(text.trim()).ok());
        text.and_then(|text| String::from_utf8(text).ok())
    };
    let mut taken = false;
    for (key, value) in ours.iter_mut() {
        let of = |map: Option<&Value>| map.and_then(|map| map.get(key)).cloned();
        let (Some(other), Some(last)) = (of(theirs), of(before)) else { continue };
        if *value == other {
            continue;
        }
        *value = match (plain(value), plain(&other), plain(&last)) {
            (Some(own), Some(other), Some(last)) => BASE64.encode(settle_text(&own, &other, &last)).into(),
            // Keys and archives are random as a whole.
            _ => last,
        };
        taken = true;
    }
    taken
}

/// Returns `ours`, with the parts where `theirs` differs taken from `before`. If they are uncertain, returns all of
/// `before`.
fn settle_text(ours: &str, theirs: &str, before: &str) -> String {
    settled_lines(ours, theirs, before).unwrap_or_else(|| before.to_owned())
}

fn settled_lines(ours: &str, theirs: &str, before: &str) -> Option<String> {
    let text = Text {
        ours: ours.split('\n').collect(),
        theirs: theirs.split('\n').collect(),
        before: before.split('\n').collect(),
    };
    // Values of different length, such as certificates: no line shows where they begin and end.
    if text.ours.len() != text.theirs.len() {
        return None;
    }
    let mut taken = HashSet::new();
    let mut settled = Vec::with_capacity(text.ours.len());
    for (index, (our, their)) in text.ours.iter().zip(&text.theirs).enumerate() {
        if our == their {
            settled.push((*our).to_owned());
            continue;
        }
        let place = text.is_in_place(index).then_some(index);
        let (at, line) = Gap::between(our, their).find(&text.before, place)?;
        // One former value can't be the source of two.
        if !taken.insert(at) {
            return None;
        }
        settled.push(line);
    }
    Some(settled.join("\n"))
}

/// The lines of a string: rendered twice, and in the last revision.
struct Text<'a> {
    ours: Vec<&'a str>,
    theirs: Vec<&'a str>,
    before: Vec<&'a str>,
}

impl Text<'_> {
    /// Whether a line was at the same place before: the nearest non-random line on a side is unchanged.
    fn is_in_place(&self, index: usize) -> bool {
        if self.ours.len() != self.before.len() {
            return false;
        }
        let is_mark = |at: &usize| {
            self.ours.get(*at).is_some_and(|line| has_word(line) && self.theirs.get(*at) == Some(line))
        };
        let above = (0..index).rev().find(is_mark);
        let below = (index + 1..self.ours.len()).find(is_mark);
        let mut marks = above.into_iter().chain(below).peekable();
        marks.peek().is_none() || marks.any(|at| self.ours.get(at) == self.before.get(at))
    }
}

/// Whether a string has more than quotes, commas and the like, which are in every line.
fn has_word(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

/// A line, split around its random part.
struct Gap<'a> {
    prefix: &'a str,
    drawn: &'a str,
    suffix: &'a str,
}

impl<'a> Gap<'a> {
    /// Splits a line by comparing it with its other render. Alphanumerics next to the gap may be equal by chance, and count
    /// as random.
    fn between(ours: &'a str, theirs: &str) -> Self {
        let same =
            |(index, one): (usize, char), other: char| (one == other).then_some(index + one.len_utf8());
        let pairs = ours.char_indices().zip(theirs.chars());
        let end = pairs.map_while(|(one, other)| same(one, other)).last().unwrap_or(0);
        let prefix = ours.get(..end).unwrap_or_default().trim_end_matches(char::is_alphanumeric);
        let rest = ours.get(prefix.len()..).unwrap_or_default();
        let other = theirs.get(prefix.len()..).unwrap_or_default();
        let pairs = rest.char_indices().rev().zip(other.chars().rev());
        let start = pairs.map_while(|((index, one), other)| (one == other).then_some(index)).last();
        let suffix = rest.get(start.unwrap_or(rest.len())..).unwrap_or_default();
        let suffix = suffix.trim_start_matches(char::is_alphanumeric);
        Self { prefix, drawn: rest.strip_suffix(suffix).unwrap_or_default(), suffix }
    }

    /// Finds the line that is this one with another random part, and returns this line with that part. `place` is its
    /// former position, if known. `None` if no line or more than one matches.
    fn find(&self, lines: &[&str], place: Option<usize>) -> Option<(usize, String)> {
        if !has_word(self.prefix) && !has_word(self.suffix) {
            // Only its position identifies the line.
            let at = place?;
            return Some((at, (*lines.get(at)?).to_owned()));
        }
        let filled = |at: usize| Some((at, self.fill(lines.get(at)?)?));
        if let Some(found) = place.and_then(filled) {
            return Some(found);
        }
        let looks: [fn(&Self, &str) -> bool; 3] = [Self::surrounds, Self::begins, Self::ends];
        let fitting = looks.iter().find_map(|fits| {
            let fitting = lines.iter().enumerate().filter(|(_, line)| fits(self, line));
            let fitting: Vec<usize> = fitting.map(|(at, _)| at).collect();
            (!fitting.is_empty()).then_some(fitting)
        })?;
        let [at] = fitting.as_slice() else { return None };
        filled(*at)
    }

    /// Whether a line has both the prefix and the suffix.
    fn surrounds(&self, line: &str) -> bool {
        line.strip_prefix(self.prefix).is_some_and(|rest| rest.ends_with(self.suffix))
    }

    /// Whether a line has the prefix, and the prefix is significant.
    fn begins(&self, line: &str) -> bool {
        has_word(self.prefix) && line.starts_with(self.prefix)
    }

    /// Whether a line has the suffix, and the suffix is significant.
    fn ends(&self, line: &str) -> bool {
        has_word(self.suffix) && line.ends_with(self.suffix)
    }

    /// Returns this line with the random part of another; `None` if that part is uncertain.
    fn fill(&self, line: &str) -> Option<String> {
        if self.surrounds(line) {
            return Some(line.to_owned());
        }
        let length = self.drawn.len();
        // The rest of the line differs, but the delimiter of the random part must be the same.
        let (drawn, apart) = if self.begins(line) {
            let (drawn, rest) = line.strip_prefix(self.prefix)?.split_at_checked(length)?;
            (drawn, rest.chars().next() == self.suffix.chars().next())
        } else if self.ends(line) {
            let line = line.strip_suffix(self.suffix)?;
            let (rest, drawn) = line.split_at_checked(line.len().checked_sub(length)?)?;
            (drawn, rest.chars().next_back() == self.prefix.chars().next_back())
        } else {
            return None;
        };
        (apart && is_alike(self.drawn, drawn)).then(|| format!("{}{drawn}{}", self.prefix, self.suffix))
    }
}

/// Whether two random parts have the same shape. Alphanumerics match each other, all else must be equal.
fn is_alike(one: &str, other: &str) -> bool {
    let alike =
        |(one, other): (char, char)| one == other || (one.is_alphanumeric() && other.is_alphanumeric());
    one.chars().count() == other.chars().count() && one.chars().zip(other.chars()).all(alike)
}

#[cfg(test)]
mod tests;
