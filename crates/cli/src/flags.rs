//! Supports what Helm's flag parser accepts and clap's does not.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{ArgAction, Command};

/// Rewrites the command line if this program is run under the name of another one.
///
/// operator-sdk's `helm-operator run …` and `ansible-operator run …` become `steer run helm …` and `steer run ansible …`, so that
/// an image that replaces theirs needs no other command line. `kubectl-kudo …` and `kubectl-kuttl …`, which kubectl runs for
/// `kubectl kudo …` and `kubectl kuttl …`, become `steer kudo …` and `steer kuttl …`; `kubectl kudo test` runs kuttl's suites.
pub(crate) fn as_other_program(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.collect();
    let called = words.first().and_then(|name| Path::new(name).file_stem());
    let (command, skipped): (&[&str], _) =
        match (called.and_then(|name| name.to_str()), words.get(1).and_then(|word| word.to_str())) {
            (Some("helm-operator"), Some("run")) => (&["steer", "run", "helm"], 2),
            (Some("ansible-operator"), Some("run")) => (&["steer", "run", "ansible"], 2),
            (Some("kubectl-kudo"), Some("test")) => (&["steer", "kuttl"], 1),
            (Some("kubectl-kudo"), _) => (&["steer", "kudo"], 1),
            (Some("kubectl-kuttl"), _) => (&["steer", "kuttl"], 1),
            _ => return words,
        };
    command.iter().map(OsString::from).chain(words.into_iter().skip(skipped)).collect()
}

/// Rewrites `--include-crds=true` to `--include-crds` and drops `--include-crds=false`, as in Helm.
pub(crate) fn booleans_without_values(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let mut booleans = BTreeSet::new();
    collect_booleans(command, &mut booleans);
    let mut literal = false;
    words
        .into_iter()
        .filter_map(|word| {
            literal |= word == "--";
            let text = word.to_str().filter(|_| !literal);
            let flag = text.and_then(|text| text.strip_prefix("--")).and_then(|text| text.split_once('='));
            match flag.map(|(name, value)| (name, booleans.contains(name), go_bool(value))) {
                Some((name, true, Some(true))) => Some(format!("--{name}").into()),
                Some((_, true, Some(false))) => None,
                _ => Some(word),
            }
        })
        .collect()
}

fn collect_booleans(command: &Command, booleans: &mut BTreeSet<String>) {
    let switches = command.get_arguments().filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue));
    booleans.extend(switches.filter_map(|arg| arg.get_long()).map(str::to_owned));
    command.get_subcommands().for_each(|subcommand| collect_booleans(subcommand, booleans));
}

/// Parses a duration in Go's format: `90s`, `5m0s`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    steersman_helm_operator::duration(text).map_err(|error| format!("{error}: such as 90s or 5m"))
}

/// Parses a number of bytes with Kubernetes' binary suffixes: `256Mi`, `2Gi`, `1048576`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let units = [("Ki", 1usize << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let unit = units.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let bytes = number.parse().ok().and_then(|number: usize| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a number of bytes, such as 1048576, 256Mi or 2Gi".to_owned())
}

/// Parses a boolean as Go's strconv.ParseBool does.
pub(crate) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Splits `a,b,"c,d"` at its commas, as Helm does for list flags.
pub(crate) fn split_list(words: &[String]) -> Vec<String> {
    words.iter().flat_map(|word| split_word(word)).collect()
}

fn split_word(word: &str) -> Vec<String> {
    if word.is_empty() {
        return Vec::new();
    }
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = word.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(field) = fields.last_mut() else { break };
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_are_other_names() {
        let typed = |text: &str| {
            let words = as_other_program(text.split(' ').map(OsString::from));
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(typed("/usr/bin/helm-operator run --leader-elect"), "steer run helm --leader-elect");
        assert_eq!(typed("ansible-operator run --check"), "steer run ansible --check");
        assert_eq!(typed("helm-operator version"), "helm-operator version");
        assert_eq!(typed("steer run helm"), "steer run helm");
        assert_eq!(typed("/usr/bin/kubectl-kuttl test ./suite"), "steer kuttl test ./suite");
        assert_eq!(typed("kubectl-kudo plan status"), "steer kudo plan status");
        assert_eq!(typed("kubectl-kudo test --config c.yaml"), "steer kuttl test --config c.yaml");
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("256Mi"), Ok(256 << 20));
        assert_eq!(size("2Gi"), Ok(2 << 30));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for wrong in ["", "Mi", "1.5Gi", "-1", "1MB", "99999999999Gi"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_split_at_commas_outside_quotes() {
        let split = |word: &str| split_list(&[word.to_owned()]);
        assert_eq!(split("a,b"), ["a", "b"]);
        assert_eq!(split("\"a,b\",c"), ["a,b", "c"]);
        assert_eq!(split("\"say \"\"hi\"\"\""), ["say \"hi\""]);
        assert_eq!(split("a,"), ["a", ""]);
        assert!(split("").is_empty());
    }

    #[test]
    fn switches_may_carry_a_value() {
        let command = crate::commands::command();
        let rewritten = |words: &[&str]| {
            let words = words.iter().map(OsString::from).collect();
            booleans_without_values(&command, words)
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(rewritten(&["template", "--include-crds=true"]), ["template", "--include-crds"]);
        assert_eq!(rewritten(&["template", "--include-crds=F", "x"]), ["template", "x"]);
        assert_eq!(rewritten(&["template", "--include-crds=maybe"]), ["template", "--include-crds=maybe"]);
        assert_eq!(rewritten(&["template", "--set=a=true"]), ["template", "--set=a=true"]);
        assert_eq!(rewritten(&["--", "--include-crds=true"]), ["--", "--include-crds=true"]);
    }
}
