//! The user's Python installation with ansible-core.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::package::Package;
use crate::error::{Error, Result};

/// Minor versions of ansible-core that warm runs were tested with. Warm runs depend on Ansible's private APIs, so other
/// versions run cold.
pub const TESTED_ANSIBLE: [&str; 1] = ["2.19"];

/// A Python that can run plays.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Python {
    pub(crate) program: PathBuf,
    pub(crate) ansible: String,
}

/// The output of the package's `check` command.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Installed {
    python: String,
    ansible_core: Option<String>,
}

/// The libraries besides Ansible, as reported by a fork server or the `libraries` command.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Libraries {
    kubernetes: bool,
    kubernetes_core: bool,
}

impl Libraries {
    /// Returns a warning for each missing library.
    pub(crate) fn warnings(&self, program: &Path) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.kubernetes {
            warnings.push(format!(
                "{0} has no Kubernetes client, which the modules of kubernetes.core need: {0} -m pip install kubernetes",
                program.display()
            ));
        }
        if !self.kubernetes_core {
            warnings.push(
                "Ansible collection kubernetes.core not found: \
                 ansible-galaxy collection install kubernetes.core"
                    .to_owned(),
            );
        }
        warnings
    }
}

impl Python {
    /// Finds a Python with ansible-core. Tries the given one, or else that of `VIRTUAL_ENV`, that of the `ansible-playbook` in
    /// `PATH`, and the `python3` there.
    pub(crate) async fn find(given: Option<&Path>, package: &Package) -> Result<Self> {
        let candidates = match given {
            Some(program) => vec![program.to_owned()],
            None => candidates(),
        };
        let mut tried = Vec::new();
        for program in candidates {
            let installed = match ask::<Installed>(&program, "check", package).await {
                Ok(installed) => installed,
                Err(problem) => {
                    tried.push(format!("{}: {problem}", program.display()));
                    continue;
                }
            };
            let Some(ansible) = installed.ansible_core else {
                tried.push(format!(
                    "{}: Python {} without ansible-core",
                    program.display(),
                    installed.python
                ));
                continue;
            };
            return Ok(Self { program, ansible });
        }
        let program = given.map_or_else(|| "python3".to_owned(), |program| program.display().to_string());
        let tried = if tried.is_empty() { "python3 not found in PATH".to_owned() } else { tried.join("; ") };
        Err(Error::Python(format!(
            "no Python with ansible-core found ({tried})\n\
             install it with: {program} -m pip install ansible-core kubernetes"
        )))
    }

    /// Reads the result of [`Python::write`], as querying a Python takes as long as starting it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let read = || -> std::io::Result<Self> { Ok(serde_json::from_slice(&std::fs::read(path)?)?) };
        read().map_err(|source| Error::io(format!("{} cannot be read", path.display()), source))
    }

    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    /// Queries the libraries besides Ansible, for which Python imports a large part of Ansible.
    pub(crate) async fn libraries(&self, package: &Package) -> Result<Libraries, String> {
        ask(&self.program, "libraries", package).await
    }

    /// Whether its Ansible is one that warm runs were tested with.
    pub(crate) fn is_tested(&self) -> bool {
        TESTED_ANSIBLE
            .iter()
            .any(|minor| self.ansible.strip_prefix(minor).is_some_and(|rest| rest.starts_with('.')))
    }
}

fn candidates() -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV").filter(|path| !path.is_empty()) {
        candidates.push(Path::new(&environment).join("bin/python3"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path =
        |name: &str| std::env::split_paths(&path).map(|one| one.join(name)).find(|file| file.is_file());
    // Ansible may have its own Python, as with pipx and in distributions.
    let script = in_path("ansible-playbook").and_then(|script| std::fs::read(script).ok());
    let first_line = script
        .as_deref()
        .and_then(|script| script.strip_prefix(b"#!"))
        .and_then(|rest| std::str::from_utf8(rest.split(|byte| *byte == b'\n').next()?).ok());
    candidates.extend(first_line.map(str::trim).filter(|line| !line.contains(' ')).map(PathBuf::from));
    candidates.extend(in_path("python3"));
    candidates
}

/// Returns the output of a command of the package.
async fn ask<T: DeserializeOwned>(program: &Path, command: &str, package: &Package) -> Result<T, String> {
    let output = Command::new(program)
        .args(["-m", "steersman_ansible", command])
        .env("PYTHONPATH", package.python_path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.trim().lines().last().unwrap_or("it failed to run").to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("unexpected output: {error}"))
}
