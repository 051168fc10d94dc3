//! Operators: queues, reconciles and errors scraped from their metrics, and their latest log lines.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    access,
    answer::{self, Body},
    exposition::{self, Sample},
    kinds::Catalog,
    problem::{Problem, Result},
    request::RequestContext,
};

/// The timeout for scraping an operator's metrics.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest metrics response that is read.
const LARGEST: usize = 32 << 20;
/// The window over which the rate of reconciles is computed.
const RATE: Duration = Duration::from_secs(60);
/// The number of log lines kept, and the maximum length of each in bytes.
const LINES: usize = 200;
const LINE: usize = 4096;

/// The latest lines of operators' logs, kept in memory.
#[derive(Debug, Clone, Default)]
pub struct OperatorLog(Arc<Mutex<VecDeque<Line>>>);

#[derive(Debug, Clone)]
struct Line {
    at: Timestamp,
    level: &'static str,
    message: String,
}

impl OperatorLog {
    /// Appends a line. The portal shows the last 200, without terminal colours.
    pub fn push(&self, line: &str) {
        let text = without_colours(line);
        let level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"]
            .into_iter()
            .find(|level| text.split_whitespace().take(3).any(|word| word.trim_matches(['[', ']']) == *level))
            .unwrap_or("INFO");
        let message: String = text.chars().take(LINE).collect();
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(Line { at: Timestamp::now(), level, message });
    }

    fn documents(&self) -> Vec<Value> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let document =
            |line: &Line| json!({"at": line.at.to_string(), "level": line.level, "message": line.message});
        lines.iter().map(document).collect()
    }
}

/// Strips ANSI escape sequences and other control characters.
fn without_colours(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                // An escape sequence extends to its first letter.
                characters.find(char::is_ascii_alphabetic);
            }
            '\t' => text.push(' '),
            other if other.is_control() => {}
            other => text.push(other),
        }
    }
    text
}

/// An operator whose metrics are scraped.
#[derive(Debug)]
pub(crate) struct Operator {
    name: String,
    metrics: String,
    /// Samples of the total number of reconciles, with the time of each.
    counted: Mutex<VecDeque<(Instant, f64)>>,
}

impl Operator {
    pub(crate) fn new(name: String, metrics: String) -> Self {
        Self { name, metrics, counted: Mutex::default() }
    }

    async fn document(&self, client: &reqwest::Client, catalog: &Catalog) -> Value {
        match scrape(client, &self.metrics).await {
            Ok(text) => {
                let figures = OperatorMetrics::read(&text);
                let per_minute = self.per_minute(figures.success + figures.error);
                figures.document(&self.name, per_minute, catalog)
            }
            Err(reason) => json!({
                "name": self.name, "kinds": [], "leader": null, "queue": null, "reconciles": null, "latency": null,
                "startedAt": null, "problem": reason,
            }),
        }
    }

    /// Returns the rate of a counter over the last minute; None until there are two samples.
    #[expect(clippy::cast_possible_truncation, reason = "a rate is shown in whole numbers")]
    fn per_minute(&self, count: f64) -> Option<i64> {
        let now = Instant::now();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        // The counter of a restarted operator begins at zero.
        if counted.back().is_some_and(|(_, before)| *before > count) {
            counted.clear();
        }
        while counted.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE) && counted.len() > 1 {
            counted.pop_front();
        }
        let rate = counted.front().and_then(|(at, before)| {
            let elapsed = now.duration_since(*at).as_secs_f64();
            (elapsed >= 1.0).then(|| ((count - before) * 60.0 / elapsed).round() as i64)
        });
        if counted.back().is_none_or(|(at, _)| now.duration_since(*at) >= Duration::from_secs(1)) {
            counted.push_back((now, count));
        }
        rate
    }
}

/// Returns an operator's metrics, or why they cannot be read.
async fn scrape(client: &reqwest::Client, url: &str) -> Result<String, String> {
    let failed = |error: reqwest::Error| format!("its metrics cannot be read: {}", error.without_url());
    let mut response = client.get(url).timeout(PATIENCE).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("its metrics cannot be read: HTTP {}", response.status()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        text.extend_from_slice(&chunk);
        if text.len() > LARGEST {
            return Err(format!("its metrics cannot be read: they are larger than {LARGEST} bytes"));
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// An operator's metrics, by controller-runtime's names.
#[derive(Debug, Default, PartialEq)]
struct OperatorMetrics {
    controllers: BTreeSet<String>,
    leader: Option<bool>,
    depth: Option<f64>,
    success: f64,
    error: f64,
    /// The cumulative histogram of reconcile durations: upper bound and count.
    times: Vec<(f64, f64)>,
    started: Option<f64>,
}

impl OperatorMetrics {
    fn read(text: &str) -> Self {
        let mut figures = Self::default();
        for sample in exposition::samples(text) {
            figures.add(&sample);
        }
        figures.times.sort_by(|one, other| one.0.total_cmp(&other.0));
        figures
    }

    fn add(&mut self, sample: &Sample<'_>) {
        match sample.name {
            "workqueue_depth" => *self.depth.get_or_insert(0.0) += sample.value,
            "controller_runtime_reconcile_total" => {
                self.controllers.extend(sample.label("controller"));
                let is_error = sample.label("result").as_deref() == Some("error");
                *(if is_error { &mut self.error } else { &mut self.success }) += sample.value;
            }
            "controller_runtime_reconcile_time_seconds_bucket" => {
                let bound = match sample.label("le").as_deref() {
                    Some("+Inf") => Some(f64::INFINITY),
                    bound => bound.and_then(|bound| bound.parse().ok()),
                };
                let Some(bound) = bound else { return };
                match self.times.iter_mut().find(|(known, _)| *known == bound) {
                    Some((_, count)) => *count += sample.value,
                    None => self.times.push((bound, sample.value)),
                }
            }
            "leader_election_master_status" => {
                self.leader = Some(self.leader.unwrap_or(false) || sample.value > 0.0);
            }
            "process_start_time_seconds" => self.started = Some(sample.value),
            _ => {}
        }
    }

    /// Estimates a quantile of the reconcile duration. Interpolates linearly inside a bucket, as Prometheus does.
    fn quantile(&self, part: f64) -> Option<f64> {
        let total = self.times.last().map(|(_, count)| *count).filter(|total| *total > 0.0)?;
        let rank = part * total;
        let at = self.times.iter().position(|(_, count)| *count >= rank)?;
        let (bound, count) = self.times[at];
        let (start, before) = if at == 0 { (0.0, 0.0) } else { self.times[at - 1] };
        if bound.is_infinite() {
            return Some(start);
        }
        Some(if count > before {
            start + (bound - start) * (rank - before) / (count - before)
        } else {
            bound
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "counts and seconds are far below what an i64 holds")]
    fn document(&self, name: &str, per_minute: Option<i64>, catalog: &Catalog) -> Value {
        let is_reconciled = |kind: &str| {
            let kind = kind.to_ascii_lowercase();
            self.controllers
                .iter()
                .any(|name| *name == kind || name.strip_suffix("-controller") == Some(&kind))
        };
        let kinds = catalog.iter().filter(|kind| kind.custom && is_reconciled(&kind.kind));
        let kinds: Vec<String> = kinds.map(|kind| kind.name()).collect();
        let latency =
            self.quantile(0.5).zip(self.quantile(0.99)).map(|(p50, p99)| json!({"p50": p50, "p99": p99}));
        let started = self.started.and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
        json!({
            "name": name, "kinds": kinds, "leader": self.leader, "latency": latency,
            "queue": self.depth.map(|depth| json!({"depth": depth as i64})),
            "reconciles": {"success": self.success as i64, "error": self.error as i64, "perMinute": per_minute},
            "startedAt": started.map(|at| at.to_string()), "problem": null,
        })
    }
}

/// Serves `GET /v1/operator` to callers that may get `/metrics` of the cluster. Operators' own metrics require the same
/// permission.
pub(crate) async fn get(ctx: &RequestContext) -> Result<Response<Body>> {
    ctx.query.allow(&[])?;
    if ctx.shared.operators.is_empty() {
        return Err(Problem::not_found(
            "no operator metrics are configured; --operator-metrics names their URLs",
        ));
    }
    access::require_path(ctx, "get", "/metrics").await?;
    let catalog = ctx.shared.kinds.all().await?;
    let operators = ctx.shared.operators.iter().map(|operator| operator.document(&ctx.shared.http, &catalog));
    let operators = join_all(operators).await;
    let log = ctx.shared.operator_log.documents();
    Ok(answer::json(StatusCode::OK, &json!({"operators": operators, "log": log})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_all_controllers() {
        let text = "workqueue_depth{controller=\"a\"} 2\nworkqueue_depth{controller=\"b\"} 1\n\
            controller_runtime_reconcile_total{controller=\"a\",result=\"success\"} 6\n\
            controller_runtime_reconcile_total{controller=\"a\",result=\"requeue_after\"} 1\n\
            controller_runtime_reconcile_total{controller=\"b\",result=\"error\"} 3\n\
            controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"0.1\"} 5\n\
            controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"1\"} 10\n\
            controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"+Inf\"} 10\n\
            controller_runtime_reconcile_time_seconds_bucket{controller=\"b\",le=\"0.1\"} 5\n\
            controller_runtime_reconcile_time_seconds_bucket{controller=\"b\",le=\"+Inf\"} 0\n\
            leader_election_master_status{name=\"x\"} 1\nprocess_start_time_seconds 1.5e9\n";
        let figures = OperatorMetrics::read(text);
        assert_eq!((figures.depth, figures.success, figures.error), (Some(3.0), 7.0, 3.0));
        assert_eq!(figures.leader, Some(true));
        assert_eq!(figures.quantile(0.5), Some(0.05));
        assert_eq!(OperatorMetrics::default().quantile(0.5), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_that_of_the_last_minute_and_begins_anew_with_the_operator() {
        let operator = Operator::new("shops".into(), String::new());
        assert_eq!(operator.per_minute(100.0), None);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(operator.per_minute(150.0), Some(100));
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(operator.per_minute(150.0), Some(0), "what is older than a minute is left out");
        assert_eq!(operator.per_minute(10.0), None, "restarted");
    }

    #[test]
    fn lines_of_a_log_are_plain_text() {
        let log = OperatorLog::default();
        log.push("\u{1b}[2m12:00:00\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m no\u{7} way\tback");
        let documents = log.documents();
        assert_eq!(documents[0]["message"], "12:00:00 ERROR no way back");
        assert_eq!(documents[0]["level"], "ERROR");
        (0..300).for_each(|number| log.push(&number.to_string()));
        assert_eq!(log.documents().len(), LINES);
    }
}
