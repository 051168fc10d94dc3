//! Failures of commands, displayed with location, message and help.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use steersman_chart::{Diagnostic, Exceeded, Location};
use unicode_width::UnicodeWidthStr;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HELP: Style = AnsiColor::Cyan.on_default().bold();
const FRAME: Style = AnsiColor::Blue.on_default().bold();
const CARET: Style = AnsiColor::Red.on_default().bold();

/// Exit code for a closed pipe, the same as if SIGPIPE had terminated the program.
const BROKEN_PIPE: u8 = 141;

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure(Box<Report>);

#[derive(Debug, Default)]
struct Report {
    /// The message, with Helm's wording where Helm has one.
    message: String,
    diagnostic: Option<Diagnostic>,
    help: Option<String>,
    quiet: bool,
    code: Option<u8>,
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// Creates a failure with a message only.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Report { message: message.into(), ..Report::default() }))
    }

    /// Creates a failure for a closed standard output, which is not displayed.
    pub(crate) fn broken_pipe() -> Self {
        Self(Box::new(Report { quiet: true, ..Report::default() }))
    }

    /// Adds a help text on how to fix it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Sets the exit code. Default: 1.
    pub(crate) fn with_exit_code(mut self, code: u8) -> Self {
        self.0.code = Some(code);
        self
    }

    /// Creates a failure for something that requires a feature missing in this build.
    #[cfg_attr(feature = "default", allow(dead_code, reason = "nothing is left out"))]
    pub(crate) fn of_feature(what: &str, feature: &str) -> Self {
        Self::new(format!("{what}: built without the feature `{feature}`"))
            .help(format!("rebuild with `cargo install --locked --path crates/cli --features {feature}`"))
    }

    /// Creates a failure from a cluster's error: its message and reason, and what to do about it.
    pub(crate) fn of_kube(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let message = match (status.message.as_str(), status.reason.as_str()) {
                    ("", "") => format!("the API server answered with {}", status.code),
                    ("", reason) => reason.to_owned(),
                    (message, "") => message.to_owned(),
                    // Most messages of the API server already contain the reason.
                    (message, reason) if names(message, reason) => message.to_owned(),
                    (message, reason) => format!("{message} ({reason})"),
                };
                let failure = Self::new(message);
                match next_step(&status.reason, status.code) {
                    Some(help) => failure.help(help),
                    None => failure,
                }
            }
            error => Self::new(error.to_string()),
        }
    }

    /// Creates a failure for failed tests, which the command has already reported.
    pub(crate) fn of_tests() -> Self {
        Self(Box::new(Report { quiet: true, code: Some(1), ..Report::default() }))
    }

    /// Prefixes the message with the step in which it happened.
    pub(crate) fn within(mut self, step: &str) -> Self {
        self.0.message.insert_str(0, &format!("{step}: "));
        self
    }

    /// The message.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.0.code {
            Some(code) => ExitCode::from(code),
            None if self.0.quiet => ExitCode::from(BROKEN_PIPE),
            None => ExitCode::FAILURE,
        }
    }

    /// Prints it to standard error, with colours if that is a terminal and they are not disabled.
    pub(crate) fn show(&self) {
        if !self.0.quiet {
            to_stderr(&self.draw());
        }
    }

    /// Renders the failure with colours.
    pub(crate) fn draw(&self) -> String {
        let Report { message, diagnostic, help, .. } = &*self.0;
        let mut picture = format!("{ERROR}error:{ERROR:#} {}\n", message.trim_end());
        if let Some(diagnostic) = diagnostic {
            draw_place(&mut picture, diagnostic);
        }
        let help = help.as_deref().or(diagnostic.as_ref().and_then(|diagnostic| diagnostic.help.as_deref()));
        if let Some(help) = help {
            let _ = writeln!(picture, "{HELP}help:{HELP:#} {help}");
        }
        picture
    }
}

/// Whether a message contains the words of a reason such as `AlreadyExists`.
fn names(message: &str, reason: &str) -> bool {
    let letters = |text: &str| {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    };
    letters(message).contains(&letters(reason))
}

/// Returns what to do about an error of the API server.
fn next_step(reason: &str, code: u16) -> Option<&'static str> {
    Some(match (reason, code) {
        ("Unauthorized", _) | (_, 401) => {
            "the kubeconfig's credentials are invalid or expired: sign in again"
        }
        ("Forbidden", _) | (_, 403) => {
            "request the permission, or use a kubeconfig that has it with --kubeconfig"
        }
        ("NotFound", _) => "`steer deploy --crds-only` installs a project's definitions",
        ("Conflict", _) => "it was modified concurrently: try again",
        ("Invalid", _) => "fix the field and try again",
        ("ServerTimeout" | "Timeout" | "TooManyRequests" | "ServiceUnavailable", _) | (_, 429 | 503) => {
            "the API server is busy: try again"
        }
        _ => return None,
    })
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::of_kube(&error)
    }
}

impl From<steersman_chart::Error> for Failure {
    fn from(error: steersman_chart::Error) -> Self {
        let broken = matches!(error, steersman_chart::Error::Manifest { .. });
        let raise = match error.exceeded() {
            Some(Exceeded::Memory(_)) => Some("--render-memory raises the limit"),
            Some(Exceeded::Cost(_)) => Some("--render-cost raises the limit"),
            Some(Exceeded::Interrupted(_)) => Some("--render-timeout raises the limit"),
            _ => None,
        };
        let help = raise.or_else(|| broken.then_some("--debug prints what was rendered"));
        Self(Box::new(Report {
            message: error.to_string(),
            diagnostic: error.diagnostic().cloned(),
            help: help.map(str::to_owned),
            ..Report::default()
        }))
    }
}

impl From<steersman_release::Error> for Failure {
    fn from(error: steersman_release::Error) -> Self {
        let help = match &error {
            steersman_release::Error::Chart(_) => None,
            steersman_release::Error::InProgress { remaining } => Some(format!(
                "if no other process works on it, try again in {} seconds to recover the operation",
                remaining.as_secs() + 1
            )),
            steersman_release::Error::InvalidOwnership { .. } => Some(
                "--take-ownership adopts objects without ownership metadata, or of another release"
                    .to_owned(),
            ),
            steersman_release::Error::UnknownKind { .. } => {
                Some("install the custom resource definitions first".to_owned())
            }
            _ => None,
        };
        match error {
            steersman_release::Error::Chart(error) => error.into(),
            error => Self(Box::new(Report { message: error.to_string(), help, ..Report::default() })),
        }
    }
}

#[cfg(feature = "scaffold")]
impl From<steersman_scaffold::Error> for Failure {
    fn from(error: steersman_scaffold::Error) -> Self {
        let help = error.help();
        match error {
            steersman_scaffold::Error::Chart(error) => error.into(),
            error => Self(Box::new(Report { message: error.to_string(), help, ..Report::default() })),
        }
    }
}

/// Prints a warning to standard error.
pub(crate) fn warn(message: &str) {
    to_stderr(&format!("{WARNING}warning:{WARNING:#} {message}\n"));
}

/// Prints a progress note to standard error.
pub(crate) fn note(message: &str) {
    to_stderr(&format!("{message}\n"));
}

fn to_stderr(text: &str) {
    let mut stderr = anstream::AutoStream::auto(std::io::stderr().lock());
    let _ = stderr.write_all(text.as_bytes());
}

/// Draws the source line with the failing part underlined, and the templates that included it.
fn draw_place(picture: &mut String, diagnostic: &Diagnostic) {
    let Diagnostic { location, source, span, label, chain, .. } = diagnostic;
    let number = location.line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(picture, "{margin}{FRAME}╭─{FRAME:#} {}", place(location));
    if let Some(source) = source {
        let part = |range: std::ops::Range<usize>| source.get(range).unwrap_or_default();
        let before = UnicodeWidthStr::width(without_tabs(part(0..span.start)).as_str());
        let marked = UnicodeWidthStr::width(without_tabs(part(span.clone())).as_str()).max(1);
        let _ = writeln!(picture, "{FRAME}{number}│{FRAME:#} {}", without_tabs(source));
        let (gap, carets) = (" ".repeat(before), "^".repeat(marked));
        let space = if label.is_empty() { "" } else { " " };
        let _ = writeln!(picture, "{margin}{FRAME}│{FRAME:#} {gap}{CARET}{carets}{space}{label}{CARET:#}");
    }
    for includer in chain {
        let _ = writeln!(picture, "{margin}{FRAME}├─{FRAME:#} included by {}", place(includer));
    }
    close_frame(picture);
}

/// Replaces the frame's last joint by a corner.
fn close_frame(picture: &mut String) {
    if let Some(joint) = picture.rfind('├') {
        picture.replace_range(joint..joint + '├'.len_utf8(), "╰");
    }
}

/// Formats a location as editors accept it, with columns counted from 1.
fn place(location: &Location) -> String {
    let Location { file, line, column } = location;
    match column {
        Some(column) => format!("{file}:{line}:{}", column + 1),
        None => format!("{file}:{line}"),
    }
}

/// Replaces tabs by spaces: their varying width would misplace the carets.
fn without_tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn answers_of_a_cluster_are_said_in_words() {
        let shown = |message: &str, reason: &str, code: u16| {
            let status = Status { message: message.into(), reason: reason.into(), code, ..Status::default() };
            let failure = Failure::of_kube(&kube::Error::Api(Box::new(status)));
            let drawn = anstream::adapter::strip_str(&failure.draw()).to_string();
            assert!(!drawn.contains("Status {"), "{drawn}");
            drawn
        };
        let said = shown("pods is forbidden: no", "Forbidden", 403);
        assert!(said.starts_with("error: pods is forbidden: no\nhelp: request the permission"), "{said}");
        let said = shown("shops \"a\" already exists", "AlreadyExists", 409);
        assert_eq!(said, "error: shops \"a\" already exists\n");
        let said = shown("the object has been modified", "Conflict", 409);
        assert_eq!(
            said,
            "error: the object has been modified (Conflict)\nhelp: it was modified concurrently: try again\n"
        );
        assert_eq!(shown("", "", 500), "error: the API server answered with 500\n");
    }
}
