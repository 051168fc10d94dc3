//! `steer doctor`: problems are reported with the command that fixes them.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use steersman_cluster::{Cluster, User};

use crate::support::{Outcome, Steer, outcome};

struct Stage {
    steer: Steer,
    directory: PathBuf,
    cluster: Cluster,
}

impl Stage {
    /// Starts a cluster whose clock is an hour behind, so that deletions there appear to be an hour old.
    async fn start() -> Self {
        let steer = Steer::new();
        let directory = steer.path("shop-operator");
        fs::create_dir(&directory).unwrap();
        let before = Timestamp::now() - SignedDuration::from_hours(1);
        let cluster = Cluster::builder()
            .listen((Ipv4Addr::LOCALHOST, 0).into())
            .starting_at(before)
            .start()
            .await
            .unwrap();
        steer.write("kubeconfig", cluster.kubeconfig().unwrap());
        let stage = Self { steer, directory, cluster };
        let chart =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimart/helm-charts/minimart");
        let chart = chart.display().to_string();
        stage
            .run(&["init", "--plugins", "helm", "--domain", "example.com", "--helm-chart", &chart])
            .await
            .success();
        stage
    }

    async fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.steer.command(arguments);
        command
            .current_dir(&self.directory)
            .env("KUBECONFIG", self.steer.path("kubeconfig"))
            .stdin(Stdio::null());
        tokio::task::spawn_blocking(move || outcome(&mut command)).await.unwrap()
    }

    /// Returns the problems and the commands that fix them.
    async fn findings(&self) -> Vec<(String, String)> {
        let said = self.run(&["doctor", "-o", "json"]).await;
        let all: Value = serde_json::from_str(&said.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", said.stdout, said.stderr));
        let wrong: Vec<(String, String)> = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["state"] == "problem")
            .map(|finding| {
                (finding["message"].as_str().unwrap().into(), finding["fix"].as_str().unwrap().into())
            })
            .collect();
        assert_eq!(said.code != 0, !wrong.is_empty());
        wrong
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_comes_with_what_mends_it() {
    let stage = Stage::start().await;
    assert_eq!(
        stage.findings().await,
        [("minimarts.charts.example.com is not in the cluster".into(), "steer deploy --crds-only".into())]
    );
    // A definition without preserve-unknown-fields prunes unknown fields.
    let path = stage.directory.join("config/crd/bases/charts.example.com_minimarts.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let closed: String = text
        .lines()
        .filter(|line| !line.contains("preserve-unknown-fields"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&path, closed).unwrap();
    stage.run(&["deploy", "--crds-only"]).await.success();
    assert_eq!(stage.findings().await, []);
    let text = stage.run(&["doctor"]).await.success();
    assert!(
        text.contains(" ✓ definitions  minimarts.charts.example.com is as the project has it\n"),
        "{text}"
    );

    // A field that is missing in the cluster's definition.
    let known = fs::read_to_string(&path).unwrap();
    let newer = known.replacen(
        "              replicaCount:\n",
        "              newField:\n                type: string\n              replicaCount:\n",
        1,
    );
    assert_ne!(known, newer);
    fs::write(&path, newer).unwrap();
    let found = stage.findings().await;
    assert!(
        found[0].0.ends_with("is older than the project's: spec.newField would be dropped silently"),
        "{found:?}"
    );
    fs::write(&path, known).unwrap();

    // An object whose finalizer is never removed, and a release whose object is deleted.
    let kind = GroupVersionKind::gvk("charts.example.com", "v1alpha1", "Minimart");
    let resource = ApiResource::from_gvk_with_plural(&kind, "minimarts");
    let objects: Api<DynamicObject> = Api::namespaced_with(stage.cluster.client(), "default", &resource);
    let mut object = DynamicObject::new("held", &resource);
    object.metadata.finalizers = Some(vec!["example.com/held".into()]);
    objects.create(&PostParams::default(), &object).await.unwrap();
    objects.delete("held", &DeleteParams::default()).await.unwrap();
    let record: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": "sh.helm.release.v1.gone.v1", "finalizers": ["example.com/kept"],
            "labels": {"owner": "helm", "name": "gone", "status": "deployed", "version": "1"},
            "ownerReferences": [{"apiVersion": "charts.example.com/v1alpha1", "kind": "Minimart", "name": "gone", "uid": "1"}],
        },
        "type": "helm.sh/release.v1",
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client(), "default");
    secrets.create(&PostParams::default(), &record).await.unwrap();
    assert_eq!(
        stage.findings().await,
        [
            (
                "Minimart held -n default waits for example.com/held: does the operator run?".into(),
                "kubectl patch minimarts.charts.example.com held -n default --type=merge -p '{\"metadata\":{\"finalizers\":null}}'".into()
            ),
            (
                "release gone in namespace default is orphaned: its Minimart gone no longer exists".into(),
                "steer uninstall gone -n default".into()
            ),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_and_clusters_that_are_missing_are_named() {
    let stage = Stage::start().await;
    let stranger = User::service_account("default", "stranger");
    stage.steer.write("kubeconfig", stage.cluster.kubeconfig_as(stranger).unwrap());
    let said = stage.run(&["doctor", "-o", "yaml"]).await.success();
    assert!(said.contains("not allowed to create"), "{said}");
    stage.steer.write("kubeconfig", "nonsense");
    let said = stage.run(&["doctor"]).await;
    assert!(
        said.stdout.contains(" ✗ kubeconfig ") && said.stdout.contains("fix: steer cluster"),
        "{}",
        said.stdout
    );
    said.failure();
}

/// Definitions and roles are regenerated from charts, and edited files are kept unless forced.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_roles_follow_the_charts() {
    let stage = Stage::start().await;
    assert!(stage.run(&["generate", "crds"]).await.success().contains("nothing to do"));
    assert!(stage.run(&["generate", "rbac"]).await.success().contains("nothing to do"));
    let chart = stage.directory.join("helm-charts/minimart");
    let values = fs::read_to_string(chart.join("values.yaml")).unwrap();
    fs::write(chart.join("values.yaml"), format!("{values}\n# A new value.\nbrandNew: 3\n")).unwrap();
    let _ = fs::remove_file(chart.join("values.schema.json"));
    fs::write(chart.join("templates/job.yaml"), "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\n")
        .unwrap();
    let said = stage.run(&["generate", "crds"]).await.success();
    assert!(
        said.contains("kept     config/crd/bases/charts.example.com_minimarts.yaml: it was edited"),
        "{said}"
    );
    stage.run(&["generate", "crds", "--force"]).await.success();
    stage.run(&["generate", "rbac", "--force"]).await.success();
    let read = |path: &str| fs::read_to_string(stage.directory.join(path)).unwrap();
    assert!(read("config/crd/bases/charts.example.com_minimarts.yaml").contains("brandNew:"));
    let role = read("config/rbac/role.yaml");
    assert!(role.contains("- cronjobs\n"), "{role}");
    assert_eq!(role.matches("Kind: Minimart\n").count(), 1);
    let said = stage.run(&["generate", "installer", "--image", "example.com/shop:v1"]).await.success();
    assert!(said.contains("created  ./dist/install.yaml"), "{said}");
    assert!(read("dist/install.yaml").contains("image: example.com/shop:v1\n"));
    let failed = stage.run(&["generate", "webhooks"]).await.failure();
    assert!(failed.contains("a Helm project has no webhooks"), "{failed}");
}
