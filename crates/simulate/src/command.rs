//! Operators as external programs: started for each run, connected over HTTP, killed by the plan.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use kube::{Client, client::Body};
use steersman::BoxError;
use steersman_listener::{Limits, Listener, RequestBody};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::TcpListener,
    process::Child,
};

use crate::{
    network::Process,
    query::{Answer, refusal},
};

/// Number of lines of a program's output to keep.
const LINES: usize = 30;
/// Maximum length of a line of a program's output.
const LINE: usize = 2000;
/// Maximum size of a request body; the API server's own limit is lower.
const BODY: usize = 8 << 20;
/// Part of the error for a program that cannot be started, which is not retried.
pub(crate) const NOT_RUN: &str = "can't be run";
/// Strings in the output of panicking Go and Rust programs.
const PANICS: [&str; 4] = ["panic: ", "fatal error: ", "Observed a panic", "panicked at"];

/// An operator that is an external program in any language. It connects to the cluster in `KUBECONFIG`.
///
/// ```
/// use steersman_simulate::Command;
///
/// let manager = Command::new("bin/manager").argument("--metrics-bind-address=0").variable("OPERATOR_NAMESPACE", "default");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    helper: Option<ProcessHelper>,
}

impl fmt::Debug for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: Vec<_> = std::iter::once(&self.program).chain(&self.arguments).collect();
        formatter.debug_struct("Command").field("line", &line).finish_non_exhaustive()
    }
}

/// Returns the pid of a helper process, given the program's pid.
pub(crate) type ProcessHelper = Arc<dyn Fn(u32) -> Option<u32> + Send + Sync>;

impl Command {
    /// Creates a command without arguments. The program is a path, or a name to look up in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            directory: None,
            helper: None,
        }
    }

    /// Adds an argument.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable, in addition to those inherited from this process.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory. Default: that of this process.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Sets a function that returns the pid of a helper process, given the program's pid. Default: none.
    ///
    /// Use it for a process that works for the program but is not its descendant: a step is not over while the helper is busy.
    /// The helper must exit with the program's process group.
    pub fn helper(mut self, of: impl Fn(u32) -> Option<u32> + Send + Sync + 'static) -> Self {
        self.helper = Some(Arc::new(of));
        self
    }

    fn spawn(&self, kubeconfig: &Path) -> Result<Child, BoxError> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.arguments).env("KUBECONFIG", kubeconfig);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // Killed as a group: `go run` and shells start the operator as a process of their own.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn().map_err(|error| format!("{} {NOT_RUN}: {error}", self.program.display()).into())
    }
}

/// The output of a run's processes. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    last: VecDeque<String>,
    panics: Vec<String>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        if line.is_empty() {
            return;
        }
        let mut written = self.lock();
        if PANICS.iter().any(|panic| line.contains(panic)) && written.panics.len() < LINES {
            written.panics.push(line.clone());
        }
        if written.last.len() == LINES {
            written.last.pop_front();
        }
        written.last.push_back(line);
    }

    /// Returns the last lines.
    pub(crate) fn last(&self) -> Vec<String> {
        self.lock().last.iter().cloned().collect()
    }

    /// Returns the lines that report a panic.
    pub(crate) fn panics(&self) -> Vec<String> {
        self.lock().panics.clone()
    }

    /// Reads a stream line by line.
    async fn read(self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let (mut chunk, mut line) = (vec![0; 4096], Vec::new());
        while let Ok(length @ 1..) = stream.read(&mut chunk).await {
            for byte in chunk.iter().take(length) {
                match byte {
                    b'\n' => {
                        self.push(&line);
                        line.clear();
                    }
                    byte if line.len() < LINE => line.push(*byte),
                    _ => {}
                }
            }
        }
        self.push(&line);
    }
}

/// A process group, killed on drop.
struct Group {
    child: Child,
    id: Option<u32>,
}

impl Group {
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.id.take().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            // It may have exited already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a program until the plan kills it. That it exits on its own is an error.
pub(crate) async fn run(
    command: &Command,
    process: &Process,
    client: Client,
    log: &Log,
) -> Result<(), BoxError> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = socket.local_addr()?.port();
    let token = draw_token()?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, render(port, &token))?;
    let expected: Arc<str> = format!("/{token}").into();
    let serving = Listener::new(socket).limits(Limits::small()).serve(move |_| {
        let (client, expected) = (client.clone(), Arc::clone(&expected));
        move |request| answer(client.clone(), Arc::clone(&expected), request)
    });
    let child = command.spawn(&kubeconfig)?;
    child.id().into_iter().for_each(|id| process.is_program(id, command.helper.clone()));
    let mut group = Group { id: child.id(), child };
    let reading = [
        tokio::spawn(log.clone().read(group.child.stdout.take())),
        tokio::spawn(log.clone().read(group.child.stderr.take())),
    ];
    let ended = tokio::select! {
        () = serving => Err("its port was closed".into()),
        () = process.dead() => Ok(()),
        status = group.child.wait() => match status {
            Ok(status) => Err(status.to_string().into()),
            Err(error) => Err(error.into()),
        },
    };
    group.kill();
    // Its output is complete once it has exited.
    let _ = group.child.kill().await;
    for read in reading {
        let _ = read.await;
    }
    ended
}

/// Forwards a request to the API server, authenticated as the operator's user.
async fn answer(client: Client, expected: Arc<str>, request: Request<RequestBody>) -> Answer {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let Some(path) = path.strip_prefix(&*expected).filter(|path| path.starts_with('/')) else {
        return refusal(401);
    };
    let Ok(uri) = path.parse() else { return refusal(400) };
    parts.uri = uri;
    let Ok(body) = Limited::new(body, BODY).collect().await else { return refusal(400) };
    parts.headers.remove(header::AUTHORIZATION);
    parts.headers.remove(header::HOST);
    prefer_json(&mut parts.headers);
    match client.send(Request::from_parts(parts, Body::from(body.to_bytes()))).await {
        Ok(answer) => answer.map(BodyExt::boxed_unsync),
        // An error in the body ends the connection.
        Err(error) => {
            Response::new(StreamBody::new(stream::iter([Err::<Frame<Bytes>, _>(error)])).boxed_unsync())
        }
    }
}

/// Restricts `Accept` to JSON where the client accepts it: stale responses are assembled from JSON.
fn prefer_json(headers: &mut HeaderMap) {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()) else { return };
    let forms = accept.split(',').map(str::trim);
    let json: Vec<&str> = forms.filter(|form| form.starts_with("application/json")).collect();
    if let Some(accept) = Some(json.join(",")).filter(|accept| !accept.is_empty())
        && let Ok(accept) = HeaderValue::from_str(&accept)
    {
        headers.insert(header::ACCEPT, accept);
    }
}

fn draw_token() -> Result<String, BoxError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Renders a program's kubeconfig.
///
/// The secret is part of the server's path, since client-go sends no token without TLS.
fn render(port: u16, token: &str) -> String {
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: simulation
  cluster:
    server: http://127.0.0.1:{port}/{token}
users:
- name: simulation
  user: {{}}
contexts:
- name: simulation
  context:
    cluster: simulation
    user: simulation
    namespace: default
current-context: simulation
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_taken_where_it_is_among_the_forms() {
        let accept = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, text.parse().unwrap());
            prefer_json(&mut headers);
            headers[header::ACCEPT].to_str().unwrap().to_owned()
        };
        assert_eq!(accept("application/vnd.kubernetes.protobuf,application/json"), "application/json");
        assert_eq!(accept("application/vnd.kubernetes.protobuf"), "application/vnd.kubernetes.protobuf");
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(
            accept(&format!("application/vnd.kubernetes.protobuf;as=x,{metadata},application/json")),
            format!("{metadata},application/json")
        );
    }

    #[tokio::test]
    async fn long_lines_are_cut_and_panics_are_noticed() {
        let log = Log::default();
        let text = format!("{}\n\npanic: assignment to entry in nil map", "x".repeat(5000));
        log.clone().read(Some(text.as_bytes())).await;
        assert_eq!(log.last().iter().map(String::len).collect::<Vec<_>>(), [LINE, 37]);
        assert_eq!(log.panics(), ["panic: assignment to entry in nil map"]);
    }
}
