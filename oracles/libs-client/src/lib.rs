//! Compares our implementations with Kubernetes' own libraries, case by case, and reports differences.
//!
//! An [`Area`] is compared with the libraries themselves ([`Area::compare`]) or with a selection of their recorded answers
//! ([`Area::replay`]), which does not need Go.
//!
//! For tests only: any failure to get an answer panics. The oracle is built by `oracles/kubernetes/build libs`, or by the
//! program named in `STEERSMAN_ORACLE_BUILD`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steersman_recordings::Recordings;

/// The maximum number of differences shown.
const SHOWN: usize = 12;

/// Returns the number of cases to try: `default`, unless `STEERSMAN_ORACLE_CASES` is set.
pub fn cases(default: usize) -> usize {
    std::env::var("STEERSMAN_ORACLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Sends all requests to the libraries, and returns the answers in order.
fn ask(requests: &[Value]) -> Vec<Value> {
    let mut child = Command::new(built())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the oracle starts");
    let mut input = child.stdin.take().expect("it has an input");
    let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
    let writer = std::thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").expect("the oracle reads");
        }
    });
    let answers: Vec<Value> = BufReader::new(child.stdout.take().expect("it has an output"))
        .lines()
        .map(|line| serde_json::from_str(&line.expect("an answer")).expect("JSON"))
        .collect();
    writer.join().expect("all requests were written");
    child.wait().expect("the oracle ends");
    assert_eq!(answers.len(), requests.len(), "the oracle answers each request");
    answers
}

fn built() -> String {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kubernetes/build");
    let build = std::env::var_os("STEERSMAN_ORACLE_BUILD").map_or(build, PathBuf::from);
    let path = Command::new(&build).arg("libs").stderr(Stdio::inherit()).output().expect("the oracle builds");
    assert!(path.status.success(), "{} libs failed", build.display());
    String::from_utf8(path.stdout).expect("a path is text").trim().to_owned()
}

/// The result of a request.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The number of comparisons in the request; zero if there is no answer to compare with.
    pub tried: usize,
    /// The differences, as text.
    pub different: Vec<String>,
}

impl Judgement {
    /// Creates the result of a single comparison, with its difference if there is one.
    #[must_use]
    pub fn one(different: Option<String>) -> Self {
        Self { tried: 1, different: different.into_iter().collect() }
    }
}

/// A request and the libraries' answer.
#[derive(Debug, Serialize, Deserialize)]
struct Case {
    request: Value,
    answer: Value,
}

/// A type of request, and the location of recorded answers.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its name in reports and files.
    pub name: &'static str,
    /// The directory of the tested package, `env!("CARGO_MANIFEST_DIR")`.
    pub package: &'static str,
    /// The number of requests recorded: the first ones with equal answers.
    pub recorded: usize,
}

impl Area {
    /// Compares our answers with the libraries'. Prints the figures and some of the differences.
    ///
    /// # Panics
    ///
    /// If more than one comparison in a thousand differs.
    pub fn compare(self, requests: Vec<Value>, judge: impl Fn(&Value, &Value) -> Judgement) {
        let answers = ask(&requests);
        let mut total = Judgement::default();
        let mut kept = Vec::new();
        for (request, answer) in requests.into_iter().zip(answers) {
            let judged = judge(&request, &answer);
            if judged.tried > 0 && judged.different.is_empty() && kept.len() < self.recorded {
                kept.push(Case { request, answer });
            }
            total.tried += judged.tried;
            total.different.extend(judged.different);
        }
        if steersman_recordings::recording() {
            Recordings::of(self.package).write(self.name, &version(), &kept);
        }
        let Judgement { tried, different } = total;
        println!("oracle {} tried={tried} different={}", self.name, different.len());
        show(&different);
        assert!(different.len() * 1000 <= tried, "{}: {} of {tried} differ", self.name, different.len());
    }

    /// Compares our answers with the recorded ones.
    ///
    /// # Panics
    ///
    /// If one differs.
    pub fn replay(self, judge: impl Fn(&Value, &Value) -> Judgement) {
        let mut total = Judgement::default();
        for Case { request, answer } in Recordings::of(self.package).read(self.name) {
            let judged = judge(&request, &answer);
            total.tried += judged.tried;
            total.different.extend(judged.different);
        }
        show(&total.different);
        let Judgement { tried, different } = total;
        assert!(tried > 0 && different.is_empty(), "{}: {} of {tried} differ", self.name, different.len());
    }
}

fn show(different: &[String]) {
    for text in different.iter().take(SHOWN) {
        println!("{text}\n");
    }
}

/// Returns the libraries' version for the name of a recording.
///
/// # Panics
///
/// If the libraries' go.mod does not have it.
#[must_use]
pub fn version() -> String {
    let go_mod = include_str!("../../kubernetes/go.mod");
    format!("kubernetes-{}", steersman_recordings::required_version(go_mod, "k8s.io/kubernetes"))
}
