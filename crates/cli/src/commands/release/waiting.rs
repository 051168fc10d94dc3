//! Displays progress while waiting.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;

use steersman_release::Progress;

use crate::failure;

/// Returns a progress display: a status line on a terminal, elsewhere only lasting information.
pub(super) fn display() -> impl Fn(&Progress) + Send + Sync + 'static {
    let line = std::io::stderr().is_terminal().then(|| Line(Mutex::new(false)));
    move |progress: &Progress| match (progress, &line) {
        (Progress::Recovering { what }, _) => {
            failure::note(&format!("recovering an interrupted operation: {what}"));
        }
        (Progress::Log { text, .. }, _) => failure::note(text.trim_end()),
        (Progress::Waiting { left, total }, Some(line)) => {
            let first = left.first().map_or("", String::as_str);
            line.write(&format!(
                "{} of {total} ready, waiting for {first}",
                total.saturating_sub(left.len())
            ));
        }
        (Progress::Hook { event, hook }, Some(line)) => line.write(&format!("{event} hook {hook}")),
        (Progress::Written { id, .. }, Some(line)) => line.write(&id.to_string()),
        (Progress::Deleted { id }, Some(line)) => line.write(&format!("deleting {id}")),
        (Progress::Definition { name, .. }, Some(line)) => line.write(name),
        _ => {}
    }
}

struct Line(Mutex<bool>);

impl Line {
    fn write(&self, text: &str) {
        let mut shown = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *shown = true;
        let text: String = text.chars().take(100).collect();
        let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let shown = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
