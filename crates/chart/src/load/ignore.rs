//! .helmignore: files in a chart's directory that are not part of the chart.

use super::path_match::{BadPattern, path_match};
use crate::metadata::base_name;

/// The rules of a .helmignore, and the built-in ones.
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    pattern: Pattern,
    scope: Scope,
    negated: bool,
    only_directories: bool,
}

/// A compiled pattern. Most are a name, or a star with a suffix, which match faster than a glob.
enum Pattern {
    Literal(String),
    /// Suffix after the star that the pattern begins with.
    Ending(String),
    Glob(String),
}

impl Pattern {
    fn new(text: &str) -> Self {
        let special = |text: &str| text.contains(['*', '?', '[', '\\']);
        match text.strip_prefix('*') {
            None if !special(text) => Self::Literal(text.to_owned()),
            Some(ending) if !special(ending) => Self::Ending(ending.to_owned()),
            _ => Self::Glob(text.to_owned()),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Literal(text) => text == name,
            // A star does not match a separator.
            Self::Ending(ending) => {
                name.strip_suffix(ending.as_str()).is_some_and(|start| !start.contains('/'))
            }
            Self::Glob(pattern) => path_match(pattern, name).unwrap_or(false),
        }
    }
}

enum Scope {
    /// Matches the whole path from the chart's root.
    Path,
    /// Matches only the last part of the path.
    Name,
}

impl Rules {
    /// Parses a .helmignore.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let text = text.strip_prefix(super::BOM).unwrap_or(text);
        let mut rules = Self(Vec::new());
        for line in String::from_utf8_lossy(text).split('\n') {
            rules.add(line)?;
        }
        // Files in templates/ that begin with a dot are never templates.
        rules.add("templates/.?*")?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let rule = line.trim();
        if rule.is_empty() || rule.starts_with('#') {
            return Ok(());
        }
        if rule.contains("**") {
            return Err("double-star (**) syntax is not supported".into());
        }
        path_match(rule, "abc").map_err(|error: BadPattern| error.to_string())?;
        let (rule, negated) = rule.strip_prefix('!').map_or((rule, false), |rest| (rest, true));
        let (rule, only_directories) = rule.strip_suffix('/').map_or((rule, false), |rest| (rest, true));
        let scope = if rule.contains('/') { Scope::Path } else { Scope::Name };
        let pattern = Pattern::new(rule.strip_prefix('/').unwrap_or(rule));
        self.0.push(Rule { pattern, scope, negated, only_directories });
        Ok(())
    }

    /// Whether to ignore the file or directory at this path. The first matching rule decides.
    ///
    /// A negated rule ignores everything that it does not match.
    pub(super) fn ignore(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.0 {
            if rule.only_directories && !is_directory {
                if rule.negated {
                    return true;
                }
                continue;
            }
            let name = match rule.scope {
                Scope::Path => path,
                Scope::Name => base_name(path),
            };
            if rule.pattern.matches(name) != rule.negated {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Rules;

    fn ignored(rules: &str, path: &str, is_directory: bool) -> bool {
        Rules::parse(rules.as_bytes()).unwrap().ignore(path, is_directory)
    }

    #[test]
    fn rules_decide_in_order() {
        let cases = [
            ("helm.txt", "helm.txt", false, true),
            ("*.txt", "tiller/tiller.txt", false, true),
            ("/*.txt", "tiller/tiller.txt", false, false),
            ("tiller/*.txt", "tiller/tiller.txt", false, true),
            ("*/", "rudder", true, true),
            ("*/", "rudder.txt", false, false),
            ("cargo/a.txt", "cargo/a.txt", false, true),
            ("!helm.txt", "helm.txt", false, false),
            ("!helm.txt", "tiller.txt", false, true),
            ("*\n!helm.txt", "tiller.txt", false, true),
            ("# a.txt", "a.txt", false, false),
            ("", "templates/.dotfile", false, true),
            ("", "templates/_helpers.tpl", false, false),
            ("\u{feff}a.txt", "a.txt", false, true),
        ];
        for (rules, path, is_directory, expected) in cases {
            assert_eq!(ignored(rules, path, is_directory), expected, "{rules:?} on {path}");
        }
    }

    #[test]
    fn double_stars_are_refused() {
        assert_eq!(
            Rules::parse(b"foo/**/bar").err().as_deref(),
            Some("double-star (**) syntax is not supported")
        );
    }
}
