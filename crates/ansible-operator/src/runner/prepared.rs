//! A Python with Ansible imported, for operators that are started again and again.

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

/// A Python with Ansible imported, which the fork servers of other operators come from: see [`RunnerOptions::prepared`]. A program
/// that starts operators again and again, such as a simulation, spares each of them the import. Dropping it ends those servers.
pub struct PreparedPython {
    socket: PathBuf,
    servers: Arc<Mutex<HashMap<u32, u32>>>,
    /// It ends when this does.
    _input: ChildStdin,
    _process: Child,
    _package: Package,
}

impl std::fmt::Debug for PreparedPython {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PreparedPython").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// A fork server that an operator got.
#[derive(Deserialize)]
struct Fork {
    operator: u32,
    server: u32,
}

/// The file that says which Python listens on a socket.
pub(super) fn description(socket: &Path) -> PathBuf {
    socket.with_extension("json")
}

impl PreparedPython {
    /// Finds Python as an operator with these options does, and imports Ansible in the directory that such operators run in, whose
    /// ansible.cfg counts. None: with this Ansible plays run cold.
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
            let failed = |source| Error::io(format!("{} does not start", python.program.display()), source);
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
            // The first line says that Ansible is imported.
            if lines.next_line().await.map_err(failed)?.is_none() {
                return Err(failed(std::io::Error::other("it ended while it imported Ansible")));
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

    /// Where operators ask for their fork servers: a Unix socket that only this user can reach.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The fork server of an operator, by the number of the operator's process. It is no child of the operator.
    pub fn server_of(&self, operator: u32) -> Option<u32> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).get(&operator).copied()
    }
}
