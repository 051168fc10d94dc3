//! Runs many cases on both servers and summarizes the results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use steersman_recordings::Recordings;
use thiserror::Error;

use crate::compare::{Known, differences};
use crate::corpus::Case;
use crate::recording::Recording;
use crate::run::{Answer, fulfilled, run_case};
use crate::target::{Target, TargetError};

/// The reason why a suite is aborted.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// Recorded responses cannot be written.
    #[error("recording: {0}")]
    Recording(#[from] std::io::Error),
}

/// The result of an area.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Cases run on both servers.
    pub tried: usize,
    /// Cases that differ without a known reason.
    pub different: usize,
    /// Cases that differ for a known reason.
    pub listed: usize,
    /// Cases for which the real server closed the connection; not counted as tried.
    pub unanswered: usize,
    /// The total number of requests.
    pub requests: usize,
}

/// The outcome of a run: tallies by area, and every difference as text.
#[derive(Debug, Default)]
pub struct Report {
    /// Tallies by area, in order of names.
    pub areas: BTreeMap<String, Tally>,
    /// All differences, case by case.
    pub text: String,
    /// The number of differences per place, ignoring list indices.
    places: BTreeMap<String, usize>,
}

impl Report {
    /// Returns the total of all areas.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.areas.values().fold(Tally::default(), |sum, tally| Tally {
            tried: sum.tried + tally.tried,
            different: sum.different + tally.different,
            listed: sum.listed + tally.listed,
            unanswered: sum.unanswered + tally.unanswered,
            requests: sum.requests + tally.requests,
        })
    }

    /// Returns one line per area and one for the total: `oracle NAME tried=... different=...`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (name, tally) in
            self.areas.iter().map(|(name, tally)| (name.as_str(), *tally)).chain([("all", self.total())])
        {
            let _ = writeln!(
                text,
                "oracle {name} tried={} different={} listed={} unanswered={} requests={}",
                tally.tried, tally.different, tally.listed, tally.unanswered, tally.requests
            );
        }
        text
    }

    /// Formats the differences: the most frequent places first, then all of them case by case.
    #[must_use]
    pub fn differences(&self) -> String {
        let mut frequent: Vec<(&String, &usize)> = self.places.iter().collect();
        frequent.sort_by_key(|(place, count)| (std::cmp::Reverse(**count), place.as_str()));
        let mut text = "Places that differ most often\n".to_owned();
        for (place, count) in frequent.into_iter().take(40) {
            let _ = writeln!(text, "{count:6} {place}");
        }
        text.push('\n');
        text.push_str(&self.text);
        text
    }

    /// Adds the outcome of a case.
    pub fn add(&mut self, case: &Case, known: &Known, real: &[Answer], ours: &[Answer]) {
        let tally = self.areas.entry(case.feature.clone()).or_default();
        if real.is_empty() {
            tally.unanswered += 1;
            return;
        }
        let found = differences(case, real, ours);
        tally.tried += 1;
        tally.requests += real.len();
        if found.is_empty() {
            return;
        }
        let reason = known.reason(case);
        if let Some(reason) = reason {
            tally.listed += 1;
            let _ = writeln!(self.text, "== {} / {} (listed: {reason})", case.feature, case.name);
        } else {
            tally.different += 1;
            let _ = writeln!(self.text, "== {} / {}", case.feature, case.name);
        }
        let mut shown_request = 0;
        for difference in &found {
            let place: Vec<&str> = difference
                .place
                .split('/')
                .map(|part| if part.parse::<usize>().is_ok() { "*" } else { part })
                .collect();
            *self.places.entry(place.join("/")).or_default() += 1;
            if shown_request != difference.step {
                shown_request = difference.step;
                let body = case
                    .steps
                    .get(difference.step - 1)
                    .map(|step| serde_json::to_string(step).unwrap_or_default());
                let _ =
                    writeln!(self.text, "  sent: {}", body.unwrap_or_else(|| "the final look".to_owned()));
            }
            let _ = writeln!(self.text, "{difference}");
        }
        self.text.push('\n');
    }
}

/// Records the real server's responses to every case. Returns the number of newly recorded cases.
///
/// # Errors
/// If the server does not respond or the recording cannot be written.
pub async fn record(real: &Target, cases: &[Case], folder: &Path, jobs: usize) -> Result<usize, SuiteError> {
    let mut asked = 0;
    for (feature, cases) in by_feature(cases) {
        let mut recording = Recording::open(folder, &feature);
        let missing: Vec<&Case> =
            cases.into_iter().filter(|case| recording.get(&case.key()).is_none()).collect();
        asked += missing.len();
        let mut answers = std::pin::pin!(ask(real, missing, jobs));
        while let Some((case, outcome)) = answers.next().await {
            match outcome {
                Ok(answers) => recording.insert(case.key(), answers)?,
                // It panics on some requests and closes the connection; there is no response to compare with.
                Err(error) if error.to_string().contains("IncompleteMessage") => {
                    recording.insert(case.key(), Vec::new())?;
                }
                // A temporary overload must not discard the rest; the case is sent again next time.
                Err(error) => eprintln!("{} / {}: {error}", case.feature, case.name),
            }
        }
    }
    Ok(asked)
}

/// Returns the cases without recorded responses.
#[must_use]
pub fn unrecorded<'a>(cases: &'a [Case], folder: &Path) -> Vec<&'a Case> {
    let mut missing = Vec::new();
    for (feature, cases) in by_feature(cases) {
        let recording = Recording::open(folder, &feature);
        missing.extend(cases.into_iter().filter(|case| recording.get(&case.key()).is_none()));
    }
    missing
}

/// The maximum number of cases per feature kept in the repository.
const KEPT: usize = 150;

/// A case, and the real server's responses.
#[derive(Debug, Serialize, Deserialize)]
struct KeptCase {
    case: Case,
    answers: Vec<Answer>,
}

fn kept() -> Recordings {
    Recordings::of(env!("CARGO_MANIFEST_DIR"))
}

/// Stores the cases in which `ours` responds like the real server, by feature, for [`replay`].
///
/// # Errors
/// If the recording is missing.
pub async fn keep(ours: &Target, cases: &[Case], folder: &Path, jobs: usize) -> Result<(), SuiteError> {
    for (feature, cases) in by_feature(cases) {
        let recording = Recording::open(folder, &feature);
        let outcomes = outcomes(ours, cases.clone(), jobs).await;
        let equal = cases.into_iter().filter_map(|case| {
            let real = recording.get(&case.key()).filter(|real| !real.is_empty())?;
            let ours = outcomes.get(&case.key())?;
            differences(case, real, ours)
                .is_empty()
                .then(|| KeptCase { case: case.clone(), answers: real.to_vec() })
        });
        kept().write(&feature, &version(), &equal.take(KEPT).collect::<Vec<_>>());
    }
    Ok(())
}

/// Returns the areas with cases kept in the repository.
#[must_use]
pub fn kept_areas() -> Vec<String> {
    kept().areas()
}

/// The maximum number of differing cases that are retried.
const RUN_AGAIN: usize = 5;

/// Runs an area's cases from the repository on a fresh server and compares.
///
/// A case that differs is retried, alone on a separate server: with many concurrent cases on a busy machine, a step may time out
/// before the server was scheduled.
pub async fn replay(area: &str, server: impl Fn() -> Target, jobs: usize) -> Report {
    let mut cases: Vec<KeptCase> = kept().read(area);
    for KeptCase { case, answers } in &mut cases {
        // A state that the real server never reached is not waited for again.
        for (step, answer) in case.steps.iter_mut().zip(answers) {
            step.until = step.until.take().filter(|wanted| fulfilled(wanted, &answer.body, answer.status));
        }
    }
    let shared = server();
    let together = outcomes(&shared, cases.iter().map(|kept| &kept.case).collect(), jobs).await;
    let mut report = Report::default();
    for KeptCase { case, answers } in &cases {
        let ours = together.get(&case.key()).map_or(&[][..], Vec::as_slice);
        if differences(case, answers, ours).is_empty() || report.total().different >= RUN_AGAIN {
            report.add(case, &Known::default(), answers, ours);
        } else {
            let alone = outcomes(&server(), vec![case], 1).await;
            let ours = alone.get(&case.key()).map_or(&[][..], Vec::as_slice);
            report.add(case, &Known::default(), answers, ours);
        }
    }
    report
}

/// Returns the real server's version for the name of a recording.
fn version() -> String {
    let go_mod = include_str!("../../kubernetes/go.mod");
    format!("kubernetes-{}", steersman_recordings::required_version(go_mod, "k8s.io/kubernetes"))
}

/// Runs recorded cases on the other server and compares.
///
/// # Errors
/// If the recording is missing.
pub async fn compare(
    ours: &Target,
    cases: &[Case],
    known: &Known,
    folder: &Path,
    jobs: usize,
) -> Result<Report, SuiteError> {
    let mut report = Report::default();
    for (feature, cases) in by_feature(cases) {
        let recording = Recording::open(folder, &feature);
        let outcomes = outcomes(ours, cases.clone(), jobs).await;
        for case in cases {
            if let (Some(real), Some(ours)) = (recording.get(&case.key()), outcomes.get(&case.key())) {
                report.add(case, known, real, ours);
            }
        }
    }
    Ok(report)
}

/// Returns a server's responses to each case, by the case's key.
async fn outcomes(target: &Target, cases: Vec<&Case>, jobs: usize) -> BTreeMap<String, Vec<Answer>> {
    let mut outcomes = BTreeMap::new();
    let mut answers = std::pin::pin!(ask(target, cases, jobs));
    while let Some((case, outcome)) = answers.next().await {
        // A closed connection is a difference like any other, and does not end the run.
        let answers = outcome.unwrap_or_else(|error| vec![broken(&error)]);
        outcomes.insert(case.key(), answers);
    }
    outcomes
}

fn ask<'a>(
    target: &Target,
    cases: Vec<&'a Case>,
    jobs: usize,
) -> impl futures_util::Stream<Item = (&'a Case, Result<Vec<Answer>, TargetError>)> {
    let target = Arc::new(target.clone());
    futures_util::stream::iter(cases)
        .map(move |case| {
            let target = Arc::clone(&target);
            async move { (case, run_case(&target, case).await) }
        })
        .buffer_unordered(jobs)
}

fn broken(error: &TargetError) -> Answer {
    Answer {
        request: "-".to_owned(),
        status: 0,
        headers: BTreeMap::new(),
        body: serde_json::json!({ "message": error.to_string() }),
    }
}

fn by_feature(cases: &[Case]) -> BTreeMap<String, Vec<&Case>> {
    let mut groups: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        groups.entry(case.feature.clone()).or_default().push(case);
    }
    groups
}
