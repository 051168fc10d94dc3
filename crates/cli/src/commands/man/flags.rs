//! Renders commands and their flags as Markdown.

use clap::{Arg, ArgAction, Command};

/// Renders the sections of a command and its subcommands, with usage, flags and examples.
///
/// `parent` is the command line in front of the command's name.
pub(super) fn sections(command: &Command, parent: &str) -> String {
    let name = format!("{parent} {}", command.get_name());
    let name = name.trim();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("## {name}\n\n");
    if !about.is_empty() {
        text += &format!("{}\n\n", prose(&about));
    }
    let subcommands =
        || command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set());
    let has_own = command.get_arguments().any(is_own);
    if has_own || subcommands().next().is_none() {
        let usage = command.clone().bin_name(name).render_usage().to_string();
        let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
        text += &format!("```text\n{}\n```\n\n", lines.collect::<Vec<_>>().join("\n"));
    }
    if has_own {
        text += &table(command.get_arguments().filter(|argument| is_own(argument)));
        text.push('\n');
    }
    if let Some(examples) = command.get_after_help() {
        text += &format!("```text\n{}\n```\n\n", examples.to_string().trim_end());
    }
    for subcommand in subcommands() {
        text += &sections(subcommand, name);
    }
    text
}

fn is_own(argument: &Arg) -> bool {
    !argument.is_global_set() && is_shown(argument)
}

fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
}

/// Renders a table of flags.
pub(super) fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut text = String::from("| flag | meaning |\n| --- | --- |\n");
    for argument in arguments.filter(|argument| is_shown(argument)) {
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let mut meaning = cell(&help);
        let defaults: Vec<String> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
        if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
            meaning += &format!(" [default: `{}`]", cell(&defaults.join(" ")));
        }
        let possible: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|value| {
                takes_value && !value.is_hide_set() && !["true", "false"].contains(&value.get_name())
            })
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !possible.is_empty() && !argument.is_hide_possible_values_set() {
            meaning += &format!(" [one of: {}]", possible.join(", "));
        }
        if let Some(variable) = argument.get_env() {
            meaning += &format!(" [env: `{}`]", variable.to_string_lossy());
        }
        text += &format!("| `{}` | {} |\n", spelling(argument).replace('|', "\\|"), meaning.trim());
    }
    text
}

/// Returns the spelling of an argument: `-o, --output FORMAT`, or the name of a positional one.
fn spelling(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let values = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    match (flags.is_empty(), takes_value) {
        (true, _) => values,
        (false, true) => format!("{} {values}", flags.join(", ")),
        (false, false) => flags.join(", "),
    }
}

/// Escapes text for a table cell: one line, without Markdown or HTML markup.
pub(super) fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    escaped(&line).replace('|', "\\|")
}

/// Escapes paragraphs, so that they contain no HTML tags.
fn prose(text: &str) -> String {
    escaped(text.trim())
}

/// Escapes `<` outside of code.
fn escaped(text: &str) -> String {
    let mut is_code = false;
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, character| {
        is_code ^= character == '`';
        match character {
            '<' if !is_code => escaped.push_str("&lt;"),
            '*' if !is_code => escaped.push_str("\\*"),
            other => escaped.push(other),
        }
        escaped
    })
}
