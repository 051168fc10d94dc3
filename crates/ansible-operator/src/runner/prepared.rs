//! A Python process with Ansible imported, shared by operators that are started repeatedly.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin};

use super::package::Package;
use super::python::Python;
use super::{RunnerOptions, command};
use crate::error::{Error, Result};

/// A Python process with Ansible imported, which forks fork servers for other operators. See [`RunnerOptions::prepared`]. It
/// saves the import for programs that start operators repeatedly, such as a simulation. Dropping it ends those servers.
pub struct PreparedPython {
    socket: PathBuf,
    servers: Arc<Mutex<HashMap<u32, u32>>>,
    /// The process ends when this is closed.
    _input: ChildStdin,
    _process: Child,
    _package: Package,
}

impl std::fmt::Debug for PreparedPython {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PreparedPython").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// A fork server forked for an operator.
#[derive(Deserialize)]
struct Fork {
    operator: u32,
    server: u32,
}

/// Returns the file that describes the Python process behind a socket.
pub(super) fn description(socket: &Path) -> PathBuf {
    socket.with_extension("json")
}

impl PreparedPython {
    /// Starts Python and imports Ansible, as an operator with these options does. `directory` is that of such operators, as its
    /// ansible.cfg is read. None if this version of Ansible only supports cold runs.
    ///
    /// # Errors
    /// Fails if there is no Python with ansible-core, or it does not start.
    pub fn start<'a>(options: &'a RunnerOptions, directory: &'a Path) -> BoxFuture<'a, Result<Option<Self>>> {
        Box::pin(async move {
            let package = Package::unpack()?;
            let python = Python::find(options.python.as_deref(), &package).await?;
            if options.cold || !python.is_tested() {
                return Ok(None);
            }
            let failed = |source| Error::io(format!("cannot start {}", python.program.display()), source);
            let socket = package.path().join("prepared");
            python.write(&description(&socket)).map_err(failed)?;
            let mut process = command(&package, &python, options)
                .args(["-m", "steersman_ansible", "prepare"])
                .arg(&socket)
                .current_dir(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .map_err(failed)?;
            let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
                return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
            };
            let mut lines = BufReader::new(output).lines();
            // The first line reports that Ansible is imported.
            if lines.next_line().await.map_err(failed)?.is_none() {
                return Err(failed(std::io::Error::other("it exited while importing Ansible")));
            }
            let servers = Arc::<Mutex<HashMap<u32, u32>>>::default();
            let known = Arc::clone(&servers);
            tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Ok(Fork { operator, server }) = serde_json::from_str(&line) {
                        known.lock().unwrap_or_else(PoisonError::into_inner).insert(operator, server);
                    }
                }
            });
            Ok(Some(Self { socket, servers, _input: input, _process: process, _package: package }))
        })
    }

    /// Returns the Unix socket at which operators request their fork servers; only this user can access it.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the process ID of the fork server for an operator's process ID. It is not a child of the operator.
    pub fn server_of(&self, operator: u32) -> Option<u32> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).get(&operator).copied()
    }
}
