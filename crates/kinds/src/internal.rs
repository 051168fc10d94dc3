//! Formatting of objects as kube-apiserver's internal types, for errors that print them.
//!
//! Every field is written, set or not, with its Go name and in Go's order.

use std::{collections::HashMap, fmt::Write as _, sync::LazyLock};

use serde_json::Value;

use crate::check::Read;

/// Fields of a type: Go name, JSON name and type.
type Fields = Vec<(String, String, String)>;

static TYPES: LazyLock<HashMap<String, Fields>> = LazyLock::new(|| {
    // The file is compiled in; a test checks that it parses.
    serde_json::from_str(include_str!("../data/internal.json")).unwrap_or_default()
});

/// Maximum depth. Deeper values are written as null.
const DEPTH: usize = 64;

/// JSON with ordered fields.
enum Node {
    Text(String),
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
}

/// Formats a value of a type on one line.
pub(crate) fn show(kind: &str, value: &Value) -> String {
    show_with(kind, value, "", &[])
}

/// Like [`show`], for a value at the path `at`. `emptied` are the paths of lists and maps that were sent empty.
pub(crate) fn show_with(kind: &str, value: &Value, at: &str, emptied: &[String]) -> String {
    let mut out = String::new();
    write(&Builder { emptied, path: at.to_owned() }.build(kind, value, DEPTH), &mut out, None);
    out
}

/// Returns the unified diff between two values of a type.
pub(crate) fn diff(kind: &str, old: &Value, new: &Value, at: &str, emptied: &[String]) -> String {
    let pretty = |value: &Value, emptied: &[String]| {
        let mut out = String::new();
        write(&Builder { emptied, path: at.to_owned() }.build(kind, value, DEPTH), &mut out, Some(0));
        out
    };
    crate::diff::unified(&pretty(old, &[]), &pretty(new, emptied))
}

/// Builds [`Node`]s, tracking the current path.
struct Builder<'a> {
    emptied: &'a [String],
    path: String,
}

impl Builder<'_> {
    fn build(&mut self, kind: &str, value: &Value, depth: usize) -> Node {
        let null = || Node::Text("null".to_owned());
        if depth == 0 {
            return null();
        }
        if let Some(rest) = kind.strip_prefix('*') {
            return if value.is_null() { null() } else { self.build(rest, value, depth) };
        }
        let length = self.path.len();
        if let Some(rest) = kind.strip_prefix("[]") {
            let Value::Array(items) = value else { return self.nothing("[]") };
            let mut nodes = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let _ = write!(self.path, "[{index}]");
                nodes.push(self.build(rest, item, depth - 1));
                self.path.truncate(length);
            }
            return Node::Array(nodes);
        }
        if let Some(rest) = kind.strip_prefix("m ") {
            let Value::Object(map) = value else { return self.nothing("") };
            let mut entries = Vec::with_capacity(map.len());
            for (key, item) in map {
                entries.push((key.clone(), self.build(rest, item, depth - 1)));
            }
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            return Node::Object(entries);
        }
        let zero = match kind {
            "s" => "\"\"",
            "i" | "x" => "0",
            "b" => "false",
            "q" => "\"0\"",
            _ => "null",
        };
        match TYPES.get(kind) {
            Some(fields) => {
                let mut entries = Vec::new();
                self.structure(fields, value, depth, &mut entries);
                Node::Object(entries)
            }
            None if value.is_null() => Node::Text(zero.to_owned()),
            None => Node::Text(text(value)),
        }
    }

    /// Returns the value of an absent list (`list` is `[]`) or map: null, or empty if it was sent so.
    fn nothing(&self, list: &str) -> Node {
        let place = format!("{}{list}", self.path);
        let sent = self.emptied.contains(&place);
        Node::Text(
            if !sent {
                "null"
            } else if list.is_empty() {
                "{}"
            } else {
                "[]"
            }
            .to_owned(),
        )
    }

    fn structure(&mut self, fields: &Fields, value: &Value, depth: usize, out: &mut Vec<(String, Node)>) {
        let length = self.path.len();
        for (shown, name, kind) in fields {
            // The fields of embedded types are inlined.
            if let Some(name) = shown.strip_prefix('^') {
                let inner = if name.is_empty() { value } else { value.at(name) };
                if !name.is_empty() {
                    self.enter(name);
                }
                if let Some(fields) = TYPES.get(kind) {
                    self.structure(fields, inner, depth - 1, out);
                }
                self.path.truncate(length);
                continue;
            }
            let field = value.at(name);
            // Some fields of the internal PodSecurityContext are in the pod's spec in the API.
            let context;
            let field = if kind == "*core.PodSecurityContext" {
                context = security_context(value);
                &context
            } else {
                field
            };
            self.enter(name);
            match kind.strip_prefix("o!") {
                Some(_) if is_empty(field) => {}
                Some(kind) => out.push((shown.clone(), self.build(kind, field, depth - 1))),
                None => out.push((shown.clone(), self.build(kind, field, depth - 1))),
            }
            self.path.truncate(length);
        }
    }

    fn enter(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}

fn security_context(spec: &Value) -> Value {
    let mut context = spec.at("securityContext").clone();
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        if let Some(value) = spec.opt(field) {
            steersman_api::object::ensure(&mut context).insert(field.into(), value.clone());
        }
    }
    context
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(true) => false,
    }
}

/// Encodes a value like Go's encoder, which escapes `&`, `<` and `>`.
fn text(value: &Value) -> String {
    value.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn write(node: &Node, out: &mut String, indent: Option<usize>) {
    let inner = indent.map(|indent| indent + 1);
    let newline = |out: &mut String, indent: Option<usize>| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match node {
        Node::Text(text) => out.push_str(text),
        Node::Object(entries) => {
            out.push('{');
            for (index, (name, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                newline(out, inner);
                out.push_str(&text(&Value::from(name.as_str())));
                out.push_str(if indent.is_some() { ": " } else { ":" });
                write(value, out, inner);
            }
            if !entries.is_empty() {
                newline(out, indent);
            }
            out.push('}');
        }
        Node::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                newline(out, inner);
                write(item, out, inner);
            }
            if !items.is_empty() {
                newline(out, indent);
            }
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_written() {
        assert_eq!(
            show("rbac.RoleRef", &json!({"kind": "Role", "name": "a<b"})),
            r#"{"APIGroup":"","Kind":"Role","Name":"a\u003cb"}"#
        );
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true}});
        let shown = show("core.PodTemplateSpec", &template);
        assert!(shown.starts_with(r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"#), "{shown}");
        assert!(shown.contains(r#""SecurityContext":{"HostNetwork":true,"#), "{shown}");
    }

    #[test]
    fn changes_are_shown_as_a_diff() {
        let (old, new) = (json!({"kind": "Role", "name": "a"}), json!({"kind": "Role", "name": "b"}));
        assert_eq!(
            diff("rbac.RoleRef", &old, &new, "", &[]),
            "@@ -1,5 +1,5 @@\n {\n  \"APIGroup\": \"\",\n  \"Kind\": \"Role\",\n- \"Name\": \"a\"\n+ \"Name\": \"b\"\n }\n"
        );
    }
}
