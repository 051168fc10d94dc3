//! Runs areas of cases through the oracle and our crates, and counts the differences.

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use steersman_recordings::{Recordings, recording};

use crate::answer::Answer;
use crate::client::{Client, ClientError};
use crate::generate::Gen;
use crate::wire;

/// A type of request, the number of cases, and our implementation.
pub struct Area {
    /// Its name in the report.
    pub name: &'static str,
    /// The number of cases of a run with scale 1.
    pub cases: usize,
    /// Whether the cases are hand-written: then every run has all of them, and all are recorded.
    pub written: bool,
    /// Generates the case with a number.
    pub generate: fn(&mut Gen, usize) -> Json,
    /// Returns our answer.
    pub ours: fn(&Json) -> Answer,
    /// Removes from an answer, ours or the oracle's, what may differ between runs. Examples are addresses and the order of Go's
    /// maps.
    pub normal: fn(&Json, Answer) -> Answer,
}

impl Area {
    /// Returns the number of recorded cases: an eighth of the generated ones.
    fn recorded(&self) -> usize {
        if self.written { self.cases } else { self.cases.div_ceil(8) }
    }
}

/// A known and accepted difference.
pub struct Known {
    /// The area.
    pub area: &'static str,
    /// The reason for accepting it.
    pub reason: &'static str,
    /// Whether a difference is this one.
    pub applies: fn(request: &Json, theirs: &Answer, ours: &Answer) -> bool,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all cases. 1 by default.
    pub seed: u64,
    /// The factor for the number of cases. 1 by default.
    pub scale: f64,
    /// Only runs areas with this in their name. All by default.
    pub only: Option<String>,
    /// The number of differences shown per area. 5 by default.
    pub show: usize,
    /// What to do with the cases. [`Mode::Compare`] by default.
    pub mode: Mode,
}

/// The package with the recordings.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// The mode of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Compares the answers of both sides.
    #[default]
    Compare,
    /// Counts the oracle's answers, to assess the generators.
    Survey,
    /// Only prints the cases, for passing them to the oracle manually.
    Print,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, scale: 1.0, only: None, show: 5, mode: Mode::Compare }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The number of cases.
    pub tried: usize,
    /// The number of different answers.
    pub different: usize,
    /// The number of differences without a known reason.
    pub unexplained: usize,
}

impl Outcome {
    /// Whether at most one case in a thousand differs, and only for known reasons.
    pub fn passed(self) -> bool {
        self.unexplained == 0 && self.different * 1000 <= self.tried
    }
}

/// The number of requests sent together: enough to keep the oracle busy, few enough for memory.
const BATCH: usize = 1000;

/// Runs the areas. Prints one line per area, its differences below it, and the total.
pub fn run(
    areas: &[Area],
    known: &[Known],
    options: &Options,
    out: &mut impl Write,
) -> Result<Outcome, ClientError> {
    let client = Client::helm()?;
    let mut total = Outcome::default();
    for area in areas {
        if options.only.as_ref().is_some_and(|only| !area.name.contains(only.as_str())) {
            continue;
        }
        let outcome = match options.mode {
            Mode::Compare => compare(&client, area, known, options, out)?,
            Mode::Survey => survey(&client, area, options, out)?,
            Mode::Print => print(area, options, out)?,
        };
        out.flush()?;
        total.tried += outcome.tried;
        total.different += outcome.different;
        total.unexplained += outcome.unexplained;
    }
    if options.mode == Mode::Compare {
        let Outcome { tried, different, unexplained } = total;
        writeln!(out, "oracle total tried={tried} different={different} unexplained={unexplained}")?;
    }
    Ok(total)
}

fn compare(
    client: &Client,
    area: &Area,
    known: &[Known],
    options: &Options,
    out: &mut impl Write,
) -> Result<Outcome, ClientError> {
    let mut outcome = Outcome::default();
    let mut shown = Vec::new();
    let mut kept = Vec::new();
    for requests in batches(area, options) {
        let answers = client.ask(&requests)?;
        outcome.tried += requests.len();
        if recording() && kept.len() < area.recorded() {
            kept.extend(keep(area, &requests, &answers));
            kept.truncate(area.recorded());
        }
        let mut differences: Vec<Difference<'_>> = requests
            .iter()
            .zip(answers)
            .filter_map(|(request, theirs)| judge(area, request, theirs))
            .collect();
        forgive(client, area, &mut differences)?;
        for Difference { request, theirs, ours } in differences {
            outcome.different += 1;
            let reason = known.iter().find(|k| k.area == area.name && (k.applies)(request, &theirs, &ours));
            if reason.is_none() {
                outcome.unexplained += 1;
            }
            if shown.len() < options.show {
                let reason = reason.map_or("unexplained", |k| k.reason);
                shown.push(format!("  {reason}\n    {request}\n    theirs: {theirs}\n    ours:   {ours}"));
            }
        }
    }
    if recording() {
        Recordings::of(PACKAGE).write(area.name, &version(), &kept);
    }
    writeln!(out, "oracle {} tried={} different={}", area.name, outcome.tried, outcome.different)?;
    for difference in shown {
        writeln!(out, "{difference}")?;
    }
    Ok(outcome)
}

/// A request, and Helm's answer.
#[derive(Serialize, Deserialize)]
struct Case {
    request: Json,
    answer: Answer,
}

/// Returns the cases with equal answers, which can be compared again without Helm.
fn keep(area: &Area, requests: &[Json], answers: &[Answer]) -> Vec<Case> {
    let cases = requests.iter().zip(answers);
    let equal = cases.filter(|(request, theirs)| judge(area, request, (*theirs).clone()).is_none());
    equal.map(|(request, answer)| Case { request: request.clone(), answer: answer.clone() }).collect()
}

/// Returns the difference of our answer, if there is one.
fn judge<'a>(area: &Area, request: &'a Json, theirs: Answer) -> Option<Difference<'a>> {
    let theirs = normal(area, request, theirs);
    let ours = normal(area, request, answer(area.ours, request));
    (!theirs.agrees(&ours)).then_some(Difference { request, theirs, ours })
}

/// Compares our answers with the recorded ones, and returns their number.
///
/// # Errors
///
/// The differences, as text.
pub fn replay(area: &Area) -> Result<usize, String> {
    let cases: Vec<Case> = Recordings::of(PACKAGE).read(area.name);
    let mut text = String::new();
    for Case { request, answer } in &cases {
        if let Some(Difference { theirs, ours, .. }) = judge(area, request, answer.clone()) {
            text += &format!("{request}\n    theirs: {theirs}\n    ours:   {ours}\n");
        }
    }
    if text.is_empty() { Ok(cases.len()) } else { Err(text) }
}

/// Returns Helm's version for the name of a recording.
fn version() -> String {
    let go_mod = include_str!("../../helm/go.mod");
    format!("helm-{}", steersman_recordings::required_version(go_mod, "helm.sh/helm/v3"))
}

fn survey(
    client: &Client,
    area: &Area,
    options: &Options,
    out: &mut impl Write,
) -> Result<Outcome, ClientError> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut outcome = Outcome::default();
    for requests in batches(area, options) {
        outcome.tried += requests.len();
        for theirs in client.ask(&requests)? {
            *counts.entry(gist(&theirs)).or_default() += 1;
        }
    }
    writeln!(out, "survey {} tried={}", area.name, outcome.tried)?;
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (gist, count) in counts.into_iter().take(options.show) {
        writeln!(out, "  {count:6} {gist}")?;
    }
    Ok(outcome)
}

fn print(area: &Area, options: &Options, out: &mut impl Write) -> Result<Outcome, ClientError> {
    for request in batches(area, options).flatten() {
        writeln!(out, "{request}")?;
    }
    Ok(Outcome::default())
}

/// Returns the area's cases in batches.
fn batches(area: &Area, options: &Options) -> impl Iterator<Item = Vec<Json>> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of cases"
    )]
    let scaled = (area.cases as f64 * options.scale).ceil() as usize;
    let cases = if area.written { area.cases } else { scaled };
    let seed = options.seed;
    (0..cases)
        .step_by(BATCH)
        .map(move |start| (start..cases.min(start + BATCH)).map(|case| generate(area, seed, case)).collect())
}

/// A case with different answers.
struct Difference<'a> {
    request: &'a Json,
    theirs: Answer,
    ours: Answer,
}

/// The number of times that a request is repeated to find other answers of Helm.
const AGAIN: usize = 12;

/// Drops the cases for which Helm gives several answers, ours among them. What depends on the order of a Go map is random, such
/// as which of several failing subcharts is loaded first.
fn forgive(client: &Client, area: &Area, differences: &mut Vec<Difference<'_>>) -> Result<(), ClientError> {
    for _ in 0..AGAIN {
        if differences.is_empty() || differences.len() > BATCH / 4 {
            break;
        }
        let requests: Vec<Json> = differences.iter().map(|case| case.request.clone()).collect();
        let mut answers = client.ask(&requests)?.into_iter();
        differences.retain(|case| {
            let Some(again) = answers.next().map(|theirs| normal(area, case.request, theirs)) else {
                return true;
            };
            // An answer that is different each time contains addresses, in whatever base.
            let varies = again != case.theirs && masked(&again) == masked(&case.theirs);
            !(again.agrees(&case.ours) || varies && masked(&again) == masked(&case.ours))
        });
    }
    Ok(())
}

/// Returns an answer's text without digit sequences long enough to be an address.
fn masked(answer: &Answer) -> String {
    const SHORTEST: usize = 9;
    let text = match answer {
        Answer::Ok(result) => String::from_utf8_lossy(&wire::flat(result)).into_owned(),
        Answer::Err { text, .. } => String::from_utf8_lossy(&wire::bytes(text)).into_owned(),
        Answer::Panic(_) | Answer::Died => return answer.to_string(),
    };
    let mut out = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        out += if digits.len() >= SHORTEST { &word[digits.len()..] } else { word };
    }
    out
}

fn generate(area: &Area, seed: u64, case: usize) -> Json {
    let mut request = (area.generate)(&mut Gen::new(seed, area.name, case), case);
    request["id"] = Json::from(format!("{}/{seed}/{case}", area.name));
    request
}

/// Returns our answer; a panic is an answer that matches nothing.
pub fn answer(ours: fn(&Json) -> Answer, request: &Json) -> Answer {
    catch_unwind(AssertUnwindSafe(|| ours(request))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Answer::Panic(text.unwrap_or_default().into())
    })
}

/// Normalizes an answer for comparison.
fn normal(area: &Area, request: &Json, mut answer: Answer) -> Answer {
    match &mut answer {
        Answer::Ok(result) => wire::canonical(result),
        // Our errors are always UTF-8.
        Answer::Err { text, .. } => {
            *text = Json::String(String::from_utf8_lossy(&wire::bytes(text)).into_owned());
        }
        Answer::Panic(_) | Answer::Died => {}
    }
    (area.normal)(request, answer)
}

/// Returns an answer without what differs from case to case, for counting.
fn gist(answer: &Answer) -> String {
    match answer {
        Answer::Ok(_) => "ok".into(),
        Answer::Err { text, kind } => {
            let text = text.as_str().unwrap_or_default();
            let tail = text.rsplit(": ").next().unwrap_or_default();
            let words: String = tail.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
            format!("{kind}: {words}")
        }
        Answer::Panic(text) => format!("panic: {text}"),
        Answer::Died => "died".into(),
    }
}
