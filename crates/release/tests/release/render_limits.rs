//! Charts that compute endlessly do not hold up anything else, and end within their limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use steersman_chart::{Chart, Exceeded, File, Limits, Values};
use steersman_cluster::Cluster;
use steersman_release::{Error, Options, Releases, RenderLimits};

/// A chart whose template runs until interrupted.
fn burning() -> Chart {
    Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: burning, version: 0.1.0}"),
        File::new("templates/a.yaml", "{{ range 9000000000000000000 }}{{ end }}"),
    ])
    .unwrap()
}

fn options(limits: Limits, timeout: Duration) -> Options {
    Options { render: RenderLimits { limits, timeout }, ..Options::default() }
}

fn endless() -> Limits {
    Limits { cost: usize::MAX, ..Limits::default() }
}

/// Returns the limit that a render exceeded.
#[track_caller]
fn exceeded(error: Error) -> Exceeded {
    match error {
        Error::Chart(error) => {
            assert!(error.to_string().contains("burning/templates/a.yaml:1:"), "{error}");
            error.exceeded().cloned().unwrap_or_else(|| panic!("{error}"))
        }
        other => panic!("{other}"),
    }
}

// On a single thread, a render would block the renewal of the lease, and its own timeout.
#[tokio::test(flavor = "current_thread")]
async fn a_lease_is_renewed_while_a_chart_computes() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let lease = serde_json::from_value(json!({ "metadata": { "name": "operator" }, "spec": {} })).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let renewed = Arc::new(AtomicUsize::new(0));
    let renewing = tokio::spawn({
        let renewed = Arc::clone(&renewed);
        async move {
            loop {
                let count = renewed.load(Ordering::Relaxed) + 1;
                let renewal = json!({ "spec": { "leaseTransitions": count } });
                leases.patch("operator", &PatchParams::default(), &Patch::Merge(&renewal)).await.unwrap();
                renewed.store(count, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
    let releases = Releases::new(client, "default");
    let options = options(endless(), Duration::from_secs(1));
    let error = releases.install("burning", &burning(), &Values::new(), &options).await.unwrap_err();
    assert_eq!(exceeded(error).to_string(), "exceeded the time limit of 1s");
    renewing.abort();
    let renewed = renewed.load(Ordering::Relaxed);
    assert!(renewed >= 5, "{renewed}");
}

#[tokio::test]
async fn cost_and_memory_are_limited() {
    let cluster = Cluster::start().await.unwrap();
    let releases = Releases::new(cluster.client(), "default");
    let limits = Limits { cost: 100_000, ..Limits::default() };
    let options = options(limits, Duration::from_secs(60));
    let error = releases.install("burning", &burning(), &Values::new(), &options).await.unwrap_err();
    assert_eq!(exceeded(error), Exceeded::Cost(100_000));
    assert!(releases.revisions("burning").await.unwrap().is_empty());
}
