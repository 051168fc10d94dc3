//! The real `helm` and `steer` alternate on releases of a real control plane, with the results of `helm` alone.
//!
//! Needs Helm and Kubernetes (`oracles/kubernetes/build`); `make oracle-helm-releases` runs it. Charts come from
//! `../shared/charts`.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::planes::{
    Plane, assert_compared, differences, first_difference, only, shared_chart, steer, tool,
};

/// A chart, with the flags of its install and its upgrade.
struct Case {
    chart: &'static str,
    install: &'static [&'static str],
    upgrade: &'static [&'static str],
}

/// Charts that render deterministically: with stateful and daemon sets, hooks, definitions, webhooks.
const CASES: [Case; 10] = [
    Case {
        chart: "DandyDeveloper_charts__redis-ha",
        install: &["--set", "hardAntiAffinity=false,persistentVolume.enabled=false"],
        upgrade: &[
            "--set",
            "hardAntiAffinity=false,persistentVolume.enabled=false,replicas=2,exporter.enabled=true",
        ],
    },
    Case {
        chart: "dexidp_helm-charts__dex",
        install: &[],
        upgrade: &["--set", "replicaCount=2,autoscaling.enabled=true"],
    },
    Case {
        chart: "backstage_charts__backstage",
        install: &[],
        upgrade: &["--set", "backstage.replicas=2,service.type=NodePort"],
    },
    Case {
        chart: "bitnami-labs_sealed-secrets__sealed-secrets",
        install: &[],
        upgrade: &["--set", "metrics.dashboards.create=true,image.tag=other"],
    },
    Case {
        chart: "cert-manager_cert-manager__cert-manager",
        install: &["--set", "crds.enabled=true"],
        upgrade: &["--set", "crds.enabled=true,replicaCount=2,podDisruptionBudget.enabled=true"],
    },
    Case {
        chart: "kubernetes_ingress-nginx__ingress-nginx",
        install: &["--set", "controller.service.type=ClusterIP"],
        upgrade: &[
            "--set",
            "controller.service.type=ClusterIP,controller.replicaCount=2,controller.config.use-gzip=true",
        ],
    },
    Case {
        chart: "prometheus-community_helm-charts__kube-state-metrics",
        install: &[],
        upgrade: &["--set", "replicas=2,podDisruptionBudget.maxUnavailable=1"],
    },
    Case {
        chart: "prometheus-community_helm-charts__prometheus-node-exporter",
        install: &[],
        upgrade: &["--set", "service.port=9200,podLabels.a=b"],
    },
    Case {
        chart: "kubernetes-sigs_descheduler__descheduler",
        install: &[],
        upgrade: &["--set", "kind=Deployment"],
    },
    Case {
        chart: "fluent_helm-charts__fluent-bit",
        install: &["--set", "podAnnotations.first=yes"],
        upgrade: &["--set", "labels.tier=logs,hotReload.enabled=true"],
    },
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Helm,
    Steer,
}

/// The state after a step.
struct State {
    step: &'static str,
    /// The output of `helm get all`.
    record: String,
    /// The statuses and descriptions of `helm history`.
    history: String,
    objects: BTreeMap<String, Value>,
}

struct Turns {
    plane: Plane,
    helm: PathBuf,
    steer: PathBuf,
    before: BTreeMap<String, Value>,
    compared: usize,
    different: Vec<String>,
}

const NAMESPACE: &str = "turns";

impl Turns {
    fn new() -> Self {
        let plane = Plane::real();
        let before = plane.objects();
        Self { plane, helm: tool("helm"), steer: steer(), before, compared: 0, different: Vec::new() }
    }

    fn ask(&self, who: Who, arguments: &[&str]) -> crate::support::Outcome {
        let mut words = arguments.to_vec();
        words.extend(["--namespace", NAMESPACE]);
        self.plane.run(if who == Who::Helm { &self.helm } else { &self.steer }, &words)
    }

    /// Runs the lifecycle of a release: `first` installs and rolls back, `second` upgrades and uninstalls.
    fn live(&mut self, case: &Case, chart: &str, first: Who, second: Who) -> Vec<State> {
        let mut states = Vec::new();
        let waited = ["--wait", "--timeout", "90s"];
        let with = |words: &[&'static str], more: &[&'static str]| -> Vec<String> {
            words.iter().chain(more).chain(&waited).map(|word| (*word).to_owned()).collect()
        };
        let place = |words: Vec<String>| -> Vec<String> {
            words.into_iter().map(|word| if word == "CHART" { chart.to_owned() } else { word }).collect()
        };
        let steps = [
            ("install", first, with(&["install", "it", "CHART", "--create-namespace"], case.install)),
            (
                "upgrade",
                second,
                with(&["upgrade", "it", "CHART", "--description", "the second"], case.upgrade),
            ),
            ("upgrade again", first, with(&["upgrade", "it", "CHART", "--reuse-values"], &[])),
            ("rollback", first, with(&["rollback", "it", "1"], &[])),
            ("rollback to the upgrade", second, with(&["rollback", "it", "2"], &[])),
            ("uninstall", second, with(&["uninstall", "it"], &[])),
        ];
        for (step, who, words) in steps {
            let words = place(words);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let done = self.ask(who, &words);
            let whose = format!("{} by {first:?} and {second:?}: {step}", case.chart);
            if done.code != 0 {
                self.different.push(format!("{whose}: {}", done.stderr.trim()));
                break;
            }
            states.push(self.state(step, &whose));
        }
        self.plane.tidy(NAMESPACE, &self.before);
        states
    }

    fn state(&mut self, step: &'static str, whose: &str) -> State {
        let objects = self.plane.objects();
        if step == "uninstall" {
            let gone = self.ask(Who::Helm, &["get", "all", "it"]);
            return State { step, record: gone.stderr, history: String::new(), objects };
        }
        let mut said = Vec::new();
        for what in [["get", "all", "it"].as_slice(), &["history", "it", "-o", "json"]] {
            let (theirs, ours) = (self.ask(Who::Helm, what).success(), self.ask(Who::Steer, what).success());
            self.compared += 1;
            if let Some((line, theirs, ours)) = first_difference(&theirs, &ours) {
                self.different.push(format!(
                    "{whose}: {} line {line}\n  helm:  {theirs:?}\n  steer: {ours:?}",
                    what.join(" ")
                ));
            }
            said.push(theirs);
        }
        let history = said.pop().map(|text| without_times(&text)).unwrap_or_default();
        let record = said.pop().unwrap_or_default();
        let record: Vec<&str> = record.lines().filter(|line| !line.starts_with("LAST DEPLOYED:")).collect();
        State { step, record: record.join("\n"), history, objects }
    }

    fn compare(&mut self, case: &Case, first: Who, second: Who, theirs: &[State], ours: &[State]) {
        if theirs.len() != ours.len() {
            self.different.push(format!("{}: not all steps were done", case.chart));
        }
        for (theirs, ours) in theirs.iter().zip(ours) {
            self.compared += 2;
            let whose = format!("{} by {first:?} and {second:?} after {}", case.chart, theirs.step);
            for (what, left, right) in
                [("record", &theirs.record, &ours.record), ("history", &theirs.history, &ours.history)]
            {
                if let Some((line, left, right)) = first_difference(left, right) {
                    self.different
                        .push(format!("{whose}: {what}, line {line}\n  helm:  {left:?}\n  mixed: {right:?}"));
                }
            }
            for difference in differences(&theirs.objects, &ours.objects) {
                self.different.push(format!("{whose}: {difference}"));
            }
        }
    }
}

/// Removes timestamps from a history in JSON.
fn without_times(text: &str) -> String {
    let mut history: Value = serde_json::from_str(text).unwrap();
    for entry in history.as_array_mut().into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("updated");
        }
    }
    serde_json::to_string_pretty(&history).unwrap()
}

#[test]
#[ignore = "needs the real helm and control plane: make oracle-helm-releases"]
fn helm_and_steer_take_turns() {
    let only = only();
    let mut turns = Turns::new();
    let mut charts = 0;
    for case in CASES.iter().filter(|case| case.chart.contains(&only)) {
        let Some(chart) = shared_chart(case.chart) else { continue };
        charts += 1;
        let theirs = turns.live(case, &chart, Who::Helm, Who::Helm);
        for (first, second) in [(Who::Steer, Who::Helm), (Who::Helm, Who::Steer)] {
            let ours = turns.live(case, &chart, first, second);
            turns.compare(case, first, second, &theirs, &ours);
        }
        eprintln!("{}: {} differences so far", case.chart, turns.different.len());
    }
    eprintln!("{charts} charts, {} comparisons, {} different", turns.compared, turns.different.len());
    assert!(turns.different.is_empty(), "{}", turns.different.join("\n"));
    assert_compared(charts);
}
