//! Prometheus' text exposition format.

/// One sample of a metric.
#[derive(Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    labels: &'a str,
    pub(crate) value: f64,
}

impl Sample<'_> {
    /// Returns the value of a label; None if the sample does not have it.
    pub(crate) fn label(&self, name: &str) -> Option<String> {
        labels(self.labels).find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Parses the samples, in order. Lines that are not samples (comments, blank or malformed lines)
/// are skipped.
pub(crate) fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (name, labels, rest) = match line.find('{') {
        Some(at) => {
            let end = at + end_of_labels(&line[at..])?;
            (&line[..at], &line[at + 1..end], &line[end + 1..])
        }
        None => {
            let (name, rest) = line.split_once(char::is_whitespace)?;
            (name, "", rest)
        }
    };
    let value = match rest.split_whitespace().next()? {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        value => value.parse().ok()?,
    };
    Some(Sample { name: name.trim(), labels, value })
}

/// Finds the brace that closes the label set at the start. Braces in quoted label values do not
/// count.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn labels(mut text: &str) -> impl Iterator<Item = (&str, String)> {
    std::iter::from_fn(move || {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    text = &rest[at + 1..];
                    return Some((name.trim_start_matches(',').trim(), value));
                }
                '\\' => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text = "# HELP a b\n# TYPE workqueue_depth gauge\nworkqueue_depth{controller=\"shop\",name=\"a\\\"}\\\\,b=\"} 3\n\
                    up 1 1395066363000\nbroken{x=\"1 2\nnothing\n time_bucket{le=\"+Inf\", controller=\"shop\"} +Inf\n# EOF\n";
        let found: Vec<_> = samples(text).collect();
        assert_eq!(
            found.iter().map(|sample| sample.name).collect::<Vec<_>>(),
            ["workqueue_depth", "up", "time_bucket"]
        );
        assert_eq!(found[0].label("name").as_deref(), Some("a\"}\\,b="));
        assert_eq!(found[0].label("controller").as_deref(), Some("shop"));
        assert_eq!(found[0].label("depth"), None);
        assert_eq!((found[0].value, found[1].value), (3.0, 1.0));
        assert_eq!(found[2].label("controller").as_deref(), Some("shop"));
        assert!(found[2].value.is_infinite());
    }
}
