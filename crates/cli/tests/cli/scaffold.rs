//! Scaffolding as users do it: `steer init`, `steer create api`, `steer edit`, then `steer dev`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, WatchEvent, WatchParams,
};
use serde_json::Value;
use steersman_cluster::{Cluster, User};

use crate::support::pack;
use crate::support::project::{OPERATOR_SDK, Place, copy, minimart, root};

/// Two commands from an empty directory to a ready sample, with only the generated role.
#[test]
fn a_chart_becomes_an_operator() {
    let place = Place::new("minimart-operator");
    let said = place
        .run(&["init", "--plugins", "helm", "--domain", "example.com", "--helm-chart", &minimart()])
        .success();
    assert!(said.contains("created  helm-charts/minimart ("), "{said}");
    assert!(said.ends_with("\nNext: steer dev .\n"), "{said}");

    let project = place.yaml("PROJECT");
    assert_eq!(project["layout"], serde_json::json!(["helm.sdk.operatorframework.io/v1"]));
    assert_eq!(project["projectName"], "minimart-operator");
    assert_eq!(project["plugins"]["scaffold.steersman.dev/v1"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(project["resources"][0]["kind"], "Minimart");
    let watches = place.read("watches.yaml");
    assert!(watches.contains("- group: charts.example.com\n  version: v1alpha1\n  kind: Minimart\n  chart: helm-charts/minimart\n# +kubebuilder:scaffold:watch\n"), "{watches}");
    let crd = place.yaml("config/crd/bases/charts.example.com_minimarts.yaml");
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["replicaCount"]["minimum"], 0);
    let sample = place.read("config/samples/charts_v1alpha1_minimart.yaml");
    assert!(sample.contains("name: minimart-sample\n"), "{sample}");

    let said = place.run(&["dev", ".", "--until-ready", "-o", "json"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains(r#""object":"Minimart/minimart-sample""#), "{}", said.stdout);
    assert!(!said.stdout.contains("\"denied\""), "{}", said.stdout);
}

#[test]
fn charts_come_from_archives_too() {
    let place = Place::new("shop");
    place.steer.write("minimart-0.1.0.tgz", pack(Path::new(&minimart())));
    place
        .run(&["init", "--plugins=helm.sdk.operatorframework.io/v1", "--helm-chart=../minimart-0.1.0.tgz"])
        .success();
    assert!(place.directory.join("helm-charts/minimart/Chart.yaml").exists());
    assert_eq!(place.yaml("PROJECT")["domain"], "my.domain");
}

#[test]
fn running_a_command_twice_changes_nothing() {
    let place = Place::new("shop");
    let init = ["init", "--plugins", "helm", "--domain", "example.com", "--helm-chart", &minimart()];
    let api = [
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
    ];
    let edit = ["edit", "--namespaced", "--multigroup"];
    for command in [&init[..], &api, &edit] {
        place.run(command).success();
        let files = place.files();
        let said = place.run(command).success();
        assert!(said.contains("nothing to do"), "{said}");
        assert!(place.files() == files, "{command:?} changed something the second time");
    }
}

#[test]
fn what_was_edited_stays() {
    let place = Place::new("shop");
    let init = ["init", "--plugins", "helm", "--helm-chart", &minimart()];
    place.run(&init).success();
    let edited = [
        "Makefile",
        "config/rbac/role.yaml",
        "config/manager/manager.yaml",
        "config/crd/bases/charts.my.domain_minimarts.yaml",
        "config/samples/charts_v1alpha1_minimart.yaml",
        "helm-charts/minimart/values.yaml",
    ];
    for path in edited {
        let text = place.read(path);
        place.write(path, &format!("{text}# mine\n"));
    }
    let said = place.run(&init).success();
    assert!(said.contains("kept     Makefile: it was edited\n"), "{said}");
    let said = place.run(&["edit", "--namespaced"]).success();
    assert!(said.contains("kept     config/manager/manager.yaml"), "{said}");
    for path in edited {
        assert!(place.read(path).contains("# mine\n"), "{path}");
    }
    assert!(
        place
            .read("config/rbac/role.yaml")
            .starts_with("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n")
    );
}

#[test]
fn kinds_are_added_to_what_is_there() {
    let place = Place::new("shop");
    place.run(&["init", "--plugins", "helm", "--domain", "example.com"]).success();
    place.run(&["create", "api", "--helm-chart", &minimart()]).success();
    place
        .run(&[
            "create",
            "api",
            "--group",
            "cache",
            "--version",
            "v1",
            "--kind",
            "Memcached",
            "--plural",
            "caches",
            "--namespaced=false",
        ])
        .success();
    let crd = place.yaml("config/crd/bases/cache.example.com_caches.yaml");
    assert_eq!(crd["spec"]["scope"], "Cluster");
    let role = place.read("config/rbac/role.yaml");
    for heading in ["charts.example.com/v1alpha1, Kind: Minimart", "cache.example.com/v1, Kind: Memcached"] {
        assert_eq!(role.matches(&format!("## Rules for {heading}\n")).count(), 1, "{role}");
    }
    let kinds = place.yaml("config/crd/kustomization.yaml");
    assert_eq!(kinds["resources"].as_array().unwrap().len(), 2);
    let watches = place.yaml("watches.yaml");
    assert_eq!(watches[1]["chart"], "helm-charts/memcached");
    assert_eq!(place.yaml("PROJECT")["resources"][1]["plural"], "caches");
    for role in ["admin", "editor", "viewer"] {
        assert!(place.directory.join(format!("config/rbac/memcached_{role}_role.yaml")).exists());
    }
    // After the chart has changed, --force regenerates what is derived from it.
    place.write(
        "helm-charts/memcached/templates/extra.yaml",
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\n",
    );
    let again = [
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1",
        "--kind",
        "Memcached",
        "--plural",
        "caches",
        "--namespaced=false",
    ];
    assert!(place.run(&again).success().contains("nothing to do"));
    let forced: Vec<&str> = again.iter().copied().chain(["--force"]).collect();
    place.run(&forced).success();
    let role = place.read("config/rbac/role.yaml");
    assert!(role.contains("- cronjobs\n"), "{role}");
    assert_eq!(role.matches("Kind: Memcached\n").count(), 1, "{role}");
}

/// The starter chart, in one namespace alone.
#[test]
fn an_operator_works_in_one_namespace() {
    let place = Place::new("web");
    place
        .run(&[
            "init",
            "--plugins",
            "helm",
            "--domain",
            "example.com",
            "--namespaced",
            "--group",
            "web",
            "--version",
            "v1",
            "--kind",
            "Site",
        ])
        .success();
    assert_eq!(place.yaml("config/rbac/role.yaml")["kind"], "Role");
    assert!(place.read("config/manager/manager.yaml").contains("WATCH_NAMESPACE"));
    assert!(!place.directory.join("config/rbac/cluster_role.yaml").exists());
    let said = place.run(&["dev", ".", "--until-ready", "-o", "json"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(!said.stdout.contains("\"denied\""), "{}", said.stdout);
}

#[test]
fn bad_input_is_named() {
    let place = Place::new("shop");
    let refused = |arguments: &[&str], words: &[&str]| {
        let said = place.run(arguments).failure();
        for word in words {
            assert!(said.contains(word), "{arguments:?}: {said}");
        }
        assert!(place.files().is_empty(), "{arguments:?} wrote something");
    };
    refused(&["init"], &["--plugins is required"]);
    refused(&["init", "--plugins", "python"], &["unknown plugin \"python\"", "helm, rust and ansible"]);
    refused(
        &["init", "--plugins", "go.kubebuilder.io/v4"],
        &["Go projects are not scaffolded", "--plugins rust"],
    );
    refused(
        &["init", "--plugins", "helm", "--domain", "Example.com"],
        &["--domain \"Example.com\" is not valid"],
    );
    refused(
        &["init", "--plugins", "helm", "--project-name", "My_Shop"],
        &["--project-name \"My_Shop\" is not valid"],
    );
    refused(&["init", "--plugins", "helm", "--kind", "Shop"], &["--group is required"]);
    let api = ["init", "--plugins", "helm", "--domain", "example.com"];
    let with = |group: &str, version: &str, kind: &str| {
        let flags = ["--group", group, "--version", version, "--kind", kind];
        api.iter().copied().chain(flags).map(str::to_owned).collect::<Vec<_>>()
    };
    for (group, version, kind, word) in [
        ("Web", "v1", "Site", "--group \"Web\""),
        ("web", "1", "Site", "--version \"1\""),
        ("web", "v1", "site", "--kind \"site\""),
        ("web", "v1", "My-Site", "--kind \"My-Site\""),
    ] {
        let words = with(group, version, kind);
        refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[word, "is not valid"]);
    }
    refused(
        &["init", "--plugins", "helm", "--domain", "k8s.io", "--helm-chart", &minimart()],
        &["reserved for Kubernetes"],
    );
    refused(&["init", "--plugins", "helm", "--helm-chart", "./nowhere"], &["\"./nowhere\" not found"]);
    refused(
        &["create", "api", "--group", "web", "--version", "v1", "--kind", "Site"],
        &["has no PROJECT file", "steer init"],
    );
    refused(&["edit", "--multigroup"], &["has no PROJECT file"]);

    place.write("main.go", "package main\n");
    let said = place.run(&["init", "--plugins", "helm"]).failure();
    assert!(said.contains("is not empty: it has main.go"), "{said}");
}

/// A project as operator-sdk lays it out, written by hand.
#[test]
fn a_project_of_operator_sdk_runs_unchanged() {
    let place = Place::new("nginx-operator");
    for (path, text) in OPERATOR_SDK {
        place.write(path, text);
    }
    copy(&root().join("examples/nginx/helm-charts/nginx"), &place.directory.join("helm-charts/nginx"));
    let files = place.files();
    let said = place.run(&["dev", ".", "--until-ready", "-o", "json"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    // Its role only covers events of the older group.
    let denied = said.stdout.lines().filter(|line| line.contains("\"denied\""));
    let denied: Vec<&str> = denied.filter(|line| !line.contains("events.events.k8s.io")).collect();
    assert!(denied.is_empty(), "{denied:#?}");
    assert!(place.files() == files);
    // And takes a second kind.
    let said = place.run(&["create", "api", "--helm-chart", &minimart()]).success();
    assert!(said.contains("updated  watches.yaml\n"), "{said}");
    assert!(place.read("PROJECT").contains("cliVersion: 1.42.3\n"));
}

/// The same under `steer run helm`, as a process with the account of the project.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_of_operator_sdk_is_run_by_its_account() {
    run_by_its_account(false).await;
}

/// The same after `steer update`.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_was_updated_is_run_by_its_account() {
    run_by_its_account(true).await;
}

async fn run_by_its_account(is_updated: bool) {
    let place = Place::new("nginx-operator");
    for (path, text) in OPERATOR_SDK {
        place.write(path, text);
    }
    copy(&root().join("examples/nginx/helm-charts/nginx"), &place.directory.join("helm-charts/nginx"));
    if is_updated {
        place.run(&["update"]).success();
    }
    let cluster = Cluster::builder().listen((Ipv4Addr::LOCALHOST, 0).into()).start().await.unwrap();
    let client = cluster.client();
    let namespace =
        serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}});
    apply(&client, "namespaces", namespace).await;
    for (plural, path) in [
        ("customresourcedefinitions", "config/crd/bases/demo.example.com_nginxes.yaml"),
        ("serviceaccounts", "config/rbac/service_account.yaml"),
        ("clusterroles", "config/rbac/role.yaml"),
        ("clusterrolebindings", "config/rbac/role_binding.yaml"),
    ] {
        apply(&client, plural, place.yaml(path)).await;
    }
    let account = User::service_account("system", "controller-manager");
    place.write("kubeconfig", &cluster.kubeconfig_as(account).unwrap());
    let mut command =
        place.steer.command(&["run", "helm", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command
        .current_dir(&place.directory)
        .env("KUBECONFIG", "kubeconfig")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut operator = command.spawn().unwrap();

    let objects = apply(&client, "nginxes", place.yaml("config/samples/demo_v1alpha1_nginx.yaml")).await;
    let mut events = objects.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let ready = async {
        loop {
            let Some(event) = events.next().await else { panic!("the watch ended") };
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event.unwrap() else { continue };
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True") {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), ready).await;
    operator.kill().unwrap();
    operator.wait().unwrap();
    waited.unwrap();
}

async fn apply(client: &Client, plural: &str, object: Value) -> Api<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    let is_namespaced = matches!(plural, "serviceaccounts" | "nginxes");
    let api: Api<DynamicObject> = match (&object.metadata.namespace, is_namespaced) {
        (Some(namespace), _) => Api::namespaced_with(client.clone(), namespace, &resource),
        (None, true) => Api::namespaced_with(client.clone(), "default", &resource),
        (None, false) => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply("test").force();
    api.patch(object.metadata.name.as_deref().unwrap(), &params, &Patch::Apply(&object)).await.unwrap();
    api
}

/// Number of tested charts, and how many of them must install.
const CHARTS: usize = 20;
const INSTALLED: usize = 18;

/// The first chart of each publisher, in the order of their names.
fn shared_charts() -> Vec<PathBuf> {
    let shared = std::env::var_os("STEERSMAN_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let directory = shared.join("charts");
    let Ok(entries) = fs::read_dir(&directory) else {
        eprintln!("SKIPPED: no charts in {}; set STEERSMAN_SHARED", directory.display());
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("__"))
        .collect();
    names.sort();
    names.dedup_by_key(|name| name.split('_').next().unwrap_or_default().to_owned());
    let only = std::env::var("STEERSMAN_ONLY").unwrap_or_default();
    let count = std::env::var("STEERSMAN_CHARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(CHARTS);
    let names = names.into_iter().filter(|name| name.contains(&only)).take(count);
    names.map(|name| directory.join(name).join("chart")).collect()
}

/// Scaffolds an operator from a chart and installs its sample; the error describes a failure.
fn install(chart: &Path) -> Result<(), String> {
    let place = Place::new("operator");
    let chart = chart.display().to_string();
    let init = place.run(&["init", "--plugins", "helm", "--domain", "example.com", "--helm-chart", &chart]);
    if init.code != 0 {
        return Err(format!("init: {}", init.stderr));
    }
    let kind = place.yaml("PROJECT")["resources"][0]["kind"].as_str().unwrap().to_owned();
    let sample = format!("{kind}/{}-sample", kind.to_lowercase());
    let mut command = place.steer.command(&["dev", ".", "--until-ready", "--timeout", "60s", "-o", "json"]);
    let mut child = command
        .current_dir(&place.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    let mut installed = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
        let text = |key: &str| said[key].as_str().unwrap_or_default();
        if text("object") == sample && said["event"].is_null() {
            // Whether all workloads become ready depends on the chart.
            installed = text("state") == "Ready"
                || (text("state") == "NotReady" && text("detail").starts_with("WorkloadsNotReady"));
        }
        seen.push(line);
        if installed {
            break;
        }
    }
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    let denied: Vec<&String> = seen.iter().filter(|line| line.contains("\"denied\"")).collect();
    if !installed || !denied.is_empty() {
        let last: Vec<&String> = seen.iter().rev().take(4).collect();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("denied {denied:#?}\nlast {last:#?}\n{stderr}"));
    }
    Ok(())
}

#[test]
fn charts_of_others_become_operators() {
    let charts = shared_charts();
    if charts.is_empty() {
        return;
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(chart) = charts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = install(chart);
                    let name =
                        chart.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
                    match result {
                        Ok(()) => eprintln!("{name}: installed"),
                        Err(why) => {
                            eprintln!("{name}: {why}");
                            failed.lock().unwrap().push(name);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    eprintln!(
        "{} of {} charts installed under the generated role",
        charts.len() - failed.len(),
        charts.len()
    );
    assert!(failed.len() <= CHARTS - INSTALLED, "{failed:?}");
}
