//! Runs a script of kubectl commands against a cluster, and masks their output.
//!
//! A script has one command per line, without the leading `kubectl`. Lines that begin with `#` are comments. Of a line that
//! begins with `~`, only the exit code is compared, and of one that begins with `!`, nothing. `FILES` is replaced by the
//! directory of manifests next to the script.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use regex::Regex;

use crate::mask::Mask;

/// The part of a command's outcome that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Everything it prints, and its exit code.
    Output,
    /// The exit code.
    Code,
    /// Nothing.
    Nothing,
}

/// A line of a script.
#[derive(Debug, Clone)]
pub struct Line {
    /// The arguments as written.
    pub text: String,
    /// The part to compare.
    pub look: Look,
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit code; -1 if it was killed.
    pub code: i32,
    /// Its output, both streams, masked.
    pub output: String,
}

/// Parses a script.
#[must_use]
pub fn parse(text: &str) -> Vec<Line> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| match line.split_at(1) {
            ("~", rest) => Line { text: rest.trim().to_owned(), look: Look::Code },
            ("!", rest) => Line { text: rest.trim().to_owned(), look: Look::Nothing },
            _ => Line { text: line.to_owned(), look: Look::Output },
        })
        .collect()
}

/// A kubectl, a cluster, and a namespace in it for this run.
#[derive(Debug)]
pub struct Session {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    files: PathBuf,
    namespace: String,
    server: String,
}

/// The timeout of a command.
const LIMIT: Duration = Duration::from_secs(90);

static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d+[smhd]){1,2}\b"));
static POD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"-[bcdf0-9ghjklmnpqrstvwxz]{6,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b"));
/// Computed from Go's memory layout of the template, so another implementation cannot reproduce it.
static TEMPLATE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"pod-template-hash([=:] ?)[bcdf0-9ghjklmnpqrstvwxz]+"));
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(resourceVersion"?: ?|Resource Version: +)"?\d+"?"#));
static CREDENTIAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(X509SHA256|JTI)=[0-9a-f-]+"));
static BLANKS: LazyLock<Regex> = LazyLock::new(|| pattern(r" {2,}|\t+"));
static RULER: LazyLock<Regex> = LazyLock::new(|| pattern(r"-{4,}"));

#[allow(clippy::expect_used, reason = "the patterns above are constants")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern compiles")
}

impl Session {
    /// Creates a namespace, and a copy of the kubeconfig in `scratch` that uses it.
    ///
    /// # Errors
    /// If the files cannot be written or the cluster rejects the namespace.
    pub fn start(kubectl: &Path, kubeconfig: &Path, files: &Path, scratch: &Path) -> std::io::Result<Self> {
        let namespace = format!("kubectl-{}", (0..6).map(|_| fastrand::lowercase()).collect::<String>());
        let text = std::fs::read_to_string(kubeconfig)?;
        let server = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("server:"))
            .map(|server| server.trim().to_owned())
            .unwrap_or_default();
        std::fs::create_dir_all(scratch)?;
        let copy = scratch.join(format!("{namespace}.kubeconfig"));
        std::fs::write(&copy, text)?;
        let session = Self {
            kubectl: kubectl.to_owned(),
            kubeconfig: copy,
            files: files.to_owned(),
            namespace,
            server,
        };
        for arguments in [
            format!("config set-context --current --namespace={}", session.namespace),
            format!("create namespace {}", session.namespace),
        ] {
            let outcome = session.run(&arguments)?;
            if outcome.code != 0 {
                return Err(std::io::Error::other(outcome.output));
            }
        }
        Ok(session)
    }

    /// Runs one command.
    ///
    /// # Errors
    /// If kubectl can't be started.
    pub fn run(&self, arguments: &str) -> std::io::Result<Outcome> {
        let files = self.files.to_string_lossy();
        let mut command = Command::new("sh");
        // The shell splits and quotes as a reader of the script expects.
        command
            .arg("-c")
            .arg(format!(
                "\"$KUBECTL\" {}",
                arguments.replace("FILES", &files).replace("NAMESPACE", &self.namespace)
            ))
            .env("KUBECTL", &self.kubectl)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.kubeconfig.parent().unwrap_or(Path::new("/")))
            .env("KUBE_EDITOR", "sed -i s/edit-me/edited/")
            .stdin(Stdio::null());
        let output = self.kubeconfig.with_extension("out");
        let file = std::fs::File::create(&output)?;
        let mut child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        let deadline = Instant::now() + LIMIT;
        let code = loop {
            if let Some(status) = child.try_wait()? {
                break status.code().unwrap_or(-1);
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                break -1;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Ok(Outcome { code, output: self.masked(&String::from_utf8_lossy(&std::fs::read(&output)?)) })
    }

    fn masked(&self, text: &str) -> String {
        let text = text.replace(&self.namespace, "NAMESPACE").replace(&self.server, "SERVER");
        let text = text.replace(&*self.files.to_string_lossy(), "FILES");
        let text = Mask::new(String::new(), String::new()).text(&text);
        let text = VERSION.replace_all(&text, "$1<version>");
        let text = CREDENTIAL.replace_all(&text, "$1=<credential>");
        let text = TEMPLATE.replace_all(&text, "pod-template-hash$1<hash>");
        let text = POD.replace_all(&text, "-<hash>");
        let text = AGE.replace_all(&text, "<age>");
        // Column widths depend on the widest cell, and some cells are masked.
        let text = BLANKS.replace_all(&text, "  ");
        let text = RULER.replace_all(&text, "----");
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Deletes the namespace without waiting.
    ///
    /// # Errors
    /// If kubectl can't be started.
    pub fn end(&self) -> std::io::Result<()> {
        self.run(&format!("delete namespace {} --wait=false", self.namespace)).map(drop)
    }
}

/// Returns the difference between two outcomes of a line, if there is one.
#[must_use]
pub fn difference(line: &Line, real: &Outcome, ours: &Outcome) -> Option<String> {
    let equal = match line.look {
        Look::Output => real == ours,
        Look::Code => real.code == ours.code,
        Look::Nothing => true,
    };
    if equal {
        return None;
    }
    let mut text = format!("== kubectl {}\n", line.text);
    if real.code != ours.code {
        text.push_str(&format!("exit code: real {} ours {}\n", real.code, ours.code));
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (real.output.lines().collect(), ours.output.lines().collect());
    for line in a.iter().filter(|line| !b.contains(line)) {
        text.push_str(&format!("- {line}\n"));
    }
    for line in b.iter().filter(|line| !a.contains(line)) {
        text.push_str(&format!("+ {line}\n"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_compared() {
        let lines = parse("# remark\nget pods\n~ describe pod x\n! wait y\n");
        assert_eq!(
            lines.iter().map(|line| line.look).collect::<Vec<_>>(),
            [Look::Output, Look::Code, Look::Nothing]
        );
        assert_eq!(lines[1].text, "describe pod x");
    }
}
