//! Parses command lines as Go's pflag does.

use std::collections::BTreeMap;

/// The flags of a command line, each with its values in order.
#[derive(Debug, Default)]
pub(super) struct Flags {
    values: BTreeMap<String, Vec<String>>,
}

/// An error in a command line, with pflag's wording.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    /// The flag is unknown.
    #[error("unknown flag: --{0}")]
    Unknown(String),
    /// The shorthand flag is unknown.
    #[error("unknown shorthand flag: {1:?} in -{0}")]
    UnknownShorthand(String, char),
    /// The flag is the last argument and requires a value.
    #[error("flag needs an argument: --{0}")]
    NeedsArgument(String),
    /// There are positional arguments.
    #[error("{0:?} does not take any arguments, got {1:?}")]
    Arguments(&'static str, Vec<String>),
}

impl Flags {
    /// Parses a command line. `kind` returns the type of a flag as pflag prints it, such as `bool`.
    pub(super) fn parse(
        program: &'static str,
        words: &[String],
        kind: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, FlagError> {
        let mut flags = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.strip_prefix("--") {
                Some("") => {
                    let rest: Vec<String> = words.cloned().collect();
                    return if rest.is_empty() {
                        Ok(flags)
                    } else {
                        Err(FlagError::Arguments(program, rest))
                    };
                }
                Some(long) => match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (long, None),
                },
                None => {
                    match word.strip_prefix('-').and_then(|short| short.chars().next().zip(Some(short))) {
                        Some(('h', _)) => ("help", None),
                        Some(('v', short)) => {
                            let value = short[1..].trim_start_matches('=');
                            ("v", Some(value.to_owned()).filter(|value| !value.is_empty()))
                        }
                        Some((letter, short)) => {
                            return Err(FlagError::UnknownShorthand(short.to_owned(), letter));
                        }
                        None => {
                            let rest = std::iter::once(word).chain(words).cloned().collect();
                            return Err(FlagError::Arguments(program, rest));
                        }
                    }
                }
            };
            // Kubernetes' programs also accept underscores, as in --secure_port.
            let name = name.replace('_', "-");
            let kind = kind(&name).ok_or_else(|| FlagError::Unknown(name.clone()))?;
            let value = match value {
                Some(value) => value,
                None if kind == "bool" => "true".to_owned(),
                None => words.next().cloned().ok_or_else(|| FlagError::NeedsArgument(name.clone()))?,
            };
            flags.values.entry(name).or_default().push(value);
        }
        Ok(flags)
    }

    /// Returns the last value of a flag, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.last()).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Whether a boolean flag is set.
    pub(super) fn is_on(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => crate::flags::go_bool(text).ok_or_else(|| {
                format!("invalid argument {text:?} for \"--{name}\" flag: strconv.ParseBool: parsing {text:?}: invalid syntax")
            }),
        }
    }

    /// Returns the comma-separated items of all values of a list flag.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let values = self.values.get(name).into_iter().flatten();
        let parts = values.flat_map(|value| value.split(',')).map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }

    /// Returns the names of the given flags.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, FlagError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Flags::parse("server", &words, |name| match name {
            "port" => Some("int"),
            "v" => Some("Level"),
            "plugins" => Some("strings"),
            "on" => Some("bool"),
            _ => None,
        })
    }

    #[test]
    fn lines_are_read_as_pflag_reads_them() {
        let flags = parse("--port 1 --on --plugins=a,b --port=2 --plugins c -v 5").unwrap();
        assert_eq!(
            (flags.get("port"), flags.get("on"), flags.get("v")),
            (Some("2"), Some("true"), Some("5"))
        );
        assert_eq!(flags.list("plugins"), ["a", "b", "c"]);
        assert_eq!(parse("--on=false").unwrap().is_on("on", true), Ok(false));
        assert!(parse("--on=maybe").unwrap().is_on("on", true).is_err());
        for (line, why) in [
            ("--prt=1", "unknown flag: --prt"),
            ("--port", "flag needs an argument: --port"),
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("start", "\"server\" does not take any arguments, got [\"start\"]"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), why);
        }
    }
}
