//! The client of an oracle: one JSON line per request, one per answer.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value as Json;

use crate::answer::Answer;

/// Errors of communicating with an oracle.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The build script failed; its standard error has been shown.
    #[error("building the oracle with {0} failed")]
    Build(PathBuf),
    /// The program could not be started, or communication with it failed.
    #[error("talking to the oracle: {0}")]
    Io(#[from] std::io::Error),
    /// An answer does not have the format of the oracle's README.
    #[error("the oracle answered {line:?}: {reason}")]
    Answer {
        /// The line.
        line: String,
        /// The error.
        reason: String,
    },
}

/// The timeout of one answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running oracle. A request that kills the process is answered with [`Answer::Died`], and the process is restarted.
pub struct Client {
    program: PathBuf,
}

impl Client {
    /// Builds the Helm oracle with its script, if its sources have changed.
    pub fn helm() -> Result<Self, ClientError> {
        Ok(Self { program: build("helm", "oracle")? })
    }

    /// Sends all requests and returns their answers in the same order.
    pub fn ask(&self, requests: &[Json]) -> Result<Vec<Answer>, ClientError> {
        let mut answers = Vec::with_capacity(requests.len());
        while answers.len() < requests.len() {
            let rest = &requests[answers.len()..];
            let got = self.ask_once(rest)?;
            let complete = got.len() == rest.len();
            answers.extend(got);
            if !complete {
                // Go cannot recover from a stack overflow: the next request killed the process.
                answers.push(Answer::Died);
            }
        }
        Ok(answers)
    }

    /// Sends requests until the process exits, which may be early.
    fn ask_once(&self, requests: &[Json]) -> Result<Vec<Answer>, ClientError> {
        let (mut child, stdin, stdout) = self.start()?;
        let lines: Vec<u8> = requests.iter().flat_map(|r| format!("{r}\n").into_bytes()).collect();
        // Written by a separate thread: the oracle answers while it still receives requests, and both pipes are small.
        let writer = thread::spawn(move || {
            let mut stdin = stdin;
            // An oracle that died closes the pipe, which shows in the missing answers.
            let _ = stdin.write_all(&lines);
        });
        let (send, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut answers = Vec::new();
        // Ends when the process exits, or on a timeout.
        while let Ok(line) = lines.recv_timeout(PATIENCE) {
            answers.push(Answer::parse(&line?)?);
        }
        child.kill()?;
        child.wait()?;
        let _ = (writer.join(), reader.join());
        Ok(answers)
    }

    fn start(&self) -> Result<(Child, ChildStdin, ChildStdout), ClientError> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
        Ok((child, stdin, stdout))
    }
}

/// Runs `oracles/ORACLE/build WHAT` and returns the path that it prints.
pub fn build(oracle: &str, what: &str) -> Result<PathBuf, ClientError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(oracle).join("build");
    let output = Command::new(&script).arg(what).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(ClientError::Build(script));
    }
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(PathBuf::from(path))
}
