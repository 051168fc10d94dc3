//! Sends a case to a target and returns masked responses.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_api::http::PROTOBUF;
use steersman_api::protobuf;
use tokio::time::{Instant, sleep, timeout};

use crate::corpus::{Case, Compared, Impersonate, Step, substitute, substitute_text};
use crate::mask::Mask;
use crate::target::{Target, TargetError};

/// The timeout of a step, including polling.
const STEP_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait for the next event of a watch.
const EVENT_LIMIT: Duration = Duration::from_secs(3);
/// Returns a decoded message without zero and empty values, which an encoder may omit.
fn without_zeros(value: Value) -> Value {
    let is_zero = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) => items.into_iter().map(without_zeros).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, without_zeros(value)));
            Value::Object(fields.filter(|(_, value)| !is_zero(value)).collect())
        }
        other => other,
    }
}

/// The headers that clients evaluate.
const HEADERS: [&str; 5] = ["content-type", "warning", "retry-after", "location", "cache-control"];

/// The masked response to one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The request as sent, with variables substituted and masked.
    pub request: String,
    /// The status code.
    pub status: u16,
    /// The relevant headers; multiple values are joined by line breaks.
    pub headers: BTreeMap<String, String>,
    /// The body: JSON as is, text as a string, events of a watch as an array.
    pub body: Value,
}

/// Runs a case: creates its namespace, sends its steps, and reads every object that it wrote.
///
/// # Errors
/// If the target does not respond.
pub async fn run_case(target: &Target, case: &Case) -> Result<Vec<Answer>, TargetError> {
    let mut runner = Runner::new(target, case);
    runner.prepare().await?;
    let mut answers = Vec::new();
    for step in &case.steps {
        answers.push(runner.step(step).await?);
    }
    for path in std::mem::take(&mut runner.written) {
        let step = Step { request: format!("GET {path}"), ..Step::default() };
        answers.push(runner.step(&step).await?);
    }
    runner.clean_up().await?;
    Ok(answers)
}

struct Runner<'a> {
    target: &'a Target,
    namespace: String,
    variables: BTreeMap<String, Value>,
    mask: Mask,
    /// Objects that the case wrote, to be read at its end.
    written: Vec<String>,
    /// Definitions that the case created, to be deleted: hundreds of them slow a real server down.
    definitions: Vec<String>,
    needs_namespace: bool,
}

impl<'a> Runner<'a> {
    fn new(target: &'a Target, case: &Case) -> Self {
        let said = serde_json::to_string(&case.steps).unwrap_or_default();
        let id = case.id();
        let namespace = format!("ns-{id}");
        Self {
            target,
            variables: BTreeMap::from([
                ("ns".to_owned(), Value::from(namespace.clone())),
                ("id".to_owned(), Value::from(id.clone())),
            ]),
            namespace,
            needs_namespace: said.contains("{ns}"),
            mask: Mask::new(said, id),
            written: Vec::new(),
            definitions: Vec::new(),
        }
    }

    /// Creates the case's namespace, with the service account that pods need.
    async fn prepare(&self) -> Result<(), TargetError> {
        if !self.needs_namespace {
            return Ok(());
        }
        let name = &self.namespace;
        for (path, body) in [
            ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": name}})),
            (format!("/api/v1/namespaces/{name}/serviceaccounts"), json!({"metadata": {"name": "default"}})),
        ] {
            let request = Request::post(path)
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string().into_bytes())
                .map_err(|error| TargetError::Unanswered(error.to_string()))?;
            let response = self.target.send(request, true).await?;
            Target::collect(response.into_body()).await?;
        }
        Ok(())
    }

    async fn clean_up(&self) -> Result<(), TargetError> {
        for path in &self.definitions {
            let request = Request::delete(path)
                .body(Vec::new())
                .map_err(|error| TargetError::Unanswered(error.to_string()))?;
            Target::collect(self.target.send(request, true).await?.into_body()).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<Answer, TargetError> {
        let request_line = substitute_text(&step.request, &self.variables);
        let deadline = Instant::now() + STEP_LIMIT;
        loop {
            let (status, headers, raw, body) = self.send(step, &request_line).await?;
            if let Some(wanted) = &step.until
                && !fulfilled(wanted, &body, status)
                && Instant::now() < deadline
            {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            for (name, pointer) in &step.save {
                let value = body.pointer(pointer).cloned().unwrap_or(Value::Null);
                self.variables.insert(name.clone(), value);
            }
            self.note_definition(&request_line, status, &body);
            if step.compare != Compared::Nothing {
                self.note_written(&request_line, status, &body);
            }
            return Ok(self.masked(&request_line, &step.shows, status, &headers, &raw, body));
        }
    }

    async fn send(&self, step: &Step, line: &str) -> Result<(u16, HeaderMap, Vec<u8>, Value), TargetError> {
        let broken = |error: String| TargetError::Unanswered(format!("{line}: {error}"));
        let (request, as_admin) = self.build(step, line).map_err(&broken)?;
        let response = timeout(STEP_LIMIT, self.target.send(request, as_admin))
            .await
            .map_err(|_| broken("no answer in time".to_owned()))??;
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        if let Some(count) = step.watch
            && parts.status.is_success()
        {
            let events = read_events(body, count).await;
            return Ok((status, parts.headers, Vec::new(), Value::Array(events)));
        }
        let raw = timeout(STEP_LIMIT, Target::collect(body))
            .await
            .map_err(|_| broken("the answer does not end".to_owned()))??;
        let kind = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        let body = if kind.starts_with(b"application/json") {
            serde_json::from_slice(&raw).unwrap_or(Value::Null)
        } else if kind == PROTOBUF.as_bytes() {
            protobuf::decode(&raw).map_or(Value::Null, without_zeros)
        } else {
            Value::Null
        };
        Ok((status, parts.headers, raw, body))
    }

    fn build(&self, step: &Step, line: &str) -> Result<(Request<Vec<u8>>, bool), String> {
        let (method, path) = line.split_once(' ').ok_or("no path")?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let mut builder = Request::builder().method(method).uri(encode(path));
        let (content_type, body) = self.payload(step)?;
        if let Some(kind) = step.content_type.as_deref().or(content_type)
            && !kind.is_empty()
        {
            builder = builder.header(CONTENT_TYPE, kind);
        }
        builder = builder.header(ACCEPT, accept(step.accept.as_deref()));
        for (name, value) in &step.headers {
            builder = builder.header(name, substitute_text(value, &self.variables));
        }
        if let Some(impersonate) = &step.impersonate {
            for (name, value) in impersonation(impersonate) {
                builder = builder.header(name, substitute_text(&value, &self.variables));
            }
        }
        if let Some(token) = step.token.as_deref().filter(|token| !token.is_empty()) {
            let token = substitute_text(token, &self.variables);
            builder = builder.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = builder.body(body).map_err(|error| error.to_string())?;
        Ok((request, step.token.is_none()))
    }

    fn payload(&self, step: &Step) -> Result<(Option<&'static str>, Vec<u8>), String> {
        let fill = |value: &Value| {
            let mut value = value.clone();
            substitute(&mut value, &self.variables);
            value.to_string().into_bytes()
        };
        let bodies = [
            (&step.json, "application/json"),
            (&step.merge, "application/merge-patch+json"),
            (&step.strategic, "application/strategic-merge-patch+json"),
            (&step.jsonpatch, "application/json-patch+json"),
            (&step.apply, "application/apply-patch+yaml"),
        ];
        for (body, content_type) in bodies {
            if let Some(value) = body {
                return Ok((Some(content_type), fill(value)));
            }
        }
        if let Some(text) = &step.text {
            return Ok((None, substitute_text(text, &self.variables).into_bytes()));
        }
        if let Some(encoded) = &step.base64 {
            return Ok((None, STANDARD.decode(encoded).map_err(|error| error.to_string())?));
        }
        Ok((None, Vec::new()))
    }

    fn note_definition(&mut self, line: &str, status: u16, body: &Value) {
        let made = status == 201 && !line.contains("dryRun");
        if let (Some(path), Some(name), true) =
            (line.strip_prefix("POST "), body.pointer("/metadata/name").and_then(Value::as_str), made)
            && path.ends_with("/customresourcedefinitions")
        {
            self.definitions.push(format!("{path}/{name}"));
        }
    }

    /// Records the objects that the case wrote.
    fn note_written(&mut self, line: &str, status: u16, body: &Value) {
        let Some((method, uri)) = line.split_once(' ') else { return };
        let path = uri.split('?').next().unwrap_or(uri);
        if !matches!(status, 200..=299)
            || matches!(method, "GET" | "HEAD" | "OPTIONS")
            || uri.contains("dryRun")
        {
            return;
        }
        // The server's own controllers write to definitions at any time.
        if path.contains("/customresourcedefinitions") {
            return;
        }
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let is_status = body.get("kind").and_then(Value::as_str) == Some("Status");
        match (method, name) {
            // Reviews and tokens are answered, not stored.
            ("POST", Some(name))
                if !is_status && !path.ends_with("/token") && body.pointer("/metadata/uid").is_some() =>
            {
                self.remember(format!("{path}/{name}"));
            }
            ("PUT" | "PATCH" | "DELETE", _) => {
                let main = ["/status", "/scale", "/finalize", "/approval", "/resize", "/ephemeralcontainers"]
                    .iter()
                    .find_map(|suffix| path.strip_suffix(suffix))
                    .unwrap_or(path);
                // A collection's path ends in the resource; listing it would tell little.
                if is_object_path(main) {
                    self.remember(main.to_owned());
                }
            }
            _ => {}
        }
    }

    fn remember(&mut self, path: String) {
        if !self.written.contains(&path) {
            self.written.push(path);
        }
    }

    fn masked(
        &mut self,
        line: &str,
        shows: &[String],
        status: u16,
        headers: &HeaderMap,
        raw: &[u8],
        mut body: Value,
    ) -> Answer {
        if body.is_null() && !raw.is_empty() {
            body = Value::String(self.mask.text(&String::from_utf8_lossy(raw)));
        } else if let Value::Array(events) = &mut body {
            for event in events {
                self.mask.body(event);
                if let Some(object) = event.get_mut("object") {
                    self.mask.body(object);
                }
            }
        } else {
            self.mask.body(&mut body);
        }
        let mut kept = BTreeMap::new();
        for name in HEADERS.into_iter().chain(shows.iter().map(String::as_str)) {
            let values: Vec<String> = headers
                .get_all(name)
                .iter()
                .map(|value| self.mask.text(&String::from_utf8_lossy(value.as_bytes())))
                .collect();
            if !values.is_empty() {
                kept.insert(name.to_owned(), values.join("\n"));
            }
        }
        Answer { request: self.mask.text(line), status, headers: kept, body }
    }
}

/// Whether a path refers to one object: an even number of segments follows group and version.
fn is_object_path(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let after_version = match parts.first() {
        Some(&"api") => parts.len().saturating_sub(2),
        Some(&"apis") => parts.len().saturating_sub(3),
        _ => return false,
    };
    after_version >= 2 && after_version % 2 == 0
}

/// Whether a response is the one that a step waits for.
pub(crate) fn fulfilled(wanted: &Value, body: &Value, status: u16) -> bool {
    match wanted {
        Value::String(word) if word == "established" => {
            let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().any(|condition| {
                condition.get("type") == Some(&Value::from("Established"))
                    && condition.get("status") == Some(&Value::from("True"))
            })
        }
        Value::Number(code) => code.as_u64() == Some(u64::from(status)),
        Value::Object(fields) => fields.iter().all(|(pointer, value)| body.pointer(pointer) == Some(value)),
        _ => true,
    }
}

async fn read_events(mut body: Body, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    let mut buffer = Vec::new();
    while events.len() < count {
        let Ok(Some(Ok(frame))) = timeout(EVENT_LIMIT, body.frame()).await else { break };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice(&line) {
                events.push(event);
            }
        }
    }
    // A response that is not a watch need not end with a newline.
    events.extend(serde_json::from_slice::<Value>(&buffer));
    events.truncate(count);
    events
}

fn accept(word: Option<&str>) -> &str {
    match word {
        None => "application/json",
        Some("table") => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        Some("partial") => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
        Some("partial-list") => {
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
        }
        Some("discovery") => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        }
        Some("yaml") => "application/yaml",
        Some(other) => other,
    }
}

fn impersonation(who: &Impersonate) -> Vec<(String, String)> {
    match who {
        Impersonate::User(user) => vec![("Impersonate-User".to_owned(), user.clone())],
        Impersonate::Full { user, groups, uid, extra } => {
            let mut headers = Vec::new();
            if !user.is_empty() {
                headers.push(("Impersonate-User".to_owned(), user.clone()));
            }
            headers.extend(groups.iter().map(|group| ("Impersonate-Group".to_owned(), group.clone())));
            headers.extend(uid.iter().map(|uid| ("Impersonate-Uid".to_owned(), uid.clone())));
            headers
                .extend(extra.iter().map(|(key, value)| (format!("Impersonate-Extra-{key}"), value.clone())));
            headers
        }
    }
}

/// Escapes characters that a URI must not contain, so that cases can be written with spaces and
/// commas.
fn encode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=0x1f | 0x7f..=0xff => {
                out.push_str(&format!("%{byte:02X}"));
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_paths() {
        assert!(is_object_path("/api/v1/namespaces/a/pods/b"));
        assert!(is_object_path("/api/v1/nodes/a"));
        assert!(is_object_path("/apis/apps/v1/namespaces/a/deployments/b"));
        assert!(!is_object_path("/apis/apps/v1/namespaces/a/deployments"));
        assert!(!is_object_path("/version"));
    }
}
