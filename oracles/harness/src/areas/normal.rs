//! Normalizes answers: removes what may differ from run to run.

use serde_json::Value as Json;

use crate::answer::Answer;
use crate::wire;

/// Masks pointer addresses: `{{ . }}` prints where the capabilities are in memory.
pub(super) fn addresses(_: &Json, answer: Answer) -> Answer {
    match answer {
        Answer::Ok(mut result) => {
            each_text(&mut result, &mut |text| {
                let hidden = hide_addresses(&wire::bytes(text));
                *text = wire::text(&hidden);
            });
            Answer::Ok(result)
        }
        Answer::Err { text, kind } => {
            let hidden = hide_addresses(&wire::bytes(&text));
            Answer::Err { text: wire::text(&hidden), kind }
        }
        other => other,
    }
}

fn each_text(json: &mut Json, change: &mut impl FnMut(&mut Json)) {
    match json {
        Json::Object(fields) if fields.contains_key("$b64") => change(json),
        Json::Object(fields) => fields.values_mut().for_each(|inner| each_text(inner, change)),
        Json::Array(items) => items.iter_mut().for_each(|inner| each_text(inner, change)),
        Json::String(_) => change(json),
        _ => {}
    }
}

/// Masks `0x` followed by at least nine digits.
fn hide_addresses(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"0x") {
        let (before, from) = rest.split_at(at + 2);
        out.extend_from_slice(before);
        let digits = from.iter().take_while(|c| c.is_ascii_hexdigit()).count();
        if digits < 9 {
            out.extend_from_slice(&from[..digits]);
        }
        rest = &from[digits..];
    }
    out.extend_from_slice(rest);
    out
}

/// Removes the message of a failed `--set-json`: Helm's command replaces it with its own.
pub(super) fn set_json(request: &Json, answer: Answer) -> Answer {
    match answer {
        Answer::Err { kind, .. } if request["do"] == "json" => {
            Answer::Err { text: "failed parsing --set-json data".into(), kind }
        }
        other => other,
    }
}

/// Sorts a schema's violations, which Go reports in the order of a map.
pub(super) fn schema(_: &Json, answer: Answer) -> Answer {
    match answer {
        Answer::Err { mut text, kind } => {
            sort_told(&mut text);
            Answer::Err { text, kind }
        }
        Answer::Ok(mut result) => {
            each_text(&mut result, &mut sort_told);
            Answer::Ok(result)
        }
        other => other,
    }
}

fn sort_told(text: &mut Json) {
    let told = text.as_str().filter(|told| told.contains("- at '"));
    if let Some(told) = told {
        let named: Vec<String> = told.lines().map(sort_names).collect();
        *text = Json::from(sort_violations(&named.join("\n")));
    }
}

/// Sorts the names in `additional properties 'b', 'a' not allowed`.
fn sort_names(line: &str) -> String {
    let Some((before, names)) = line.split_once(": additional properties ") else { return line.to_owned() };
    let Some(names) = names.strip_suffix(" not allowed") else { return line.to_owned() };
    let mut names: Vec<&str> = names.split(", ").collect();
    names.sort_unstable();
    format!("{before}: additional properties {} not allowed", names.join(", "))
}

/// Sorts `- ` items at every depth; lines indented below an item belong to it.
fn sort_violations(text: &str) -> String {
    let mut head = Vec::new();
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        if line.starts_with("- ") {
            groups.push(vec![line]);
        } else if let Some(group) = groups.last_mut().filter(|_| line.starts_with("  ")) {
            group.push(line.strip_prefix("  ").unwrap_or(line));
        } else if groups.is_empty() {
            head.push(line.to_owned());
        } else {
            // The name of the next chart: its violations are sorted separately.
            let rest = text.split_once(&format!("\n{line}\n")).map_or("", |(_, rest)| rest);
            let mut out = sorted(head, groups);
            out.push(line.to_owned());
            out.push(sort_violations(rest));
            return out.join("\n");
        }
    }
    sorted(head, groups).join("\n")
}

fn sorted(mut head: Vec<String>, groups: Vec<Vec<&str>>) -> Vec<String> {
    let mut items: Vec<String> = groups
        .iter()
        .map(|group| {
            let below = sort_violations(&group[1..].join("\n"));
            if below.is_empty() { group[0].to_owned() } else { format!("{}\n{below}", group[0]) }
        })
        .collect();
    items.sort();
    head.extend(items);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hidden_and_short_numbers_kept() {
        assert_eq!(hide_addresses(b"map[a:0xc000123456 b:0x1f]"), b"map[a:0x b:0x1f]");
    }

    #[test]
    fn violations_are_sorted_with_what_belongs_to_them() {
        let told = "in:\ntop:\n- at '/b': x\n  - at '/b/2': y\n  - at '/b/1': z\n- at '/a': w\nsub:\n- at '/d': v\n- at '/c': u";
        let want = "in:\ntop:\n- at '/a': w\n- at '/b': x\n- at '/b/1': z\n- at '/b/2': y\nsub:\n- at '/c': u\n- at '/d': v";
        assert_eq!(sort_violations(told), want);
    }
}
