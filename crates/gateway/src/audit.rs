//! The audit log: who changed what, when, from which address, and the resulting difference.

use std::{
    collections::{HashMap, VecDeque},
    io::Write,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use http::{Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    access,
    answer::{self, Body},
    kinds::Kind,
    problem::{Problem, Result},
    request::RequestContext,
};

/// The number of entries kept for the endpoint; the log file has all of them.
const KEPT: usize = 10_000;
const DEFAULT_LIMIT: u64 = 100;

/// The latest entries, and the log that they are written to.
pub(crate) struct Audit {
    inner: Mutex<Inner>,
}

struct Inner {
    last: u64,
    entries: VecDeque<Value>,
    log: Option<Box<dyn Write + Send>>,
}

impl Audit {
    /// Opens the log: appends to a file, or writes to standard output for `-`.
    pub(crate) fn new(log: Option<&PathBuf>) -> std::io::Result<Self> {
        let log: Option<Box<dyn Write + Send>> = match log {
            None => None,
            Some(path) if path.as_os_str() == "-" => Some(Box::new(std::io::stdout())),
            Some(path) => Some(Box::new(std::fs::OpenOptions::new().create(true).append(true).open(path)?)),
        };
        Ok(Self { inner: Mutex::new(Inner { last: 0, entries: VecDeque::new(), log }) })
    }

    fn record(&self, mut entry: Value) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last += 1;
        entry["id"] = inner.last.into();
        if let Some(log) = &mut inner.log {
            // One write per entry, so that lines of several processes do not interleave.
            if let Err(error) = log.write_all(format!("{entry}\n").as_bytes()).and_then(|()| log.flush()) {
                tracing::error!(%error, "cannot write the audit log");
            }
        }
        inner.entries.push_back(entry);
        if inner.entries.len() > KEPT {
            inner.entries.pop_front();
        }
    }

    /// Returns the entries that match a predicate, newest first.
    fn find(&self, holds: impl FnMut(&&Value) -> bool) -> Vec<Value> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries.iter().rev().filter(holds).cloned().collect()
    }
}

type Place<'a> = (Option<&'a str>, Option<&'a str>);

fn entry(ctx: &RequestContext, action: &str, status: StatusCode, reason: &str) -> Value {
    json!({
        "at": Timestamp::now().to_string(), "user": ctx.caller.user.name, "groups": ctx.caller.user.groups,
        "remote": ctx.remote, "userAgent": ctx.header(header::USER_AGENT).unwrap_or_default(), "requestId": ctx.id,
        "action": action, "status": status.as_u16(), "reason": reason, "ref": null, "changes": [],
    })
}

fn reference(kind: &Kind, (namespace, name): Place<'_>) -> Value {
    json!({"kind": kind.name(), "apiVersion": kind.api_version(), "kindName": kind.kind, "namespace": namespace, "name": name.unwrap_or_default()})
}

/// Records a change that was made.
pub(crate) fn accepted(
    ctx: &RequestContext,
    kind: &Kind,
    place: Place<'_>,
    action: &str,
    status: StatusCode,
    changes: Vec<Value>,
) {
    let mut entry = entry(ctx, action, status, "");
    entry["ref"] = reference(kind, place);
    entry["changes"] = changes.into();
    ctx.shared.audit.record(entry);
}

/// Records a change that was refused.
pub(crate) fn refused(ctx: &RequestContext, kind: &Kind, place: Place<'_>, action: &str, problem: &Problem) {
    let mut entry = entry(ctx, action, problem.status, &problem.reason);
    entry["ref"] = reference(kind, place);
    ctx.shared.audit.record(entry);
}

/// Records a sign-in or sign-out.
pub(crate) fn session(ctx: &RequestContext, action: &str, status: StatusCode) {
    ctx.shared.audit.record(entry(ctx, action, status, ""));
}

/// `GET /v1/audit`.
pub(crate) async fn list(ctx: &RequestContext) -> Result<Response<Body>> {
    ctx.query.allow(&["kind", "namespace", "name", "user", "limit", "before"])?;
    let limit = ctx.query.number("limit", 1, 1000)?.unwrap_or(DEFAULT_LIMIT);
    let before = ctx.query.number("before", 0, u64::MAX)?;
    let entries = ctx.shared.audit.find(|entry| {
        let is =
            |parameter: &str, value: &Value| ctx.query.get(parameter).is_none_or(|wanted| value == wanted);
        is("user", &entry["user"])
            && is("kind", &entry["ref"]["kind"])
            && is("namespace", &entry["ref"]["namespace"])
            && is("name", &entry["ref"]["name"])
            && before.is_none_or(|before| entry["id"].as_u64().is_some_and(|id| id < before))
    });
    let items = visible(ctx, entries, usize::try_from(limit).unwrap_or(usize::MAX)).await?;
    Ok(answer::json(StatusCode::OK, &json!({"items": items})))
}

/// Returns the newest changes that the caller may see.
pub(crate) async fn recent(ctx: &RequestContext, limit: usize) -> Result<Vec<Value>> {
    let entries =
        ctx.shared.audit.find(|entry| !entry["ref"].is_null() && entry["status"].as_u64() < Some(300));
    visible(ctx, entries, limit).await
}

/// Filters the entries down to those about the caller, and about objects that the caller may get.
async fn visible(ctx: &RequestContext, entries: Vec<Value>, limit: usize) -> Result<Vec<Value>> {
    let catalog = ctx.shared.kinds.all().await?;
    let mut decided: HashMap<(String, String, String), bool> = HashMap::new();
    let mut items = Vec::new();
    for entry in entries {
        if items.len() >= limit {
            break;
        }
        let text = |name: &str| entry["ref"][name].as_str().unwrap_or_default().to_owned();
        let key = (text("kind"), text("namespace"), text("name"));
        let allowed = if entry["ref"].is_null() {
            entry["user"] == ctx.caller.user.name.as_str()
        } else if let Some(known) = decided.get(&key) {
            *known
        } else {
            let allowed = match catalog.find(&key.0, None) {
                None => false,
                Some(kind) => {
                    let namespace = Some(key.1.as_str()).filter(|namespace| !namespace.is_empty());
                    access::check(ctx, kind, "get", "", namespace, Some(&key.2)).await?["allowed"] == true
                }
            };
            decided.insert(key, allowed);
            allowed
        };
        if allowed {
            items.push(entry);
        }
    }
    Ok(items)
}
