//! The programs that envtest starts: this one, called `kube-apiserver` or `etcd`.
//!
//! `etcd` holds the embedded cluster in memory. Each `kube-apiserver` reads its flags and files and asks the `etcd` that its flags
//! name to open a port for it, so that servers on one etcd have the same objects, and a server that is started again finds them.

mod apiserver;
mod etcd;
mod flags;
mod link;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

/// The programs that this one is under other names.
pub(crate) const PROGRAMS: [&str; 2] = ["kube-apiserver", "etcd"];

/// Runs as the program that the first word names, if it is one of [`PROGRAMS`].
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

/// Writes a line to standard error, where suites that attach the program's output look for it.
fn log(level: &str, what: &dyn Display) {
    let now = jiff::Zoned::now();
    eprintln!("{level}{} steer envtest] {what}", now.strftime("%m%d %H:%M:%S%.6f"));
}
