//! Asks Kubernetes' own libraries what they make of a case, and reports where ours differ.
//!
//! For tests alone: whatever goes wrong on the way to an answer panics. The program that answers is built by
//! `oracles/kubernetes/build libs`, or by the program that `STEERSMAN_ORACLE_BUILD` names.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// How many differences are shown.
const SHOWN: usize = 12;

/// How many cases to try: `default`, unless `STEERSMAN_ORACLE_CASES` says otherwise.
pub fn cases(default: usize) -> usize {
    std::env::var("STEERSMAN_ORACLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Asks the libraries all requests at once, and gives their answers in that order.
///
/// # Panics
///
/// If the oracle cannot be built or does not answer.
pub fn ask(requests: &[Value]) -> Vec<Value> {
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

/// Prints the figures of an area and some of the differences.
///
/// # Panics
///
/// If more than one case in a thousand differs.
pub fn report(area: &str, tried: usize, different: &[String]) {
    println!("oracle {area} tried={tried} different={}", different.len());
    for text in different.iter().take(SHOWN) {
        println!("{text}\n");
    }
    assert!(different.len() * 1000 <= tried, "{area}: {} of {tried} differ", different.len());
}
