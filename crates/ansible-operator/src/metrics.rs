//! Metrics with operator-sdk's names, and metrics created by plays.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::Value;

/// Prometheus' default histogram buckets.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The maximum number of metrics that plays can create.
const MOST: usize = 1000;

/// The metrics of an Ansible operator.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    results: Mutex<BTreeMap<(String, &'static str), f64>>,
    times: Mutex<BTreeMap<String, Histogram>>,
    made: Mutex<BTreeMap<String, PlayMetric>>,
}

#[derive(Clone, Debug, Default)]
struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

/// A metric created by a play.
#[derive(Clone, Debug)]
struct PlayMetric {
    description: String,
    value: MadeValue,
}

#[derive(Clone, Debug)]
enum MadeValue {
    Counter(f64),
    Gauge(f64),
    Histogram(Histogram),
    Summary(Histogram),
}

impl Histogram {
    fn observe(&mut self, value: f64) {
        for (bound, count) in BOUNDS.iter().zip(&mut self.counts) {
            *count += u64::from(value <= *bound);
        }
        self.count += 1;
        self.sum += value;
    }

    fn write(&self, text: &mut String, name: &str, label: &str) {
        let separator = if label.is_empty() { "" } else { "," };
        for (bound, count) in BOUNDS.iter().zip(&self.counts) {
            let _ = writeln!(text, "{name}_bucket{{{label}{separator}le=\"{bound:?}\"}} {count}");
        }
        let _ = writeln!(text, "{name}_bucket{{{label}{separator}le=\"+Inf\"}} {}", self.count);
        self.write_totals(text, name, label);
    }

    fn write_totals(&self, text: &mut String, name: &str, label: &str) {
        let braced = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        let _ = writeln!(text, "{name}_sum{braced} {}\n{name}_count{braced} {}", self.sum, self.count);
    }
}

impl Metrics {
    /// Counts a reconcile. `gvk` is as in `cache.example.com/v1, Kind=Memcached`.
    pub(crate) fn reconciled(&self, gvk: &str, succeeded: bool) {
        let result = if succeeded { "succeeded" } else { "failed" };
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        *results.entry((gvk.to_owned(), result)).or_default() += 1.0;
    }

    /// Records the duration of a run.
    pub(crate) fn took(&self, gvk: &str, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.entry(gvk.to_owned()).or_default().observe(time.as_secs_f64());
    }

    /// Updates a metric as requested by a play.
    pub(crate) fn change(&self, asked: &Value) -> Result<(), String> {
        let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
        let (name, kind) = (text("name"), text("type"));
        let is_name = |first: bool, character: char| {
            character.is_ascii_alphabetic()
                || "_:".contains(character)
                || !first && character.is_ascii_digit()
        };
        if name.is_empty() || !name.char_indices().all(|(index, character)| is_name(index == 0, character)) {
            return Err(format!("invalid metric name {name:?}"));
        }
        if [
            "ansible_operator_",
            "controller_runtime_",
            "workqueue_",
            "rest_client_",
            "leader_election_",
            "steersman_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        {
            return Err(format!("metric name {name:?} is reserved for the operator's own metrics"));
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= MOST && !made.contains_key(&name) {
            return Err(format!("cannot add metric {name:?}: the limit of {MOST} metrics is reached"));
        }
        let change = &asked["change"];
        let number = |key: &str| change[key].as_f64().filter(|number| number.is_finite());
        let flag = |key: &str| if change[key].as_bool() == Some(true) { 1.0 } else { 0.0 };
        let entry = made.entry(name.clone()).or_insert_with(|| PlayMetric {
            description: text("description"),
            value: match kind.as_str() {
                "counter" => MadeValue::Counter(0.0),
                "histogram" => MadeValue::Histogram(Histogram::default()),
                "summary" => MadeValue::Summary(Histogram::default()),
                _ => MadeValue::Gauge(0.0),
            },
        });
        match (&mut entry.value, kind.as_str()) {
            (MadeValue::Counter(value), "counter") => {
                let by = number("add").unwrap_or(0.0) + flag("increment");
                if by < 0.0 {
                    return Err(format!("counter {name} cannot decrease"));
                }
                *value += by;
            }
            (MadeValue::Gauge(value), "gauge") => {
                *value = number("set").unwrap_or(*value);
                if flag("set_to_current_time") > 0.0 {
                    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    *value = since.map_or(0.0, |time| time.as_secs_f64());
                }
                *value += number("add").unwrap_or(0.0) - number("subtract").unwrap_or(0.0);
                *value += flag("increment") - flag("decrement");
            }
            (MadeValue::Histogram(histogram), "histogram") | (MadeValue::Summary(histogram), "summary") => {
                histogram
                    .observe(number("observe").ok_or_else(|| format!("{name}: observe needs a number"))?);
            }
            _ => return Err(format!("{name} is not a {kind}: it was created with another type")),
        }
        Ok(())
    }

    /// Formats all metrics as OpenMetrics text, without the end mark.
    pub(crate) fn render(&self, version: &str) -> String {
        let mut text = String::new();
        let head = |text: &mut String, name: &str, help: &str, kind: &str| {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(
            &mut text,
            "ansible_operator_build_info",
            "Build information for the ansible-operator binary",
            "gauge",
        );
        let _ = writeln!(text, "ansible_operator_build_info{{commit=\"\",version=\"{version}\"}} 1");
        head(
            &mut text,
            "ansible_operator_reconcile_result",
            "Gauge of reconciles and their results.",
            "gauge",
        );
        for ((gvk, result), value) in &*self.results.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(
                text,
                "ansible_operator_reconcile_result{{GVK=\"{gvk}\",result=\"{result}\"}} {value}"
            );
        }
        head(&mut text, "ansible_operator_reconciles", "How long in seconds a reconcile takes.", "histogram");
        for (gvk, histogram) in &*self.times.lock().unwrap_or_else(PoisonError::into_inner) {
            histogram.write(&mut text, "ansible_operator_reconciles", &format!("GVK=\"{gvk}\""));
        }
        for (name, made) in &*self.made.lock().unwrap_or_else(PoisonError::into_inner) {
            match &made.value {
                MadeValue::Counter(value) => {
                    let family = name.strip_suffix("_total").unwrap_or(name);
                    head(&mut text, family, &made.description, "counter");
                    let _ = writeln!(text, "{family}_total {value}");
                }
                MadeValue::Gauge(value) => {
                    head(&mut text, name, &made.description, "gauge");
                    let _ = writeln!(text, "{name} {value}");
                }
                MadeValue::Histogram(histogram) => {
                    head(&mut text, name, &made.description, "histogram");
                    histogram.write(&mut text, name, "");
                }
                MadeValue::Summary(histogram) => {
                    head(&mut text, name, &made.description, "summary");
                    histogram.write_totals(&mut text, name, "");
                }
            }
        }
        text
    }
}

/// Returns one sample of each metric of an Ansible operator, as OpenMetrics text.
#[must_use]
pub fn reference() -> String {
    let metrics = Metrics::default();
    metrics.reconciled("example.com/v1, Kind=Example", true);
    metrics.took("example.com/v1, Kind=Example", Duration::ZERO);
    metrics.render("")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_have_operator_sdks_names() {
        let metrics = Metrics::default();
        metrics.reconciled("a/v1, Kind=B", true);
        metrics.reconciled("a/v1, Kind=B", true);
        metrics.took("a/v1, Kind=B", Duration::from_millis(300));
        let text = metrics.render("1.2.3");
        for line in [
            "ansible_operator_build_info{commit=\"\",version=\"1.2.3\"} 1",
            "ansible_operator_reconcile_result{GVK=\"a/v1, Kind=B\",result=\"succeeded\"} 2",
            "ansible_operator_reconciles_bucket{GVK=\"a/v1, Kind=B\",le=\"0.25\"} 0",
            "ansible_operator_reconciles_bucket{GVK=\"a/v1, Kind=B\",le=\"0.5\"} 1",
            "ansible_operator_reconciles_count{GVK=\"a/v1, Kind=B\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn plays_make_metrics() {
        let metrics = Metrics::default();
        let change = |name: &str, kind: &str, change: Value| {
            metrics.change(&json!({ "name": name, "description": "a\nb", "type": kind, "change": change }))
        };
        change("backups", "counter", json!({ "increment": true })).unwrap();
        change("backups", "counter", json!({ "add": 2.5 })).unwrap();
        change("depth", "gauge", json!({ "set": 5, "decrement": true })).unwrap();
        change("took", "summary", json!({ "observe": 2 })).unwrap();
        for (name, kind, wrong) in [
            ("backups", "counter", json!({ "add": -1 })),
            ("backups", "gauge", json!({ "set": 1 })),
            ("a b", "gauge", json!({ "set": 1 })),
            ("workqueue_depth", "gauge", json!({ "set": 1 })),
            ("took", "summary", json!({})),
        ] {
            assert!(change(name, kind, wrong).is_err(), "{name}");
        }
        let text = metrics.render("");
        for line in ["backups_total 3.5", "depth 4", "took_sum 2", "took_count 1", "# HELP depth a\\nb"] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}
