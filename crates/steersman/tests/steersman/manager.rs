//! The manager: election, metrics, probes, manifests, the doctor.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, CustomResourceExt as _};
use steersman::{Action, Context, Controller, Error, LeaderElection, Operator, Result, testing::TestEnv};
use steersman_cluster::User;

use crate::common::{Widget, WidgetStatus, free_port, get, shown, widget};

fn operator(note: &'static str) -> Operator {
    let reconcile = move |widget: Arc<Widget>, ctx: Context| async move {
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: Some(note.to_owned()) })
            .await?;
        Ok::<_, Error>(Action::await_change())
    };
    Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>())
}

fn election(identity: &str) -> LeaderElection {
    let times = [1500, 1000, 100].map(Duration::from_millis);
    LeaderElection::new("test").identity(identity).times(times[0], times[1], times[2])
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_takes_over_when_it_stops() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    env.run(operator("first").leader_election(election("first")));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    let mut standby = TestEnv::on(env.cluster().unwrap().clone());
    standby.run(operator("second").leader_election(election("second")));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let lease: Lease = env.api().get("test").await?;
    assert_eq!(lease.spec.and_then(|spec| spec.holder_identity).as_deref(), Some("first"));
    let start = tokio::time::Instant::now();
    env.stop().await?;
    env.wait("one", |widget: Option<&Widget>| {
        widget.and_then(|widget| widget.status.as_ref()?.note.as_deref()) == Some("second")
    })
    .await?;
    assert!(start.elapsed() < Duration::from_millis(1200), "the lease was given back: {:?}", start.elapsed());
    let lease: Lease = env.api().get("test").await?;
    assert_eq!(lease.spec.and_then(|spec| spec.lease_transitions), Some(1));
    Ok(())
}

#[tokio::test]
async fn losing_the_lease_ends_the_operator() -> Result<()> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    let running = tokio::spawn(
        operator("x").leader_election(election("x")).run_until(env.client(), std::future::pending()),
    );
    env.wait("test", |lease: Option<&Lease>| lease.is_some()).await?;
    env.patch::<Lease>("test", serde_json::json!({"spec": {"holderIdentity": "thief"}})).await?;
    let error = tokio::time::timeout(Duration::from_secs(5), running).await.map_err(Error::other)?;
    assert!(matches!(error.map_err(Error::other)?, Err(Error::LeadershipLost(_))));
    Ok(())
}

#[tokio::test]
async fn ports_are_free_when_an_operator_has_stopped() -> Result<()> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    env.create(&widget("one", "red")).await?;
    let (metrics, probes) = (free_port(), free_port());
    let seen = async {
        env.wait("one", |widget| shown(widget) == Some("red")).await.unwrap();
    };
    let operator = operator("x").metrics_address(metrics).probe_address(probes);
    operator.run_until(env.client(), seen).await?;
    for port in [metrics, probes] {
        std::net::TcpListener::bind(port).map_err(Error::other)?;
    }
    Ok(())
}

#[tokio::test]
async fn metrics_and_probes_are_served() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    let (metrics, probes) = (free_port(), free_port());
    env.run(operator("x").metrics_address(metrics).probe_address(probes).debug(true));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.quiet().await;
    let text = get(metrics, "/metrics").await.map_err(Error::other)?;
    for expected in [
        r#"controller_runtime_reconcile_total{controller="widget",result="success"} 1"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="widget"} 16"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="widget"} 1"#,
        r#"workqueue_depth{name="widget",controller="widget",priority="0"} 0"#,
        r#"workqueue_queue_duration_seconds_bucket{le="#,
        r#"rest_client_requests_total{code="200",method="PATCH",host="unknown"}"#,
        r#"steersman_cache_objects{kind="widgets.test.steersman.dev"} 1"#,
        r#"steersman_cache_synced{kind="configmaps"} 1"#,
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    // The dashboard shows the exposed metrics.
    let dashboard = operator("x").dashboard().to_string();
    let mut shown = 0;
    for word in dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let own = ["controller_runtime_reconcile", "workqueue_", "rest_client_", "steersman_"];
        if own.iter().any(|prefix| word.starts_with(prefix))
            && !word.contains("terminal")
            && word.contains("_")
        {
            let rare = ["errors", "panics", "timeouts", "retries"].iter().any(|rare| word.contains(rare));
            assert!(rare || text.contains(word), "{word} is not in\n{text}");
            shown += 1;
        }
    }
    assert!(shown > 15, "{shown} metrics are shown");
    assert!(get(probes, "/healthz").await.map_err(Error::other)?.starts_with("HTTP/1.1 200"));
    assert!(get(probes, "/readyz").await.map_err(Error::other)?.starts_with("HTTP/1.1 200"));
    assert!(get(probes, "/nothing").await.map_err(Error::other)?.starts_with("HTTP/1.1 404"));
    assert!(get(probes, "/debug/queue").await.map_err(Error::other)?.ends_with(r#"{"widget":[]}"#));
    let cache = get(probes, "/debug/cache").await.map_err(Error::other)?;
    assert!(cache.contains(r#""kind":"widgets.test.steersman.dev""#), "{cache}");
    Ok(())
}

#[test]
fn permissions_follow_from_what_is_declared() {
    let rules = operator("x").permission("", ["secrets"], ["get"]).rules();
    let lines: Vec<String> = rules
        .iter()
        .map(|rule| {
            let join =
                |list: &Option<Vec<String>>| list.iter().flatten().cloned().collect::<Vec<_>>().join(",");
            format!("{} {} {}", join(&rule.api_groups), join(&rule.resources), rule.verbs.join(","))
        })
        .collect();
    assert_eq!(
        lines,
        [
            " configmaps create,delete,get,list,patch,watch",
            "events.k8s.io events create,patch",
            "test.steersman.dev widgets get,list,patch,watch",
            "test.steersman.dev widgets/status patch",
            "test.steersman.dev widgets/finalizers update",
            " secrets get",
        ]
    );
}

#[tokio::test]
async fn what_is_declared_and_what_is_used_are_compared() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator("x")).await?;
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.quiet().await;
    let problems = |operator: &Operator| -> Vec<String> {
        operator.least_privilege(&env.requests()).into_iter().map(|finding| finding.problem).collect()
    };
    let found = problems(&operator("x"));
    assert!(found.contains(&"declared but not used: delete configmaps".to_owned()), "{found:?}");
    assert!(found.iter().all(|problem| problem.starts_with("declared")), "{found:?}");
    let found = problems(&Operator::new("nothing"));
    assert!(found.contains(&"used but not declared: patch widgets/status.test.steersman.dev".to_owned()));
    Ok(())
}

#[tokio::test]
async fn the_doctor_finds_missing_and_stale_definitions() -> Result<()> {
    let env = TestEnv::start().await?;
    let operator = operator("x");
    let findings = operator.doctor(&env.client()).await?;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].problem, "CRD widgets.test.steersman.dev is not in the cluster");
    let mut old = Widget::crd();
    let schema = old.spec.versions[0].schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
    let status = schema.and_then(|schema| schema.properties.as_mut()?.get_mut("status")?.properties.as_mut());
    status.unwrap().remove("note");
    env.install(&old).await?;
    let findings = operator.doctor(&env.client()).await?;
    assert!(findings[0].problem.ends_with("status.note would be dropped silently"), "{findings:?}");
    operator.install_crds(&env.client()).await?;
    assert_eq!(operator.doctor(&env.client()).await?, []);
    // A user without roles is denied, in the operator's own namespace as well.
    let stranger = env.cluster().unwrap().client_as(User::service_account("default", "stranger"));
    let findings = operator.namespaces(["kube-public"]).doctor(&stranger).await?;
    for leases in [
        "not allowed: create leases.coordination.k8s.io in namespace default",
        "not allowed: get, update leases.coordination.k8s.io test in namespace default",
    ] {
        assert!(findings.iter().any(|finding| finding.problem == leases), "{findings:?}");
    }
    let api: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(env.client());
    assert_eq!(api.list(&Default::default()).await?.items.len(), 1);
    Ok(())
}
