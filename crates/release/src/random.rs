//! Values that templates draw at random: keeping those of the last revision.
//!
//! A place whose value differs between two renders of the same chart with the same values is drawn at random, or follows
//! from something that is. Such places keep what they held in the last revision, if they were there. In a text only the
//! lines that differ are such places, and in a line only what differs: the rest of a configuration file follows the values.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use steersman_chart::{Manifest, Rendered};

use crate::error::Result;
use crate::object::documents;
use crate::record::Release;

/// What tells objects of one manifest apart, without a cluster.
type Key = (String, String, String, String);

fn key(document: &Value) -> Key {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |name: &str| text(document.get("metadata").and_then(|metadata| metadata.get(name)));
    let group = text(document.get("apiVersion"));
    let group = group.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    (group, text(document.get("kind")), metadata("namespace"), metadata("name"))
}

/// Puts what the last revision held into the places of `rendered` that `again` shows to be random.
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
    let pairs = rendered.manifests.iter_mut().zip(&again.manifests);
    for (manifest, other) in pairs {
        keep_in(manifest, other, &known)?;
    }
    for (hook, other) in rendered.hooks.iter_mut().zip(&again.hooks) {
        keep_in(&mut hook.manifest, &other.manifest, &known)?;
    }
    Ok(())
}

fn keep_in(manifest: &mut Manifest, other: &Manifest, known: &HashMap<Key, Value>) -> Result<()> {
    if manifest.content == other.content {
        return Ok(());
    }
    let (ours, theirs) = (documents(&manifest.content)?, documents(&other.content)?);
    let ([ours], [theirs]) = (ours.as_slice(), theirs.as_slice()) else { return Ok(()) };
    let Some(before) = known.get(&key(ours)) else { return Ok(()) };
    let mut merged = ours.clone();
    let is_secret = ours.get("kind").and_then(Value::as_str) == Some("Secret");
    let mut taken = false;
    if is_secret && let Some(data) = merged.get_mut("data").and_then(Value::as_object_mut) {
        taken = settle_data(data, theirs.get("data"), before.get("data"));
    }
    // What is settled already is as it should be, whatever the other draw says of it.
    let theirs = if taken { with_data(theirs, &merged) } else { theirs.clone() };
    if settle(&mut merged, &theirs, before) | taken
        && let Ok(text) = steersman_yaml::to_string(&merged)
    {
        manifest.content = text.trim_end().to_owned();
    }
    Ok(())
}

/// Takes what `before` holds where `ours` and `theirs` differ; says whether anything was taken.
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

/// The same for a secret's data, whose texts are hidden in base64.
fn settle_data(ours: &mut Map<String, Value>, theirs: Option<&Value>, before: Option<&Value>) -> bool {
    let plain = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).and_then(|text| BASE64.decode(text.trim()).ok());
        text.and_then(|text| String::from_utf8(text).ok())
    };
    let mut taken = false;
    for (key, value) in ours.iter_mut() {
        let of = |map: Option<&Value>| plain(map.and_then(|map| map.get(key)));
        let (Some(own), Some(other), Some(last)) = (plain(Some(&*value)), of(theirs), of(before)) else {
            continue;
        };
        if own != other {
            *value = BASE64.encode(settle_text(&own, &other, &last)).into();
            taken = true;
        }
    }
    taken
}

/// An object with the data of another.
fn with_data(object: &Value, from: &Value) -> Value {
    let mut object = object.clone();
    if let (Some(into), Some(data)) = (object.get_mut("data"), from.get("data")) {
        into.clone_from(data);
    }
    object
}

/// `ours` with what `before` holds in the places where `theirs` differs.
fn settle_text(ours: &str, theirs: &str, before: &str) -> String {
    let split = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
    let (our_lines, their_lines, mut left) = (split(ours), split(theirs), split(before));
    // Draws of different lengths, as of certificates: no line tells where they begin and end.
    if our_lines.len() != their_lines.len() {
        return before.to_owned();
    }
    let same_length = our_lines.len() == left.len();
    let mut settled = Vec::with_capacity(our_lines.len());
    for (index, (our, their)) in our_lines.iter().zip(&their_lines).enumerate() {
        if our == their {
            settled.push(our.clone());
            continue;
        }
        let gap = Gap::between(our, their);
        let known = if gap.is_whole() {
            // Nothing but its place tells which line it was.
            left.get(index).filter(|_| same_length).cloned()
        } else {
            let at = left.iter().position(|line| gap.fits(line));
            at.and_then(|at| left.get_mut(at)).map(|line| gap.fill(&std::mem::take(line)))
        };
        match known {
            Some(line) => settled.push(line),
            None => return before.to_owned(),
        }
    }
    settled.join("\n")
}

/// A line around what is drawn at random in it.
struct Gap<'a> {
    prefix: &'a str,
    suffix: &'a str,
    /// How long the draw is.
    length: usize,
}

impl<'a> Gap<'a> {
    /// What two draws of a line have in common. Letters and digits next to the gap may be alike by chance and count as drawn.
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
        Self { prefix, suffix, length: rest.len() - suffix.len() }
    }

    fn is_whole(&self) -> bool {
        self.prefix.trim().is_empty() && self.suffix.trim().is_empty()
    }

    /// Whether a line is another draw of this one, maybe with another end or beginning.
    fn fits(&self, line: &str) -> bool {
        let long_enough = line.len() >= self.prefix.len() + self.length;
        (!self.prefix.trim().is_empty() && line.starts_with(self.prefix) && long_enough)
            || (!self.suffix.trim().is_empty()
                && line.ends_with(self.suffix)
                && line.len() >= self.suffix.len() + self.length)
    }

    /// The line with what another draw of it holds in the gap.
    fn fill(&self, line: &str) -> String {
        let (starts, ends) = (line.starts_with(self.prefix), line.ends_with(self.suffix));
        if starts && ends && line.len() >= self.prefix.len() + self.suffix.len() {
            return line.to_owned();
        }
        let from = if starts { self.prefix.len() } else { line.len() - self.suffix.len() - self.length };
        let drawn = line.get(from..from + self.length).unwrap_or_default();
        format!("{}{drawn}{}", self.prefix, self.suffix)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_that_differ_between_renders_keep_their_value() {
        let mut ours =
            json!({ "data": { "password": "b", "user": "new", "fresh": "x" }, "list": [{ "k": "b" }] });
        let theirs =
            json!({ "data": { "password": "c", "user": "new", "fresh": "y" }, "list": [{ "k": "c" }] });
        let before = json!({ "data": { "password": "a", "user": "old" }, "list": [{ "k": "a" }] });
        assert!(settle(&mut ours, &theirs, &before));
        assert_eq!(
            ours,
            json!({ "data": { "password": "a", "user": "new", "fresh": "x" }, "list": [{ "k": "a" }] })
        );
    }

    #[test]
    fn texts_keep_their_draws_and_follow_the_values() {
        let ours = "mood=wild\npassword=bbbb\nurl=db://u:bbbb@new-host/x\nextra=1\n";
        let theirs = "mood=wild\npassword=bccc\nurl=db://u:bccc@new-host/x\nextra=1\n";
        let before = "mood=calm\npassword=aaaa\nurl=db://u:aaaa@host/x\n";
        assert_eq!(
            settle_text(ours, theirs, before),
            "mood=wild\npassword=aaaa\nurl=db://u:aaaa@new-host/x\nextra=1\n"
        );
        // Nothing in these says where the draw is.
        assert_eq!(settle_text("bbbb", "cccc", "aaaa"), "aaaa");
        assert_eq!(settle_text("x\nbb\nbb", "x\ncc\ncc\ncc", "x\naa"), "x\naa");
    }

    #[test]
    fn secrets_are_looked_into() {
        let encoded = |text: &str| json!(BASE64.encode(text));
        let mut ours = json!({ "conf": encoded("a=2\nkey=bbbb\n"), "plain": encoded("same") });
        let theirs = json!({ "conf": encoded("a=2\nkey=cccc\n"), "plain": encoded("same") });
        let before = json!({ "conf": encoded("a=1\nkey=aaaa\n"), "plain": encoded("old") });
        assert!(settle_data(ours.as_object_mut().unwrap(), Some(&theirs), Some(&before)));
        assert_eq!(ours, json!({ "conf": encoded("a=2\nkey=aaaa\n"), "plain": encoded("same") }));
    }
}
