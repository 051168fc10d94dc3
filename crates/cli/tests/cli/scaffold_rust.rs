//! A project created by `steer init --plugins rust` compiles without warnings and passes its own tests.
//!
//! Slow, since it builds all dependencies of an operator: `make test-scaffold` runs it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::wait::{Condition, await_condition};
use serde_json::json;
use steersman_cluster::{Cluster, User};

use crate::support::{Outcome, Steer, outcome};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs cargo in the project, with this repository's lock file and a separate target directory.
fn cargo(directory: &Path, arguments: &[&str]) -> Outcome {
    let target = root().join("target/scaffold");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("--offline").args(arguments).current_dir(directory).env("CARGO_TARGET_DIR", target);
    command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").stdin(Stdio::null());
    outcome(&mut command)
}

#[test]
#[ignore = "builds a whole operator: make test-scaffold"]
fn a_project_in_rust_compiles_and_passes_its_tests() {
    let steer = Steer::new();
    let directory = steer.path("cache-operator");
    std::fs::create_dir(&directory).unwrap();
    let run = |arguments: &[&str]| {
        outcome(steer.command(arguments).current_dir(&directory).stdin(Stdio::null())).success()
    };
    let said = run(&["init", "--plugins", "rust", "--domain", "example.com", "--owner", "The \"Owners\""]);
    assert!(said.contains("not published yet"), "{said}");
    run(&[
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1alpha1",
        "--kind",
        "Memcached",
        "--image",
        "memcached:1.6",
    ]);
    run(&[
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1",
        "--kind",
        "Memcached",
        "--image",
        "memcached:1.6",
    ]);
    run(&["create", "api", "--group", "cache", "--version", "v1", "--kind", "Type", "--namespaced=false"]);
    run(&["create", "webhook", "--version", "v1", "--kind", "Memcached", "--conversion"]);
    run(&[
        "create",
        "webhook",
        "--version",
        "v1alpha1",
        "--kind",
        "Memcached",
        "--defaulting",
        "--programmatic-validation",
    ]);
    std::fs::copy(root().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();

    let tested = cargo(&directory, &["test"]);
    assert_eq!(tested.code, 0, "{}{}", tested.stdout, tested.stderr);
    assert!(!tested.stderr.contains("warning"), "{}", tested.stderr);
    for test in [
        "an_object_becomes_available",
        "the_deployment_is_scaled_with_the_object",
        "conversion_loses_nothing",
    ] {
        assert!(tested.stdout.contains(&format!("{test} ... ok")), "{}", tested.stdout);
    }
    let crds = cargo(&directory, &["run", "--quiet", "--", "crds"]);
    assert_eq!(crds.code, 0, "{}", crds.stderr);
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn wait<K>(api: Api<K>, name: &str, is: impl Condition<K>, what: &str)
where
    K: Clone
        + std::fmt::Debug
        + Send
        + serde::de::DeserializeOwned
        + kube::Resource<DynamicType: Default + Clone>
        + 'static,
{
    let waited = tokio::time::timeout(Duration::from_secs(60), await_condition(api, name, is)).await;
    waited.unwrap_or_else(|_| panic!("{what}")).unwrap();
}

/// The lifecycle of a Rust project: init, create api, edit the type, run, apply, scale, delete.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds a whole operator: make test-scaffold"]
async fn an_operator_in_code_goes_the_whole_way() {
    let steer = Steer::new();
    let directory = steer.path("cache-operator");
    std::fs::create_dir(&directory).unwrap();
    let run = |arguments: &[&str]| {
        outcome(steer.command(arguments).current_dir(&directory).stdin(Stdio::null())).success()
    };
    run(&["init", "--plugins", "rust", "--domain", "example.com"]);
    run(&[
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1",
        "--kind",
        "Memcached",
        "--image",
        "memcached:1.6",
    ]);
    std::fs::copy(root().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();

    // A field added by the user, and a cleanup with a finalizer.
    let edit = |path: &str, from: &str, to: &str| {
        let path = directory.join(path);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{} has no {from}", path.display());
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    edit(
        "src/api/v1/memcached.rs",
        "    /// Container image of the pods.\n",
        "    /// A word to those who come after.\n    #[serde(default)]\n    pub farewell: Option<String>,\n    /// Container image of the pods.\n",
    );
    let controller = "src/controller/memcached.rs";
    edit(
        controller,
        ".owns::<Deployment>()",
        ".owns::<Deployment>().finalizer(\"cache.example.com/farewell\", say_farewell)",
    );
    edit(
        controller,
        "/// Reconciles the cluster",
        "/// Leaves the object's word behind.\nasync fn say_farewell(object: Arc<Memcached>, ctx: Context) -> Result<Action> {\n    let word = object.spec.farewell.clone().unwrap_or_default();\n    let map = serde_json::from_value::<k8s_openapi::api::core::v1::ConfigMap>(json!({\"metadata\": {\"name\": \"farewell\"}, \"data\": {\"word\": word}}));\n    ctx.apply_unowned(map.map_err(Error::other)?).await?;\n    Ok(Action::await_change())\n}\n\n/// Reconciles the cluster",
    );
    edit(
        "src/lib.rs",
        "    // +kubebuilder:scaffold:builder",
        "        .permission(\"\", [\"configmaps\"], [\"create\", \"get\", \"list\", \"patch\", \"watch\"])\n    // +kubebuilder:scaffold:builder",
    );

    // `make manifests`, with this repository's lock file.
    let target = root().join("target/scaffold");
    let cluster = Cluster::builder().listen((Ipv4Addr::LOCALHOST, 0).into()).start().await.unwrap();
    steer.write("kubeconfig", cluster.kubeconfig().unwrap());
    let make = async |arguments: &[&str]| {
        let mut command = Command::new("make");
        command
            .args(arguments)
            .arg(format!("STEER={}", env!("CARGO_BIN_EXE_steer")))
            .arg("CARGO=cargo --offline");
        command
            .current_dir(&directory)
            .env("CARGO_TARGET_DIR", &target)
            .env("KUBECONFIG", steer.path("kubeconfig"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").stdin(Stdio::null());
        tokio::task::spawn_blocking(move || outcome(&mut command)).await.unwrap()
    };
    let made = make(&["manifests"]).await;
    assert_eq!(made.code, 0, "{}{}", made.stdout, made.stderr);
    let crd = std::fs::read_to_string(directory.join("config/crd/bases/cache-operator.yaml")).unwrap();
    assert!(crd.contains("A word to those who come after."), "{crd}");
    let formatted = make(&["fmt"]).await;
    assert_eq!(formatted.code, 0, "{}{}", formatted.stdout, formatted.stderr);
    let deployed = make(&["deploy", "IMG=example.com/cache:v1"]).await;
    assert_eq!(deployed.code, 0, "{}{}", deployed.stdout, deployed.stderr);

    // The pods of this cluster are simulated, so the operator runs as a process with its pod's service account.
    let account = User::service_account("cache-operator-system", "cache-operator");
    steer.write("operator.kubeconfig", cluster.kubeconfig_as(account).unwrap());
    let mut operator = Command::new(target.join("debug/cache-operator"));
    operator.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    operator.env("KUBECONFIG", steer.path("operator.kubeconfig")).stdout(Stdio::null()).stderr(Stdio::null());
    let operator = Running(operator.spawn().unwrap());

    let client = cluster.client();
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("cache.example.com", "v1", "Memcached"),
        "memcacheds",
    );
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let sample = std::fs::read_to_string(directory.join("config/samples/cache_v1_memcached.yaml")).unwrap();
    let mut sample: serde_json::Value = steersman_yaml::from_str(&sample).unwrap();
    sample["spec"]["farewell"] = "so long".into();
    objects.patch("memcached-sample", &PatchParams::apply("test"), &Patch::Apply(&sample)).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let has = |replicas: i32| {
        move |found: Option<&Deployment>| {
            found.and_then(|found| found.status.as_ref()?.available_replicas) == Some(replicas)
        }
    };
    wait(deployments.clone(), "memcached-sample", has(1), "the sample has its pod").await;
    let scale = Patch::Merge(json!({"spec": {"size": 3}}));
    objects.patch("memcached-sample", &PatchParams::default(), &scale).await.unwrap();
    wait(deployments.clone(), "memcached-sample", has(3), "the sample is scaled").await;

    let held = objects.get("memcached-sample").await.unwrap();
    assert_eq!(held.metadata.finalizers.as_deref(), Some(&["cache.example.com/farewell".to_owned()][..]));
    objects.delete("memcached-sample", &DeleteParams::default()).await.unwrap();
    wait(
        deployments,
        "memcached-sample",
        |found: Option<&Deployment>| found.is_none(),
        "the deployment is gone",
    )
    .await;
    let left = Api::<ConfigMap>::namespaced(client, "default").get("farewell").await.unwrap();
    assert_eq!(left.data.unwrap()["word"], "so long");
    let undeployed = make(&["undeploy"]).await;
    assert_eq!(undeployed.code, 0, "{}{}", undeployed.stdout, undeployed.stderr);
    drop(operator);
}
