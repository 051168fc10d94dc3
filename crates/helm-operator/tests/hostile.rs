//! A tenant against a chart operator: what it may write in its own namespace has no effect elsewhere.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman::testing::TestEnv;
use steersman::{Kind, Operator};
use steersman_chart::{Chart, File, RenderOptions, System, Values};
use steersman_cluster::User;
use steersman_helm_operator::{Defaults, KEY_SECRET, NamespacedName, ReleaseController};
use steersman_release::{Confinement, Options, Releases};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

fn resource() -> ApiResource {
    ApiResource {
        group: "hostile.example.com".into(),
        version: "v1".into(),
        api_version: "hostile.example.com/v1".into(),
        kind: "Shop".into(),
        plural: "shops".into(),
    }
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

/// A ConfigMap, an optional second one, a cluster role, and hooks that create objects.
fn shop() -> Chart {
    Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
        File::new("values.yaml", "mood: calm\nextra: false\nhang: false\npassword: ''\nbroken: false\n"),
        File::new("templates/NOTES.txt", "The password is {{ .Values.password }}."),
        File::new(
            "templates/all.yaml",
            r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {mood: {{ .Values.mood | quote }}}
---
{{- if .Values.broken }}
apiVersion: v1
kind: ConfigMap
metadata: {name: broken, labels: {password: {{ printf "%s!" .Values.password | quote }}}}
---
{{- end }}
{{- if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extra}
{{- end }}
---
{{- with .Values.password }}
apiVersion: v1
kind: Secret
metadata: {name: {{ $.Release.Name }}}
stringData: {password: {{ . | quote }}, token: {{ randAlphaNum 24 | quote }}}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Namespace }}-{{ .Release.Name }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-before, annotations: {helm.sh/hook: pre-install}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-goodbye
  # Else it is collected with its owner.
  annotations: {helm.sh/hook: pre-delete, helm.sh/resource-policy: keep}
---
{{- if .Values.hang }}
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-hang, annotations: {helm.sh/hook: pre-install}}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: c, command: [sleep, "100000"]}]}
{{- end }}
"#,
        ),
    ])
    .unwrap()
}

fn controller(chart: Chart) -> ReleaseController {
    ReleaseController::new(Kind::dynamic(resource(), true), chart)
}

/// A cluster with the operator in `default`, a tenant in `lab`, and objects of others elsewhere.
struct Lab {
    env: TestEnv,
    client: Client,
    tenant: Client,
    shops: Api<DynamicObject>,
    records: Api<Secret>,
    maps: Api<ConfigMap>,
    foreign: Api<ConfigMap>,
    roles: Api<ClusterRole>,
}

impl Lab {
    async fn new() -> Self {
        let env = TestEnv::start().await.unwrap();
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "shops.hostile.example.com" },
            "spec": {
                "group": "hostile.example.com", "scope": "Namespaced", "names": { "kind": "Shop", "plural": "shops" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "properties": { "spec": open.clone(), "status": open },
                    } },
                }],
            },
        });
        env.install(&read(crd)).await.unwrap();
        let client = env.client();
        let spaces: Api<Namespace> = Api::all(client.clone());
        for name in ["lab", "den"] {
            let namespace = Namespace { metadata: named(name), ..Namespace::default() };
            spaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let role = json!({ "metadata": { "name": "tenant" }, "rules": [
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["*"] },
            { "apiGroups": ["hostile.example.com"], "resources": ["shops", "shops/status"], "verbs": ["*"] },
        ] });
        let binding = json!({
            "metadata": { "name": "tenant" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant" },
            "subjects": [{ "kind": "ServiceAccount", "name": "tenant", "namespace": "lab" }],
        });
        let params = PostParams::default();
        Api::<Role>::namespaced(client.clone(), "lab").create(&params, &read(role)).await.unwrap();
        Api::<RoleBinding>::namespaced(client.clone(), "lab").create(&params, &read(binding)).await.unwrap();
        let foreign: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
        let victim = ConfigMap { metadata: named("victim"), ..ConfigMap::default() };
        foreign.create(&params, &victim).await.unwrap();
        let tenant = env.cluster().unwrap().client_as(User::service_account("lab", "tenant"));
        Self {
            shops: Api::namespaced_with(tenant.clone(), "lab", &resource()),
            records: Api::namespaced(tenant.clone(), "lab"),
            maps: Api::namespaced(client.clone(), "lab"),
            foreign,
            roles: Api::all(client.clone()),
            tenant,
            client,
            env,
        }
    }

    async fn start(controller: ReleaseController) -> Self {
        let mut lab = Self::new().await;
        lab.env.run(Operator::new("helm-operator").controller(controller.controller()));
        lab
    }

    async fn create(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "hostile.example.com/v1", "kind": "Shop", "metadata": { "name": name }, "spec": spec,
        });
        self.shops.create(&PostParams::default(), &read(object)).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.shops.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let is = |object: Option<&DynamicObject>| object.is_some_and(|object| is(&json!(object)));
        let shops: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "lab", &resource());
        match self.env.wait_in(shops, name, is).await {
            Ok(found) => json!(found),
            Err(error) => panic!("{name} is not {what}: {error}"),
        }
    }

    async fn ready(&self, name: &str) -> Value {
        self.until(name, "ready", |found| status_of(found, "Ready").as_deref() == Some("True")).await
    }

    /// Waits until the release has that mood, and the object is ready.
    async fn in_mood(&self, name: &str, mood: &str) {
        let is = |map: Option<&ConfigMap>| {
            map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["mood"] == mood)
        };
        self.env.wait_in(self.maps.clone(), name, is).await.unwrap();
        self.ready(name).await;
        self.env.quiet().await;
    }

    async fn delete(&self, name: &str) {
        self.shops.delete(name, &DeleteParams::default()).await.unwrap();
        self.gone(name).await;
    }

    async fn gone(&self, name: &str) {
        let shops: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "lab", &resource());
        let gone = |found: Option<&DynamicObject>| found.is_none();
        self.env.wait_in(shops, name, gone).await.unwrap();
    }

    /// Writes a record that would delete, run and install what the tenant may not.
    async fn forge(&self, version: i64, namespace: &str, chart: &str) {
        let record = json!({
            "name": "shop", "namespace": namespace, "version": version,
            "info": { "status": "deployed" }, "chart": { "metadata": { "name": chart, "version": "1.0.0" } },
            "manifest": "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim, namespace: kube-system}\n",
            "hooks": [{
                "name": "tenant-is-admin", "kind": "ClusterRoleBinding", "path": "x",
                "events": ["pre-upgrade", "post-upgrade", "pre-rollback", "pre-delete", "post-delete"],
                "manifest": json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                    "metadata": { "name": "tenant-is-admin" },
                    "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
                    "subjects": [{ "kind": "ServiceAccount", "name": "tenant", "namespace": "lab" }],
                }).to_string(),
            }],
        });
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(record.to_string().as_bytes()).unwrap();
        let data = ByteString(BASE64.encode(gzip.finish().unwrap()).into_bytes());
        let labels =
            json!({ "name": "shop", "owner": "helm", "status": "deployed", "version": version.to_string() });
        let secret = Secret {
            metadata: ObjectMeta {
                labels: read(labels),
                ..named(&format!("sh.helm.release.v1.shop.v{version}"))
            },
            type_: Some("helm.sh/release.v1".into()),
            data: Some([("release".to_owned(), data)].into()),
            ..Secret::default()
        };
        self.records.create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn assert_unharmed(&self) {
        assert!(self.foreign.get_opt("victim").await.unwrap().is_some(), "a foreign object was deleted");
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        assert!(bindings.get_opt("tenant-is-admin").await.unwrap().is_none(), "a forged hook ran");
        let den: Api<ConfigMap> = Api::namespaced(self.client.clone(), "den");
        assert!(den.get_opt("shop").await.unwrap().is_none(), "the release went to another namespace");
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

fn status_of(object: &Value, kind: &str) -> Option<String> {
    condition(object, kind)?["status"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn forged_records_give_nothing() {
    let lab = Lab::start(controller(shop())).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.env.quiet().await;
    for (version, namespace, chart, mood) in
        [(50, "lab", "shop", "wild"), (99, "den", "shop", "odd"), (150, "lab", "other", "dull")]
    {
        lab.forge(version, namespace, chart).await;
        lab.patch("shop", json!({ "spec": { "mood": mood } })).await;
        lab.in_mood("shop", mood).await;
        lab.assert_unharmed().await;
    }
    lab.forge(200, "lab", "shop").await;
    lab.delete("shop").await;
    lab.assert_unharmed().await;
    assert!(lab.maps.get_opt("shop").await.unwrap().is_none());
    assert!(
        lab.roles.get_opt("lab-shop").await.unwrap().is_none(),
        "what no record lists is found all the same"
    );
    assert!(lab.maps.get_opt("shop-goodbye").await.unwrap().is_some(), "the chart's own hook ran");
}

#[tokio::test(start_paused = true)]
async fn forged_records_give_nothing_after_a_restart() {
    let mut lab = Lab::start(controller(shop())).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.env.quiet().await;
    lab.env.stop().await.unwrap();
    lab.forge(99, "lab", "shop").await;
    lab.env.run(Operator::new("helm-operator").controller(controller(shop()).controller()));
    let last = |record: Option<&Secret>| record.is_some_and(|record| record.labels()["status"] == "deployed");
    lab.env.wait_in(lab.records.clone(), "sh.helm.release.v1.shop.v100", last).await.unwrap();
    lab.env.quiet().await;
    lab.assert_unharmed().await;
    lab.delete("shop").await;
    lab.assert_unharmed().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_is_never_asked() {
    let lab = Lab::start(controller(shop())).await;
    // A release of the same chart that is not the tenant's.
    let den = Releases::new(lab.client.clone(), "den");
    den.install("other", &shop(), &Values::new(), &Options::default()).await.unwrap();
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    let lie =
        json!({ "status": { "deployedRelease": { "name": "other", "namespace": "den", "manifest": "" } } });
    lab.shops.patch_status("shop", &PatchParams::default(), &Patch::Merge(&lie)).await.unwrap();
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    lab.in_mood("shop", "wild").await;
    assert_eq!(den.revisions("other").await.unwrap().len(), 1);
    let told = lab.ready("shop").await;
    assert_eq!(told["status"]["deployedRelease"]["name"], "shop", "the lie is corrected");
    lab.shops.patch_status("shop", &PatchParams::default(), &Patch::Merge(&lie)).await.unwrap();
    lab.delete("shop").await;
    assert_eq!(den.revisions("other").await.unwrap().len(), 1);
    assert!(lab.maps.get_opt("shop").await.unwrap().is_none(), "its own release is gone");
}

#[tokio::test(start_paused = true)]
async fn a_release_of_helm_is_adopted() {
    let mut lab = Lab::new().await;
    // As an administrator's `helm` would: without a signature, and with a randomly generated password.
    let spec = json!({ "mood": "wild", "password": "given" });
    let helm = Releases::new(lab.client.clone(), "lab");
    helm.install("shop", &shop(), &Values::from_json(spec.clone()), &Options::default()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(lab.client.clone(), "lab");
    let token = || async { secrets.get("shop").await.unwrap().data.unwrap()["token"].clone() };
    let drawn = token().await;
    let before: Api<ConfigMap> = lab.maps.clone();
    before.delete("shop-before", &DeleteParams::default()).await.unwrap();

    lab.env.run(Operator::new("helm-operator").controller(controller(shop()).controller()));
    lab.create("shop", spec).await;
    let told = lab.ready("shop").await;
    lab.env.quiet().await;
    assert_eq!(condition(&told, "Deployed").unwrap()["reason"], "InstallSuccessful");
    assert_eq!(helm.revisions("shop").await.unwrap().len(), 1, "nothing differed: no new revision");
    let record = secrets.get("sh.helm.release.v1.shop.v1").await.unwrap();
    assert!(record.annotations().contains_key("release.steersman.dev/signature"));
    assert!(before.get_opt("shop-before").await.unwrap().is_none(), "no hook ran");

    lab.patch("shop", json!({ "spec": { "mood": "odd" } })).await;
    lab.in_mood("shop", "odd").await;
    // The real `helm` continues with it.
    let upgraded = helm
        .upgrade(
            "shop",
            &shop(),
            &Values::from_json(json!({ "mood": "calm", "password": "given" })),
            &Options { keep_random: true, ..Options::default() },
        )
        .await
        .unwrap();
    assert_eq!(upgraded.version, 3);
    lab.patch("shop", json!({ "spec": { "mood": "back" } })).await;
    lab.in_mood("shop", "back").await;
    assert_eq!(helm.get("shop", None).await.unwrap().version, 4);
    assert_eq!(token().await, drawn, "what was drawn stays through all of it");
    lab.delete("shop").await;
    assert!(before.get_opt("shop-goodbye").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_key_is_out_of_reach() {
    let lab = Lab::start(controller(shop())).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    let keys: Api<Secret> = Api::namespaced(lab.client.clone(), "default");
    assert_eq!(keys.get(KEY_SECRET).await.unwrap().data.unwrap()["key"].0.len(), 32);
    let stolen: Api<Secret> = Api::namespaced(lab.tenant.clone(), "default");
    assert!(stolen.get(KEY_SECRET).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_confined_release_stays_where_it_is() {
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
        File::new(
            "templates/all.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: {{ .Values.to }}}}",
        ),
    ])
    .unwrap();
    let lab = Lab::start(controller(chart).confined(Confinement::new())).await;
    lab.create("shop", json!({ "to": "kube-system" })).await;
    let failed = lab
        .until("shop", "refused", |found| status_of(found, "ReleaseFailed").as_deref() == Some("True"))
        .await;
    let message = condition(&failed, "ReleaseFailed").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("confined to namespace lab"), "{message}");
    assert!(lab.foreign.get_opt("far").await.unwrap().is_none());
    lab.patch("shop", json!({ "spec": { "to": "lab" } })).await;
    lab.ready("shop").await;
}

/// Collects the logs of the operators in all tests of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_of_a_chart_are_not_told() {
    const PASSWORD: &str = "hunter22-hunter22";
    let log = Log::default();
    let writer = log.clone();
    // Everything that `--log-level trace` logs. Lines of the client that repeat request bodies are excluded unless it is
    // named.
    let filter =
        Targets::new().with_default(LevelFilter::TRACE).with_target("kube_client::client", LevelFilter::INFO);
    let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_filter(filter);
    tracing_subscriber::registry().with(layer).try_init().unwrap();
    let overrides = [("password".to_owned(), PASSWORD.to_owned())].into();
    let lab = Lab::start(controller(shop()).override_values(overrides)).await;
    lab.create("shop", json!({})).await;
    let told = lab.ready("shop").await;
    let secrets: Api<Secret> = Api::namespaced(lab.client.clone(), "lab");
    let data = secrets.get("shop").await.unwrap().data.unwrap();
    assert_eq!(data["password"].0, PASSWORD.as_bytes());
    let token = String::from_utf8(data["token"].0.clone()).unwrap();
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    lab.in_mood("shop", "wild").await;
    // A refusal that repeats the request.
    lab.patch("shop", json!({ "spec": { "broken": true } })).await;
    let failed = lab
        .until("shop", "refused", |found| status_of(found, "ReleaseFailed").as_deref() == Some("True"))
        .await;
    let message = condition(&failed, "ReleaseFailed").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("metadata.labels: Invalid value: \"REDACTED!\""), "{message}");
    lab.env.quiet().await;
    let events: Api<Event> = Api::namespaced(lab.client.clone(), "lab");
    let events = json!(events.list(&ListParams::default()).await.unwrap()).to_string();
    assert!(events.contains("OverrideValuesInUse"));
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("metadata.labels: Invalid value"), "the refusal is logged: {log}");
    let places = [
        ("status", told["status"].to_string()),
        ("status", failed["status"].to_string()),
        ("events", events),
    ];
    for (place, text) in places.into_iter().chain([("log", log)]) {
        for secret in [PASSWORD, &BASE64.encode(PASSWORD), &token, &BASE64.encode(&token)] {
            let at = text.find(secret).map(|at| text[..at].rsplit('\n').next().unwrap_or_default());
            assert!(at.is_none(), "{secret} is in the {place}: {}", at.unwrap_or_default());
        }
    }
    let manifest = told["status"]["deployedRelease"]["manifest"].as_str().unwrap();
    assert!(manifest.contains("kind: Secret"), "that there is one is no secret");
    assert_eq!(condition(&told, "Deployed").unwrap()["message"], "The password is REDACTED.");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_deleted_is_tried_again() {
    let lab = Lab::new().await;
    // All verbs except `delete` on ConfigMaps.
    let all = |verbs: &[&str]| json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs });
    let most = ["get", "list", "watch", "create", "patch", "update"];
    let role = json!({ "metadata": { "name": "operator" }, "rules": [
        { "apiGroups": [""], "resources": ["secrets", "namespaces", "pods"], "verbs": ["*"] },
        { "apiGroups": ["hostile.example.com", "events.k8s.io", "rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"] },
        all(&most),
    ] });
    let binding = json!({
        "metadata": { "name": "operator" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator" },
        "subjects": [{ "kind": "ServiceAccount", "name": "operator", "namespace": "default" }],
    });
    lab.roles.create(&PostParams::default(), &read(role)).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(lab.client.clone());
    bindings.create(&PostParams::default(), &read(binding)).await.unwrap();
    let client = lab.env.cluster().unwrap().client_as(User::service_account("default", "operator"));
    // Without hooks, which are deleted before they run again.
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
        File::new("templates/a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}}"),
        File::new(
            "templates/b.yaml",
            "{{ if .Values.extra }}{apiVersion: v1, kind: ConfigMap, metadata: {name: shop-extra}}{{ end }}",
        ),
    ])
    .unwrap();
    let operator = Operator::new("helm-operator").controller(controller(chart).controller());
    let running = tokio::spawn(operator.run_until(client, std::future::pending()));

    lab.create("shop", json!({ "extra": true })).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "extra": false } })).await;
    let told =
        lab.until("shop", "told", |found| status_of(found, "Pruned").as_deref() == Some("False")).await;
    let message = condition(&told, "Pruned").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("ConfigMap/shop-extra in namespace lab"), "{message}");
    assert!(lab.maps.get_opt("shop-extra").await.unwrap().is_some());

    let patch =
        Patch::Json::<()>(read(json!([{ "op": "add", "path": "/rules/-", "value": all(&["delete"]) }])));
    lab.roles.patch("operator", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    lab.until("shop", "pruned", |found| condition(found, "Pruned").is_none()).await;
    assert!(lab.maps.get_opt("shop-extra").await.unwrap().is_none());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_comes_back() {
    let lab = Lab::start(controller(shop()).period(Duration::from_secs(60))).await;
    lab.create("shop", json!({ "password": "given" })).await;
    lab.ready("shop").await;
    lab.env.quiet().await;
    let secrets: Api<Secret> = Api::namespaced(lab.client.clone(), "lab");
    let drawn = secrets.get("shop").await.unwrap().data;
    lab.maps.delete("shop-before", &DeleteParams::default()).await.unwrap();
    lab.records.delete("sh.helm.release.v1.shop.v1", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    lab.env
        .wait_in(lab.records.clone(), "sh.helm.release.v1.shop.v1", |found: Option<&Secret>| found.is_some())
        .await
        .unwrap();
    lab.env.quiet().await;
    assert_eq!(secrets.get("shop").await.unwrap().data, drawn, "what was drawn at random stays");
    assert!(lab.maps.get_opt("shop-before").await.unwrap().is_none(), "it is not installed again");
    lab.delete("shop").await;
    assert!(lab.roles.get_opt("lab-shop").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resource_without_a_record_leaves_nothing_behind() {
    let lab = Lab::start(controller(shop())).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.env.quiet().await;
    lab.records.delete("sh.helm.release.v1.shop.v1", &DeleteParams::default()).await.unwrap();
    lab.delete("shop").await;
    assert!(lab.roles.get_opt("lab-shop").await.unwrap().is_none(), "garbage collection does not find this");
    assert!(lab.maps.get_opt("shop-goodbye").await.unwrap().is_some(), "hooks run");
    // A release that was never installed needs no uninstall.
    let failing = json!({ "mood": { "fail": true } });
    lab.create("other", failing).await;
    lab.until("other", "failed", |found| found["status"]["conditions"].is_array()).await;
    lab.delete("other").await;
}

#[tokio::test(start_paused = true)]
async fn a_period_of_nothing_is_no_period() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let lab = Lab::start(controller(shop()).period(Duration::from_nanos(1)).conditions(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Vec::new()) }
    }))
    .await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    for (period, most) in [(None, 11), (Some("1ns"), 11), (Some("0s"), 0), (Some("0"), 0)] {
        let annotations = json!({ "helm.sdk.operatorframework.io/reconcile-period": period });
        lab.patch("shop", json!({ "metadata": { "annotations": annotations } })).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = seen.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let count = seen.load(Ordering::Relaxed) - before;
        assert!(count <= most, "{count} reconciles in ten seconds with {period:?}");
        assert!(most == 0 || count >= 9, "{count} reconciles in ten seconds with {period:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_that_hang_hold_up_no_other_release() {
    // More than the number of workers.
    const STUCK: usize = 20;
    assert!(Defaults::default().max_concurrent_reconciles >= 8);
    let lab = Lab::start(controller(shop())).await;
    for index in 0..STUCK {
        lab.create(&format!("stuck-{index}"), json!({ "hang": true })).await;
    }
    let is_stuck = |found: &Value| status_of(found, "Initialized").is_some();
    for index in 0..STUCK {
        lab.until(&format!("stuck-{index}"), "under way", is_stuck).await;
    }
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_moves_waits_for_the_old_one_to_go() {
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
        File::new(
            "templates/all.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: moving, finalizers: [hostile.example.com/hold]}}",
        ),
    ])
    .unwrap();
    let place = |object: &DynamicObject| {
        let namespace = object.data["spec"]["to"].as_str().unwrap_or("lab").to_owned();
        Ok(NamespacedName { name: object.name_any(), namespace })
    };
    let lab = Lab::start(controller(chart).release_name(place)).await;
    let den: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "den");
    lab.create("shop", json!({ "to": "den" })).await;
    lab.ready("shop").await;
    let wait = json!({ "helm.sdk.operatorframework.io/uninstall-wait": "true" });
    lab.patch("shop", json!({ "metadata": { "annotations": wait }, "spec": { "to": "lab" } })).await;
    let deleting = |map: Option<&ConfigMap>| map.is_some_and(|map| map.metadata.deletion_timestamp.is_some());
    lab.env.wait_in(den.clone(), "moving", deleting).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(lab.maps.get_opt("moving").await.unwrap().is_none(), "the old one is still there");
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    den.patch("moving", &PatchParams::default(), &patch).await.unwrap();
    lab.env.wait_in(lab.maps.clone(), "moving", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
    lab.ready("shop").await;
    assert!(Releases::new(lab.client.clone(), "den").revisions("shop").await.unwrap().is_empty());
}

#[test]
fn the_charts_of_the_examples_quote_what_comes_from_values() {
    let evil = "x\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: smuggled\n---\na: \"\n";
    for (chart, values) in [
        (
            "minimart/helm-charts/minimart",
            json!({
                "shop": { "name": evil, "items": [{ "name": evil, "price": 1.5 }] }, "nameOverride": evil,
                "image": { "repository": evil, "tag": evil, "pullPolicy": evil }, "serviceAccount": { "name": evil },
                "podAnnotations": { "a": evil }, "autoscaling": { "enabled": true },
            }),
        ),
        (
            "minimart/helm-charts/minimart",
            json!({ "fullnameOverride": "x\n---\nkind: Namespace", "serviceAccount": { "create": false, "name": evil } }),
        ),
        (
            "nginx/helm-charts/nginx",
            json!({
                "image": { "repository": evil, "tag": evil, "pullPolicy": evil }, "service": { "type": evil, "port": evil },
                "ingress": { "enabled": true, "className": evil, "host": evil }, "replicaCount": evil,
            }),
        ),
        (
            "collector/helm-charts/collector",
            json!({
                "image": evil, "version": evil, "tenant": evil, "cluster": evil, "config": evil,
            }),
        ),
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(chart);
        let chart = Chart::load(&path).unwrap();
        let options = RenderOptions {
            release: steersman_chart::Release {
                name: "it".into(),
                namespace: "lab".into(),
                ..<_>::default()
            },
            ..RenderOptions::default()
        };
        let rendered = chart.render(&Values::from_json(values), &options, System::default()).unwrap();
        let manifest = rendered.manifest(false);
        for document in steersman_release::documents(&manifest).unwrap() {
            assert_ne!(document["kind"], "Namespace", "{manifest}");
            assert!(
                document["apiVersion"].is_string() && document["metadata"]["name"].is_string(),
                "{manifest}"
            );
        }
    }
}
