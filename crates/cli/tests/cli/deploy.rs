//! `steer deploy`, `steer undeploy` and `steer generate chart` on the embedded cluster, with RBAC enforced.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::wait::await_condition;
use kube::{Client, Config};
use serde_json::{Value, json};
use steersman_cluster::{Builder, Cluster, User};

use crate::support::{Outcome, Steer};

/// A project in its own directory, and a cluster for its commands.
struct Stage {
    steer: Steer,
    directory: PathBuf,
    cluster: Cluster,
}

impl Stage {
    async fn start(builder: Builder) -> Self {
        let steer = Steer::new();
        let directory = steer.path("shop-operator");
        fs::create_dir(&directory).unwrap();
        let cluster = builder.listen((Ipv4Addr::LOCALHOST, 0).into()).start().await.unwrap();
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

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.steer.command(arguments);
        command
            .current_dir(&self.directory)
            .env("KUBECONFIG", self.steer.path("kubeconfig"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program while the cluster keeps running.
    async fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || crate::support::outcome(&mut command)).await.unwrap()
    }

    /// Runs make in the project, with this build as `steer`.
    async fn make(&self, arguments: &[&str]) -> Outcome {
        let mut command = std::process::Command::new("make");
        command
            .args(arguments)
            .arg(format!("STEER={}", env!("CARGO_BIN_EXE_steer")))
            .current_dir(&self.directory);
        command.env("KUBECONFIG", self.steer.path("kubeconfig")).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || crate::support::outcome(&mut command)).await.unwrap()
    }

    fn client(&self) -> Client {
        self.cluster.client()
    }

    fn edit(&self, path: &str, change: impl FnOnce(String) -> String) {
        let path = self.directory.join(path);
        let text = change(fs::read_to_string(&path).unwrap());
        fs::write(path, text).unwrap();
    }

    fn minimarts(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("charts.example.com", "v1alpha1", "Minimart");
        Api::namespaced_with(self.client(), "default", &ApiResource::from_gvk_with_plural(&kind, "minimarts"))
    }
}

const NAMESPACE: &str = "shop-operator-system";
const CRD: &str = "minimarts.charts.example.com";

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_applied_pruned_and_removed() {
    let stage = Stage::start(Cluster::builder()).await;
    let done = stage.run(&["deploy", "--image", "example.com/shop:v1"]).await;
    assert!(
        done.stderr.contains("created   Deployment/shop-operator-controller-manager in namespace"),
        "{}",
        done.stderr
    );
    let said = done.success();
    assert!(said.ends_with(" objects ready in namespace shop-operator-system\n"), "{said}");
    let deployments: Api<Deployment> = Api::namespaced(stage.client(), NAMESPACE);
    let live = json!(deployments.get("shop-operator-controller-manager").await.unwrap());
    assert_eq!(live.pointer("/spec/template/spec/containers/0/image").unwrap(), "example.com/shop:v1");
    assert_eq!(live.pointer("/status/availableReplicas").unwrap(), 1);

    // A second run changes nothing.
    let again = stage.run(&["deploy", "--image", "example.com/shop:v1"]).await;
    assert!(!again.stderr.contains("created") && !again.stderr.contains("changed  "), "{}", again.stderr);
    again.success();

    // Only objects removed from the project are pruned.
    let maps: Api<ConfigMap> = Api::namespaced(stage.client(), NAMESPACE);
    let foreign: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "foreign"}})).unwrap();
    maps.create(&PostParams::default(), &foreign).await.unwrap();
    let extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: system}\n";
    fs::write(stage.directory.join("config/manager/extra.yaml"), extra).unwrap();
    stage.edit("config/manager/kustomization.yaml", |text| format!("{text}- extra.yaml\n"));
    stage.run(&["deploy"]).await.success();
    assert!(maps.get_opt("shop-operator-extra").await.unwrap().is_some());
    stage.edit("config/manager/kustomization.yaml", |text| text.replace("- extra.yaml\n", ""));
    let pruned = stage.run(&["deploy"]).await;
    assert!(
        pruned.stderr.contains(" deleted   ConfigMap/shop-operator-extra in namespace"),
        "{}",
        pruned.stderr
    );
    pruned.success();
    assert!(maps.get_opt("shop-operator-extra").await.unwrap().is_none());
    assert!(maps.get_opt("foreign").await.unwrap().is_some());

    let said = stage.run(&["undeploy"]).await.success();
    assert!(said.ends_with(" objects deleted\n"), "{said}");
    assert!(Api::<Namespace>::all(stage.client()).get_opt(NAMESPACE).await.unwrap().is_none());
    assert!(Api::<CustomResourceDefinition>::all(stage.client()).get_opt(CRD).await.unwrap().is_none());
    let roles = Api::<ClusterRole>::all(stage.client()).list(&ListParams::default()).await.unwrap();
    assert!(roles.iter().all(|role| !role.metadata.name.as_deref().unwrap().starts_with("shop-operator")));
    let said = stage.run(&["undeploy"]).await.success();
    assert_eq!(said, "shop-operator: 0 objects deleted\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_may_be_large() {
    let stage = Stage::start(Cluster::builder().workloads(false)).await;
    let path = "config/crd/bases/charts.example.com_minimarts.yaml";
    stage.edit(path, |text| {
        let long = "x".repeat(400 << 10);
        text.replacen("description: Minimart is", &format!("description: {long} is"), 1)
    });
    assert!(fs::metadata(stage.directory.join(path)).unwrap().len() > 400 << 10);
    let said = stage.run(&["deploy", "--crds-only"]).await.success();
    assert_eq!(said, "1 definitions ready\n");
    let live = Api::<CustomResourceDefinition>::all(stage.client()).get(CRD).await.unwrap();
    assert!(json!(live).to_string().len() > 400 << 10);
    stage.run(&["undeploy", "--crds-only"]).await.success();
    assert!(Api::<CustomResourceDefinition>::all(stage.client()).get_opt(CRD).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_it_waits_for() {
    let stage = Stage::start(Cluster::builder().missing_image("nowhere.example.com/shop:v1")).await;
    let failed =
        stage.run(&["deploy", "--image", "nowhere.example.com/shop:v1", "--timeout", "2s"]).await.failure();
    for word in ["Deployment/shop-operator-controller-manager", "ErrImagePull"] {
        assert!(failed.contains(word), "{failed}");
    }
    // An object whose finalizer is never removed blocks the deletion of its definition.
    let mut minimart = DynamicObject::new(
        "held",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("charts.example.com", "v1alpha1", "Minimart")),
    );
    minimart.metadata.finalizers = Some(vec!["example.com/held".into()]);
    stage.minimarts().create(&PostParams::default(), &minimart).await.unwrap();
    let failed = stage.run(&["undeploy", "--timeout", "2s"]).await.failure();
    assert!(
        failed.contains("Minimart/held in namespace default waits for its finalizer example.com/held"),
        "{failed}"
    );
    assert!(failed.contains("\"finalizers\":null"), "{failed}");
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    stage.minimarts().patch("held", &PatchParams::default(), &patch).await.unwrap();
    stage.run(&["undeploy"]).await.success();
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_others_are_taken_over_only_if_asked() {
    let stage = Stage::start(Cluster::builder()).await;
    stage.run(&["deploy"]).await.success();
    let deployments: Api<Deployment> = Api::namespaced(stage.client(), NAMESPACE);
    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop-operator-controller-manager"}, "spec": {"replicas": 3}});
    deployments
        .patch(
            "shop-operator-controller-manager",
            &PatchParams::apply("someone").force(),
            &Patch::Apply(&scaled),
        )
        .await
        .unwrap();
    let failed = stage.run(&["deploy"]).await.failure();
    assert!(failed.contains(".spec.replicas") && failed.contains("--force-conflicts"), "{failed}");
    stage.run(&["deploy", "--force-conflicts"]).await.success();
    let live = deployments.get("shop-operator-controller-manager").await.unwrap();
    assert_eq!(live.spec.unwrap().replicas, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_installed_by_helm() {
    let stage = Stage::start(Cluster::builder()).await;
    let said =
        stage.run(&["generate", "chart", "--image", "example.com/shop:v1", "--chart-version", "1.2.0"]).await;
    assert!(said.success().contains("created  dist/chart/Chart.yaml\n"));
    stage.run(&["lint", "dist/chart", "--strict"]).await.success();
    stage
        .run(&[
            "install",
            "shop",
            "dist/chart",
            "-n",
            "shop",
            "--create-namespace",
            "--set",
            "replicas=2",
            "--wait",
        ])
        .await
        .success();
    let deployments: Api<Deployment> = Api::namespaced(stage.client(), "shop");
    let live = json!(deployments.get("shop-operator-controller-manager").await.unwrap());
    assert_eq!(live.pointer("/spec/template/spec/containers/0/image").unwrap(), "example.com/shop:v1");
    assert_eq!(live.pointer("/status/availableReplicas").unwrap(), 2);
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.client());
    let binding = bindings.get("shop-operator-manager-rolebinding").await.unwrap();
    assert_eq!(binding.subjects.unwrap()[0].namespace.as_deref(), Some("shop"));

    // Edits of the values are kept, the templates are regenerated.
    stage.edit("dist/chart/values.yaml", |text| text.replace("replicas: 1", "replicas: 3"));
    let said = stage.run(&["generate", "chart", "--chart-version", "1.3.0"]).await.success();
    assert!(said.contains("updated  dist/chart/Chart.yaml\n"), "{said}");
    assert!(said.contains("kept     dist/chart/values.yaml: it was edited\n"), "{said}");

    // The definitions, and with them all users' objects, outlive the release.
    stage.run(&["uninstall", "shop", "-n", "shop"]).await.success();
    assert!(Api::<CustomResourceDefinition>::all(stage.client()).get_opt(CRD).await.unwrap().is_some());
    assert!(deployments.get_opt("shop-operator-controller-manager").await.unwrap().is_none());
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Sends a request to one of the operator's servers, retrying until its port is open.
async fn ask(url: &str, path: &str, token: Option<&str>) -> Result<String, u16> {
    let mut config = Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = Client::try_from(config).unwrap();
    loop {
        match client.request_text(Request::get(path).body(Vec::new()).unwrap()).await {
            Ok(text) => return Ok(text),
            Err(kube::Error::Api(status)) => return Err(status.code),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The whole lifecycle of a chart project, from an empty directory to undeploy, with a user's commands.
#[tokio::test(flavor = "multi_thread")]
async fn a_chart_goes_the_whole_way() {
    let stage = Stage::start(Cluster::builder()).await;
    let installed = stage.make(&["install"]).await;
    assert!(installed.success().contains("1 definitions ready"));
    stage.make(&["deploy", "IMG=example.com/shop:v1"]).await.success();

    // The pods of this cluster are simulated, so the operator runs as a process with its pod's service account.
    let account = User::service_account(NAMESPACE, "shop-operator-controller-manager");
    stage.steer.write("operator.kubeconfig", stage.cluster.kubeconfig_as(account).unwrap());
    let (metrics, probes) = (free_port(), free_port());
    let mut command = stage.command(&[
        "run",
        "helm",
        "--metrics-secure",
        &format!("--metrics-bind-address={metrics}"),
        &format!("--health-probe-bind-address={probes}"),
    ]);
    command
        .env("KUBECONFIG", stage.steer.path("operator.kubeconfig"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let operator = Running(command.spawn().unwrap());

    let sample: Value = steersman_yaml::from_str(
        &fs::read_to_string(stage.directory.join("config/samples/charts_v1alpha1_minimart.yaml")).unwrap(),
    )
    .unwrap();
    let minimarts = stage.minimarts();
    minimarts.patch("minimart-sample", &PatchParams::apply("test"), &Patch::Apply(&sample)).await.unwrap();
    let is_ready = |object: Option<&DynamicObject>| {
        let conditions = object.and_then(|object| object.data.pointer("/status/conditions")?.as_array());
        conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let ready = await_condition(minimarts.clone(), "minimart-sample", is_ready);
    tokio::time::timeout(Duration::from_secs(120), ready).await.expect("the sample is ready").unwrap();

    // The release is listed.
    let releases = stage.run(&["list", "-o", "json"]).await.success();
    let releases: Value = serde_json::from_str(&releases).unwrap();
    assert_eq!(
        (&releases[0]["name"], &releases[0]["status"]),
        (&json!("minimart-sample"), &json!("deployed"))
    );
    Api::<Deployment>::namespaced(stage.client(), "default").get("minimart-sample").await.unwrap();
    Api::<Service>::namespaced(stage.client(), "default").get("minimart-sample").await.unwrap();

    // Probes need no authentication, metrics require authorization.
    assert_eq!(ask(&format!("http://{probes}"), "/readyz", None).await.as_deref(), Ok("ok"));
    let metrics = format!("https://{metrics}");
    assert_eq!(ask(&metrics, "/metrics", None).await, Err(401));
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client(), "default");
    let token = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let mut tokens = Vec::new();
    for name in ["stranger", "scraper"] {
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let made = accounts.create_token_request(name, &PostParams::default(), &token).await.unwrap();
        tokens.push(made.status.unwrap().token.unwrap());
    }
    assert_eq!(ask(&metrics, "/metrics", Some(&tokens[0])).await, Err(403));
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "shop-operator-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
    }))
    .unwrap();
    Api::all(stage.client()).create(&PostParams::default(), &binding).await.unwrap();
    let text = ask(&metrics, "/metrics", Some(&tokens[1])).await.unwrap();
    assert!(text.contains("controller_runtime_reconcile_total"), "{text}");

    // The operator handles its finalizers while its definition is being deleted, and then everything is gone.
    let undeployed = stage.make(&["undeploy"]).await;
    undeployed.success();
    drop(operator);
    assert!(Api::<CustomResourceDefinition>::all(stage.client()).get_opt(CRD).await.unwrap().is_none());
    assert!(Api::<Namespace>::all(stage.client()).get_opt(NAMESPACE).await.unwrap().is_none());
    let gone = await_condition(
        Api::<Deployment>::namespaced(stage.client(), "default"),
        "minimart-sample",
        |object: Option<&Deployment>| object.is_none(),
    );
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the release is gone").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_made_and_validated() {
    let stage = Stage::start(Cluster::builder().workloads(false)).await;
    stage.make(&["bundle", "IMG=example.com/shop:v1", "VERSION=1.2.3"]).await.success();
    let read = |path: &str| -> Value {
        steersman_yaml::from_str(&fs::read_to_string(stage.directory.join(path)).unwrap()).unwrap()
    };
    let csv = read("bundle/manifests/shop-operator.clusterserviceversion.yaml");
    assert_eq!(csv["metadata"]["name"], "shop-operator.v1.2.3");
    let install = &csv["spec"]["install"]["spec"];
    assert_eq!(
        install["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"],
        "example.com/shop:v1"
    );
    let account = &install["clusterPermissions"][0];
    assert_eq!(account["serviceAccountName"], "shop-operator-controller-manager");
    let rules = account["rules"].to_string();
    assert!(rules.contains("minimarts") && rules.contains("tokenreviews"), "{rules}");
    assert!(install["permissions"][0]["rules"].to_string().contains("leases"));
    let owned = &csv["spec"]["customresourcedefinitions"]["owned"][0];
    assert_eq!(owned["name"], CRD);
    assert!(owned["specDescriptors"].as_array().unwrap().iter().any(|one| one["path"] == "replicaCount"));
    let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
    assert!(examples.contains("minimart-sample"));
    assert_eq!(read("bundle/tests/scorecard/config.yaml")["kind"], "Configuration");
    let files: Vec<String> = fs::read_dir(stage.directory.join("bundle/manifests"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(files.iter().any(|file| file == "charts.example.com_minimarts.yaml"), "{files:?}");
    assert!(
        !files.iter().any(|file| file.contains("deployment") || file.contains("rolebinding")),
        "{files:?}"
    );

    // Errors name the file and field.
    let path = "bundle/manifests/shop-operator.clusterserviceversion.yaml";
    let edits: [(&str, &str, &str); 4] = [
        ("version: 1.2.3", "version: '1.2'", "spec.version: \"1.2\" is not a semantic version"),
        ("strategy: deployment", "strategy: other", "spec.install.strategy: must be deployment"),
        ("- supported: true", "- supported: false", "spec.installModes: none is supported"),
        (
            "      name: minimarts.charts.example.com",
            "      name: others.charts.example.com",
            "others.charts.example.com is not in the bundle",
        ),
    ];
    let right = fs::read_to_string(stage.directory.join(path)).unwrap();
    for (from, to, problem) in edits {
        assert!(right.contains(from), "{from}\n{right}");
        fs::write(stage.directory.join(path), right.replace(from, to)).unwrap();
        let said = stage.run(&["bundle", "validate"]).await;
        assert!(said.stdout.contains(problem), "{problem}: {}", said.stdout);
        said.failure();
    }
    fs::write(stage.directory.join(path), right).unwrap();
    // A definition that a cluster would reject, and a service account that is created twice.
    let path = "bundle/manifests/charts.example.com_minimarts.yaml";
    let right = fs::read_to_string(stage.directory.join(path)).unwrap();
    let wrong = right.replace("singular: minimart", "singular: mini_mart");
    assert_ne!(right, wrong);
    fs::write(stage.directory.join(path), wrong).unwrap();
    let said = stage.run(&["bundle", "validate"]).await;
    let problem = format!("{}: spec.names.singular: ", path.strip_prefix("bundle/").unwrap());
    assert!(said.stdout.contains(&problem), "{}", said.stdout);
    said.failure();
    fs::write(stage.directory.join(path), right).unwrap();
    let account = stage.directory.join("bundle/manifests/account.yaml");
    let object =
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: shop-operator-controller-manager\n";
    fs::write(&account, object).unwrap();
    let said = stage.run(&["bundle", "validate"]).await;
    assert!(said.stdout.contains("manifests/account.yaml: metadata.name: "), "{}", said.stdout);
    said.failure();
    fs::remove_file(account).unwrap();
    let said = stage.run(&["bundle", "validate", "-o", "json-alpha1"]).await.success();
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["passed"], true);
}
