//! The programs that envtest starts: this one under the names `kube-apiserver` and `etcd`.
//!
//! `etcd` hosts the embedded cluster in memory. Each `kube-apiserver` reads its flags and files and requests its `etcd` to open a
//! port for it. Servers with the same etcd therefore share their objects, and a restarted server still has them.

mod apiserver;
mod etcd;
mod flags;
mod link;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

/// The names under which this program acts as another one.
pub(crate) const PROGRAMS: [&str; 2] = ["kube-apiserver", "etcd"];

/// Runs as the program named by the first argument, if it is one of [`PROGRAMS`].
pub(crate) fn run_by_name(words: &[OsString]) -> Option<ExitCode> {
    let name = Path::new(words.first()?).file_stem().and_then(OsStr::to_str)?;
    if !PROGRAMS.contains(&name) {
        return None;
    }
    let words: Vec<String> = words[1..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let result = match name {
        "etcd" => etcd::run(&words),
        _ => apiserver::run(&words),
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            log("E", &why);
            ExitCode::FAILURE
        }
    })
}

/// Logs a line to standard error, which suites can attach to.
fn log(level: &str, what: &dyn Display) {
    let now = jiff::Zoned::now();
    eprintln!("{level}{} steer envtest] {what}", now.strftime("%m%d %H:%M:%S%.6f"));
}
