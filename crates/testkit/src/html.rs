//! A run's report as a single HTML page.

use std::fmt::Write as _;
use std::time::Duration;

use crate::outcome::{CaseOutcome, Failure, Outcome, StepOutcome};

const STYLE: &str = "\
:root{color-scheme:light dark;--good:#1a7f37;--bad:#cf222e;--dim:#656d76;--line:#d0d7de}\
@media(prefers-color-scheme:dark){:root{--good:#3fb950;--bad:#f85149;--dim:#8b949e;--line:#30363d}}\
body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.25rem}details,.case{border-top:1px solid var(--line);padding:.5rem 0}summary{cursor:pointer}\
.good{color:var(--good)}.bad{color:var(--bad)}.dim{color:var(--dim)}\
table{border-collapse:collapse;margin:.25rem 0 .25rem 1rem}td{padding:.125rem 1rem .125rem 0;vertical-align:top}\
pre{margin:.25rem 0 .25rem 1rem;white-space:pre-wrap;font:12px/1.5 ui-monospace,monospace}";

/// Renders the outcome of a run as a self-contained page.
#[must_use]
pub fn html_report(outcome: &Outcome) -> String {
    let total = outcome.cases().count();
    let passed = outcome.cases().filter(|case| case.is_success()).count();
    let class = if passed == total { "good" } else { "bad" };
    let title = format!("{passed} of {total} passed");
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1 class=\"{class}\">{title} <span class=\"dim\">in {}</span></h1>\n",
        shown(outcome.duration)
    );
    for suite in &outcome.suites {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<h2>{}</h2>", escape(&suite.name));
        for case in &suite.cases {
            write_case(&mut page, case);
        }
    }
    page.push_str("</body></html>\n");
    page
}

fn write_case(page: &mut String, case: &CaseOutcome) {
    let (class, sign, open) =
        if case.is_success() { ("good", "✓ passed", "") } else { ("bad", "✗ failed", " open") };
    let _ = writeln!(
        page,
        "<details{open}><summary><span class=\"{class}\">{sign}</span> {} <span class=\"dim\">{} steps, {}</span></summary><table>",
        escape(&case.name),
        case.total_steps,
        shown(case.duration)
    );
    for step in &case.steps {
        write_step(page, step);
    }
    page.push_str("</table></details>\n");
}

fn write_step(page: &mut String, step: &StepOutcome) {
    let (class, sign) = if step.failures.is_empty() { ("good", "✓") } else { ("bad", "✗") };
    let _ = write!(page, "<tr><td class=\"{class}\">{sign}</td><td>{}", escape(&step.name));
    for failure in &step.failures {
        let _ = write!(page, "<pre>{}</pre>", escape(&described(failure)));
    }
    let _ = writeln!(page, "</td><td class=\"dim\">{}</td></tr>", shown(step.duration));
}

fn described(failure: &Failure) -> String {
    let Some(difference) = &failure.difference else { return failure.message.clone() };
    let mut text = format!(
        "{} {}\n  want {}\n  have {}",
        difference.object,
        difference.mismatch.path,
        difference.want(),
        difference.have()
    );
    for condition in &difference.conditions {
        let _ = write!(text, "\n  condition {condition}");
    }
    for event in &difference.events {
        let _ = write!(text, "\n  event {event}");
    }
    text
}

fn shown(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
