//! The progress line of a simulation on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use steersman_simulate::Progress;

/// Minimum interval between draws.
const INTERVAL: Duration = Duration::from_millis(100);

/// Draws the progress line on standard error, if that is a terminal. Cheap to clone.
#[derive(Clone)]
pub(super) struct Display {
    is_terminal: bool,
    /// When the line was last drawn; `None` if there is none.
    drawn: Arc<Mutex<Option<Instant>>>,
}

impl Default for Display {
    fn default() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), drawn: Arc::default() }
    }
}

impl Display {
    pub(super) fn show(&self, progress: &Progress) {
        if !self.is_terminal {
            return;
        }
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.is_none_or(|last| last.elapsed() >= INTERVAL) {
            *drawn = Some(Instant::now());
            eprint!("\r\x1b[2K ⋯ {}", line(progress));
            // A closed terminal is noticed when the command ends.
            let _ = std::io::stderr().flush();
        }
    }

    /// Erases the line before anything else is written.
    pub(super) fn erase(&self) {
        if self.drawn.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            eprint!("\r\x1b[2K");
        }
    }
}

fn line(progress: &Progress) -> String {
    match progress {
        Progress::Tried { tried, planned, failed } => format!("{tried} of {planned} runs, {failed} failed"),
        _ => "runs without faults".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use steersman_simulate::{Scenario, Simulation};

    use super::*;

    #[test]
    fn runs_are_counted() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&told);
        Simulation::of(|| steersman::Operator::new("idle"))
            .scenario(Scenario::new())
            .only(["restart"])
            .random(0)
            .threads(1)
            .on_progress(move |progress| lines.lock().unwrap().push(line(progress)))
            .run()
            .unwrap();
        let told = told.lock().unwrap();
        assert_eq!(told[0], "runs without faults");
        assert_eq!(told.last().unwrap(), &format!("{0} of {0} runs, 0 failed", told.len() - 1));
    }
}
