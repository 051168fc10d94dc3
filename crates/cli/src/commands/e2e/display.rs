//! Displays a run: a line for each test case, and the details needed to fix a failure.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use steersman_testkit::{CaseOutcome, Event, Failure, Observer, Outcome};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// Width of the column with the names of test cases.
const NAMES: usize = 16;

/// Shows finished test cases, and on a terminal also the running ones.
pub(super) struct Display {
    is_terminal: bool,
    is_verbose: bool,
    running: Mutex<Vec<Running>>,
}

struct Running {
    case: String,
    done: usize,
    steps: usize,
}

impl Display {
    pub(super) fn new(is_verbose: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal() && !is_verbose;
        Self { is_terminal, is_verbose, running: Mutex::default() }
    }

    /// Prints a line about the run.
    pub(super) fn say(&self, text: &str) {
        self.print(&format!(" {GOOD}✓{GOOD:#} {text}\n"));
    }

    pub(super) fn summary(&self, outcome: &Outcome) {
        let total = outcome.cases().count();
        let passed = outcome.cases().filter(|case| case.is_success()).count();
        let style = if passed == total { GOOD } else { BAD };
        self.print(&format!(" {style}{passed} of {total} passed{style:#} in {}\n", shown(outcome.duration)));
    }

    fn print(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        // A closed pipe is noticed when the command ends.
        let _ = write!(out, "{}{text}", self.erase());
        let _ = out.flush();
    }

    /// Returns the escape sequence that erases the line of running test cases.
    fn erase(&self) -> &'static str {
        if self.is_terminal { "\r\x1b[2K" } else { "" }
    }

    /// Draws the line of running test cases.
    fn draw(&self, running: &[Running]) {
        if !self.is_terminal || running.is_empty() {
            return;
        }
        let cases: Vec<String> =
            running.iter().map(|case| format!("{} {}/{}", case.case, case.done, case.steps)).collect();
        let mut line = format!(" ⋯ {}", cases.join("  "));
        if let Some((end, _)) = line.char_indices().nth(100) {
            line.truncate(end);
        }
        let mut out = anstream::stdout().lock();
        let _ = write!(out, "{}{DIM}{line}{DIM:#}", self.erase());
        let _ = out.flush();
    }
}

impl Observer for Display {
    fn notify(&self, event: &Event<'_>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Log { source, line } if self.is_verbose => {
                let source = if source.is_empty() { String::new() } else { format!("{source} │ ") };
                self.print(&format!("   {DIM}{source}{line}{DIM:#}\n"));
            }
            Event::CaseStarted { case, steps } => {
                running.push(Running { case: (*case).to_owned(), done: 0, steps: *steps });
            }
            Event::StepFinished { case, step } if step.name != "setup" => {
                if let Some(found) = running.iter_mut().find(|running| running.case == *case) {
                    found.done += 1;
                }
            }
            Event::CaseFinished(outcome) => {
                running.retain(|running| running.case != outcome.name);
                self.print(&describe(outcome));
            }
            _ => return,
        }
        self.draw(&running);
    }
}

/// Describes a finished test case, with the details of a failure.
fn describe(case: &CaseOutcome) -> String {
    let name = &case.name;
    let Some(step) = case.failed_step() else {
        let steps = case.total_steps;
        let plural = if steps == 1 { "" } else { "s" };
        let counted = format!("{steps} step{plural}");
        return format!(" {GOOD}✓{GOOD:#} {name:<NAMES$} {counted:<10} {}\n", shown(case.duration));
    };
    let place = match step.name.strip_prefix("step ") {
        Some(title) => {
            let number = case.steps.iter().filter(|step| step.name.starts_with("step ")).count();
            format!("step {number} of {}, {title}, after {}", case.total_steps, shown(step.duration))
        }
        None => step.name.clone(),
    };
    let mut text = format!(" {BAD}✗{BAD:#} {name:<NAMES$} {place}\n");
    for failure in &step.failures {
        describe_failure(&mut text, failure);
    }
    text
}

fn describe_failure(text: &mut String, failure: &Failure) {
    // Writing to a string cannot fail.
    let Some(difference) = &failure.difference else {
        for line in failure.message.lines() {
            let _ = writeln!(text, "     {line}");
        }
        return;
    };
    let _ = writeln!(text, "     {} {}", difference.object, difference.mismatch.path);
    let _ = writeln!(text, "       want {}", difference.want());
    let _ = writeln!(text, "       have {}", difference.have());
    for condition in &difference.conditions {
        let _ = writeln!(text, "       {DIM}condition {condition}{DIM:#}");
    }
    for event in &difference.events {
        let _ = writeln!(text, "       {DIM}event {event}{DIM:#}");
    }
}

/// Formats a duration for people.
pub(super) fn shown(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}
