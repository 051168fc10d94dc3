//! A kind with a chart, and an operator that maintains a release for each of its objects.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use steersman::testing::{TestEnv, dynamic, object};
use steersman::{Kind, Operator};
use steersman_chart::{Chart, File};
use steersman_helm_operator::ReleaseController;
use steersman_release::Releases;

pub(crate) fn resource() -> ApiResource {
    ApiResource {
        group: "shops.example.com".into(),
        version: "v1".into(),
        api_version: "shops.example.com/v1".into(),
        kind: "Shop".into(),
        plural: "shops".into(),
    }
}

/// Objects and hooks by the spec.
pub(crate) fn chart() -> Chart {
    named_chart("shop", &[])
}

pub(crate) fn named_chart(name: &str, more: &[(&str, &str)]) -> Chart {
    let files = [
        ("Chart.yaml".to_owned(), format!("{{apiVersion: v2, name: {name}, version: 1.0.0}}")),
        (
            "values.yaml".to_owned(),
            "mood: calm\nsecret: ''\nextra: []\nfar: ''\npods: 0\nmarks: {}\nfails: {}\n".to_owned(),
        ),
        ("templates/NOTES.txt".to_owned(), "The shop is {{ .Values.mood }}.".to_owned()),
        ("templates/all.yaml".to_owned(), TEMPLATE.to_owned()),
    ];
    let more = more.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Chart::from_files(files.into_iter().chain(more).map(|(name, text)| File::new(name, text))).unwrap()
}

const TEMPLATE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {mood: {{ .Values.mood | quote }}, fixed: "1"}
{{- range .Values.extra }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ . }}}, data: {mood: {{ $.Values.mood | quote }}, fixed: "1"}}
{{- end }}
{{- with .Values.secret }}
---
{apiVersion: v1, kind: Secret, metadata: {name: {{ $.Release.Name }}}, stringData: {mood: {{ . | quote }}}}
{{- end }}
{{- with .Values.far }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: {{ . }}}, data: {mood: {{ $.Values.mood | quote }}}}
{{- end }}
{{- range $index := until (int .Values.pods) }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-{{ $index }}}
spec:
  selector: {matchLabels: {app: web-{{ $index }}}}
  template:
    metadata:
      labels: {app: web-{{ $index }}}
      annotations: {cluster.steersman.dev/fail: {{ $.Values.fail | default "" | quote }}}
    spec: {containers: [{name: c, image: c}]}
{{- end }}
{{- range $event, $name := .Values.marks }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ $name }}, annotations: {helm.sh/hook: {{ $event }}, helm.sh/resource-policy: keep}}
{{- end }}
{{- range $event, $exit := .Values.fails }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ $event }}, annotations: {helm.sh/hook: {{ $event }}}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {cluster.steersman.dev/exit-code: "{{ $exit }}"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
{{- end }}
"#;

/// A controller for shops.
pub(crate) fn controller(chart: Chart) -> ReleaseController {
    ReleaseController::new(Kind::dynamic(resource(), true), chart)
}

/// A cluster with the kind, and namespaces `lab`, where shops are, and `den`.
pub(crate) struct Lab {
    pub(crate) env: TestEnv,
    pub(crate) client: Client,
    pub(crate) shops: Api<DynamicObject>,
    pub(crate) maps: Api<ConfigMap>,
    pub(crate) releases: Releases,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        let env = TestEnv::start().await.unwrap();
        env.install(&object(definition("Namespaced", "Shop", "shops"))).await.unwrap();
        let client = env.client();
        let spaces: Api<Namespace> = Api::all(client.clone());
        for name in ["lab", "den"] {
            let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            spaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        Self {
            shops: Api::namespaced_with(client.clone(), "lab", &resource()),
            maps: Api::namespaced(client.clone(), "lab"),
            releases: Releases::new(client.clone(), "lab"),
            client,
            env,
        }
    }

    pub(crate) async fn start(controller: ReleaseController) -> Self {
        let mut lab = Self::new().await;
        lab.run(controller);
        lab
    }

    pub(crate) fn run(&mut self, controller: ReleaseController) {
        self.env.run(Operator::new("helm-operator").controller(controller.controller()));
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) {
        self.create_with(name, spec, json!({})).await;
    }

    pub(crate) async fn create_with(&self, name: &str, spec: Value, metadata: Value) {
        let mut shop = json!({
            "apiVersion": "shops.example.com/v1", "kind": "Shop", "metadata": metadata, "spec": spec,
        });
        shop["metadata"]["name"] = json!(name);
        self.shops.create(&PostParams::default(), &dynamic(shop)).await.unwrap();
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.shops.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn annotate(&self, name: &str, annotations: Value) {
        self.patch(name, json!({ "metadata": { "annotations": annotations } })).await;
    }

    pub(crate) async fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let is = |object: Option<&DynamicObject>| object.is_some_and(|object| is(&json!(object)));
        match self.env.wait_in(self.shops.clone(), name, is).await {
            Ok(found) => json!(found),
            Err(error) => panic!("{name} is not {what}: {error}"),
        }
    }

    pub(crate) async fn ready(&self, name: &str) -> Value {
        let ready =
            self.until(name, "ready", |shop| status_of(shop, "Ready").as_deref() == Some("True")).await;
        self.env.quiet().await;
        ready
    }

    /// Waits until a release failed, and returns the message.
    pub(crate) async fn failed(&self, name: &str) -> String {
        self.message(name, "ReleaseFailed", "True").await
    }

    /// Pauses reconciles of an object, so that its state can be inspected.
    pub(crate) async fn pause(&self, name: &str) {
        self.annotate(name, json!({ "helm.steersman.dev/paused": "true" })).await;
        self.message(name, "Paused", "True").await;
        self.env.quiet().await;
    }

    pub(crate) async fn resume(&self, name: &str) {
        self.annotate(name, json!({ "helm.steersman.dev/paused": null })).await;
    }

    /// Waits until a condition has a status, and returns its message.
    pub(crate) async fn message(&self, name: &str, kind: &str, status: &str) -> String {
        let shop = self.until(name, kind, |shop| status_of(shop, kind).as_deref() == Some(status)).await;
        condition(&shop, kind).unwrap()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the release has a mood, and the object is ready.
    pub(crate) async fn in_mood(&self, name: &str, mood: &str) -> Value {
        let is = |map: Option<&ConfigMap>| {
            map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["mood"] == mood)
        };
        self.env.wait_in(self.maps.clone(), name, is).await.unwrap();
        self.ready(name).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.shops.delete(name, &DeleteParams::default()).await.unwrap();
        let gone = |found: Option<&DynamicObject>| found.is_none();
        self.env.wait_in(self.shops.clone(), name, gone).await.unwrap();
        self.env.quiet().await;
    }

    pub(crate) async fn has(&self, map: &str) -> bool {
        self.maps.get_opt(map).await.unwrap().is_some()
    }

    pub(crate) async fn data(&self, map: &str, key: &str) -> Option<String> {
        self.maps.get_opt(map).await.unwrap()?.data?.get(key).cloned()
    }

    /// Changes a config map as another writer would.
    pub(crate) async fn tamper(&self, map: &str, data: Value) {
        let params = PatchParams { field_manager: Some("other".into()), ..PatchParams::default() };
        self.maps.patch(map, &params, &Patch::Merge(json!({ "data": data }))).await.unwrap();
    }

    /// Returns the events about shops, as `REASON: NOTE`.
    pub(crate) async fn events(&self) -> Vec<String> {
        self.env.quiet().await;
        let events: Api<Event> = Api::namespaced(self.client.clone(), "lab");
        let found = events.list(&ListParams::default()).await.unwrap();
        let text = |event: Event| {
            format!("{}: {}", event.reason.unwrap_or_default(), event.note.unwrap_or_default())
        };
        found.items.into_iter().map(text).collect()
    }

    /// Returns the names of the release records in the namespace.
    pub(crate) async fn records(&self) -> Vec<String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "lab");
        let found = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
        found.items.iter().map(kube::ResourceExt::name_any).collect()
    }
}

/// Returns a CRD without a schema.
pub(crate) fn definition(scope: &str, kind: &str, plural: &str) -> Value {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.shops.example.com") },
        "spec": {
            "group": "shops.example.com", "scope": scope, "names": { "kind": kind, "plural": plural },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": open.clone(), "status": open },
                } },
            }],
        },
    })
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

pub(crate) fn status_of(object: &Value, kind: &str) -> Option<String> {
    condition(object, kind)?["status"].as_str().map(str::to_owned)
}

pub(crate) async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
