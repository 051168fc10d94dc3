//! Extracts comments in values.yaml by the keys that they document.

use std::collections::HashMap;

/// The comments by key path.
#[derive(Debug, Default)]
pub(super) struct Comments(HashMap<Vec<String>, String>);

impl Comments {
    /// Reads plain comments above keys, and those of helm-docs (`# -- text`) and bitnami's generator
    /// (`## @param key text`).
    pub(super) fn read(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut reader = Reader::default();
        for line in text.lines() {
            reader.line(line);
        }
        Self(reader.found)
    }

    /// Returns the comment of the key at a path.
    pub(super) fn of(&self, path: &[&str]) -> Option<&str> {
        let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
        self.0.get(&path).map(String::as_str)
    }
}

#[derive(Default)]
struct Reader {
    found: HashMap<Vec<String>, String>,
    /// The keys that enclose the line, with their indentation.
    keys: Vec<(usize, String)>,
    /// The comment lines directly above.
    comment: Vec<String>,
    /// Lines indented more than this are not keys: they belong to a block scalar or a list.
    skip_beyond: Option<usize>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(limit) = self.skip_beyond {
            if content.is_empty() || indent > limit {
                return;
            }
            self.skip_beyond = None;
        }
        if content.is_empty() {
            self.comment.clear();
            return;
        }
        if let Some(comment) = content.strip_prefix('#') {
            self.comment(comment);
            return;
        }
        let comment = std::mem::take(&mut self.comment);
        if content.starts_with("- ") || content == "-" {
            self.skip_beyond = Some(indent);
            return;
        }
        let Some((key, rest)) = key_of(content) else { return };
        while self.keys.last().is_some_and(|(outer, _)| *outer >= indent) {
            self.keys.pop();
        }
        self.keys.push((indent, key));
        if let Some(text) = sentence(&comment).or_else(|| trailing(rest)) {
            let path = self.keys.iter().map(|(_, key)| key.clone()).collect();
            self.found.entry(path).or_insert(text);
        }
        if rest.starts_with(['|', '>', '{', '[', '"', '\'']) {
            self.skip_beyond = Some(indent);
        }
    }

    fn comment(&mut self, text: &str) {
        let text = text.trim_start_matches('#').trim();
        if let Some(param) = text.strip_prefix("@param ") {
            // The key is named, so the comment need not be next to it.
            let mut words = param.trim().splitn(2, char::is_whitespace);
            let (path, said) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim());
            let said = match said.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((_, said)) => said.trim(),
                None => said,
            };
            if !said.is_empty() {
                let path = path.split('.').map(str::to_owned).collect();
                self.found.insert(path, said.to_owned());
            }
            return;
        }
        if let Some(start) = text.strip_prefix("-- ") {
            // helm-docs discards the lines above `# --`.
            self.comment.clear();
            // A type in parentheses precedes the text.
            let start = match start.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
                Some((_, rest)) if !rest.trim().is_empty() => rest.trim(),
                _ => start,
            };
            self.comment.push(start.to_owned());
            return;
        }
        self.comment.push(text.to_owned());
    }
}

/// Splits a line into its key and the rest after the colon.
fn key_of(content: &str) -> Option<(String, &str)> {
    let (key, rest) = match content.chars().next()? {
        quote @ ('"' | '\'') => {
            let (key, rest) = content.get(1..)?.split_once(quote)?;
            (key, rest.trim_start().strip_prefix(':')?)
        }
        _ => match content.split_once(": ") {
            Some((key, rest)) => (key, rest),
            None => (content.strip_suffix(':')?, ""),
        },
    };
    let key = key.trim();
    (!key.is_empty() && !key.contains(['#', '{', '[', '&', '*'])).then(|| (key.to_owned(), rest.trim_start()))
}

/// Returns the comment after a value.
fn trailing(rest: &str) -> Option<String> {
    let (value, text) = rest.split_once(" #")?;
    let is_text = value.trim_start().starts_with(['"', '\'']) && !value.trim_end().ends_with(['"', '\'']);
    (!is_text).then(|| sentence(&[text.trim_start_matches('#').trim().to_owned()]))?
}

/// Joins the lines of a comment, up to the first that is a commented-out value.
fn sentence(lines: &[String]) -> Option<String> {
    let is_text = |line: &&String| {
        let line = line.as_str();
        let is_value = |line: &str| {
            let (key, _) = line.split_once(':').unwrap_or((line, ""));
            line.contains(':')
                && !key.is_empty()
                && !key.contains(' ')
                && !matches!(key, "http" | "https" | "ref" | "Ref" | "Note" | "NOTE" | "Default" | "Example")
        };
        !line.starts_with(['-', '{', '[', '@']) && !is_value(line)
    };
    let mut lines: Vec<&str> = lines
        .iter()
        .take_while(is_text)
        .map(String::as_str)
        .filter(|line| !line.is_empty() && line.contains(char::is_alphanumeric))
        .collect();
    // A line that introduces commented-out values is meaningless without them.
    while lines.last().is_some_and(|line| line.ends_with(':')) {
        lines.pop();
    }
    let text = lines.join(" ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_belong_to_the_key_below() {
        let text = "\
# About all of it.

# The image
# to run.
image:
  # Commented out:
  # tag: x
  repository: nginx # where it is
  script: |
    # not a comment
    key: value
  tag: \"a # b\"
list:
  - # in a list
    name: x
## @param far.away [array] Said elsewhere
far:
  away: []
# old notes
# -- (int) How many.
count: 1
# nodeSelector:
#   a: b
other: 2
";
        let comments = Comments::read(text.as_bytes());
        assert_eq!(comments.of(&["image"]), Some("The image to run."));
        assert_eq!(comments.of(&["image", "repository"]), Some("where it is"));
        assert_eq!(comments.of(&["image", "tag"]), None);
        assert_eq!(comments.of(&["list", "name"]), None);
        assert_eq!(comments.of(&["far", "away"]), Some("Said elsewhere"));
        assert_eq!(comments.of(&["count"]), Some("How many."));
        assert_eq!(comments.of(&["other"]), None);
        assert_eq!(comments.of(&["key"]), None);
    }

    #[test]
    fn comments_behind_values_count_where_none_is_above() {
        let comments = Comments::read(b"a: 1 # one\n# above\nb: 2 # two\n");
        assert_eq!(comments.of(&["a"]), Some("one"));
        assert_eq!(comments.of(&["b"]), Some("above"));
    }
}
