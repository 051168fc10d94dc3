//! Runs areas of cases through the oracle and through us, and counts where they part.

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

/// A kind of question, how often it is asked, and how we answer it.
pub struct Area {
    /// Its name in the report.
    pub name: &'static str,
    /// How many cases a run of the usual size has.
    pub cases: usize,
    /// Whether the cases are written by hand: a run of any size has them all, and all are recorded.
    pub written: bool,
    /// Makes the case of that number.
    pub generate: fn(&mut Gen, usize) -> Json,
    /// Our answer.
    pub ours: fn(&Json) -> Answer,
    /// Takes out of an answer, ours or theirs, what may differ from run to run, such as addresses and the order of Go's maps.
    pub normal: fn(&Json, Answer) -> Answer,
}

impl Area {
    /// How many cases are recorded: of those that are generated an eighth of a run.
    fn recorded(&self) -> usize {
        if self.written { self.cases } else { self.cases.div_ceil(8) }
    }
}

/// A difference that is known and stays, with its reason.
pub struct Known {
    /// The area it is in.
    pub area: &'static str,
    /// Why it stays.
    pub reason: &'static str,
    /// Whether this is that difference.
    pub applies: fn(request: &Json, theirs: &Answer, ours: &Answer) -> bool,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all cases. 1 by default.
    pub seed: u64,
    /// How many times the usual number of cases. 1 by default.
    pub scale: f64,
    /// Run only areas whose name contains this. All by default.
    pub only: Option<String>,
    /// How many differences of each area to show. 5 by default.
    pub show: usize,
    /// What to do with the cases. [`Mode::Compare`] by default.
    pub mode: Mode,
}

/// The package whose recordings these are.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// What to do with the cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ask both sides and compare.
    #[default]
    Compare,
    /// Count what the oracle says of them, to judge the generators.
    Survey,
    /// Only write them, for asking the oracle by hand.
    Print,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, scale: 1.0, only: None, show: 5, mode: Mode::Compare }
    }
}

/// How a run went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Cases asked.
    pub tried: usize,
    /// Cases answered differently.
    pub different: usize,
    /// Those of them that have no listed reason.
    pub unexplained: usize,
}

impl Outcome {
    /// Whether at most one case in a thousand differs, and each of those for a listed reason.
    pub fn passed(self) -> bool {
        self.unexplained == 0 && self.different * 1000 <= self.tried
    }
}

/// The questions of one batch are asked together: enough to keep the oracle busy, few enough to hold.
const BATCH: usize = 1000;

/// Runs the areas and writes one line for each, the differences below it, and the sum.
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

/// A question, and what Helm answered.
#[derive(Serialize, Deserialize)]
struct Case {
    request: Json,
    answer: Answer,
}

/// The cases that come out equal, which are those that can be compared again without Helm.
fn keep(area: &Area, requests: &[Json], answers: &[Answer]) -> Vec<Case> {
    let cases = requests.iter().zip(answers);
    let equal = cases.filter(|(request, theirs)| judge(area, request, (*theirs).clone()).is_none());
    equal.map(|(request, answer)| Case { request: request.clone(), answer: answer.clone() }).collect()
}

/// What differs in our answer, if anything does.
fn judge<'a>(area: &Area, request: &'a Json, theirs: Answer) -> Option<Difference<'a>> {
    let theirs = normal(area, request, theirs);
    let ours = normal(area, request, answer(area.ours, request));
    (!theirs.agrees(&ours)).then_some(Difference { request, theirs, ours })
}

/// Judges our answers by the recorded ones, and gives how many there were.
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

/// Helm's version, as it stands in the name of a recording.
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

/// The area's cases, as many at a time as are asked together.
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

/// A case that was answered differently.
struct Difference<'a> {
    request: &'a Json,
    theirs: Answer,
    ours: Answer,
}

/// How often a question is asked again before its answer counts as Helm's only one.
const AGAIN: usize = 12;

/// Takes out the cases that Helm itself answers one way today and another way tomorrow, if one of them is ours: what it does in
/// the order of a Go map, such as loading subcharts of which several fail, is random.
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
            // An answer that is never the same twice shows addresses, in whatever base.
            let varies = again != case.theirs && masked(&again) == masked(&case.theirs);
            !(again.agrees(&case.ours) || varies && masked(&again) == masked(&case.ours))
        });
    }
    Ok(())
}

/// An answer's text without runs of digits long enough to be an address.
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

/// Our answer; a panic of ours is an answer that agrees with nothing.
pub fn answer(ours: fn(&Json) -> Answer, request: &Json) -> Answer {
    catch_unwind(AssertUnwindSafe(|| ours(request))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Answer::Panic(text.unwrap_or_default().into())
    })
}

/// An answer in the form that is compared.
fn normal(area: &Area, request: &Json, mut answer: Answer) -> Answer {
    match &mut answer {
        Answer::Ok(result) => wire::canonical(result),
        // Errors of ours are always UTF-8.
        Answer::Err { text, .. } => {
            *text = Json::String(String::from_utf8_lossy(&wire::bytes(text)).into_owned());
        }
        Answer::Panic(_) | Answer::Died => {}
    }
    (area.normal)(request, answer)
}

/// An answer without what differs from case to case, to count by.
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
