//! Records that were forged, changed or copied: what they list is not deleted, their hooks do not run.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_chart::{Chart, File, Values};
use steersman_cluster::{Cluster, User};
use steersman_release::{
    Confinement, Error, Options, RecordKey, Release, Releases, RollbackOptions, Status, UninstallOptions,
};

/// A ConfigMap, an optional second one, and a pre-delete hook.
fn shop() -> Chart {
    Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
        File::new("values.yaml", "mood: calm\nextra: false\n"),
        File::new(
            "templates/all.yaml",
            r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {mood: {{ .Values.mood | quote }}}
---
{{- if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extra}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-gone, annotations: {helm.sh/hook: pre-delete}}
"#,
        ),
    ])
    .unwrap()
}

fn values(expression: &str) -> Values {
    let mut values = Values::new();
    values.set(expression).unwrap();
    values
}

/// Encodes a record as Helm does.
fn packed(record: &Value) -> ByteString {
    packed_text(&record.to_string())
}

fn packed_text(text: &str) -> ByteString {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    ByteString(BASE64.encode(gzip.finish().unwrap()).into_bytes())
}

/// The Secret of a record, with the labels that Helm gives it.
fn secret(name: &str, version: i64, status: &str, record: &Value) -> Secret {
    let labels = json!({ "name": name, "owner": "helm", "status": status, "version": version.to_string() });
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("sh.helm.release.v1.{name}.v{version}")),
            labels: serde_json::from_value(labels).unwrap(),
            ..ObjectMeta::default()
        },
        type_: Some("helm.sh/release.v1".into()),
        data: Some([("release".to_owned(), packed(record))].into()),
        ..Secret::default()
    }
}

fn record(name: &str, namespace: &str, version: i64, manifest: &str) -> Value {
    json!({
        "name": name, "namespace": namespace, "version": version, "manifest": manifest,
        "info": { "status": "deployed", "notes": "forged" }, "config": { "mood": "forged" },
        "chart": { "metadata": { "name": "shop", "version": "1.0.0" } },
        "hooks": [{
            "name": "evil", "kind": "ConfigMap", "path": "evil", "events": ["pre-delete", "pre-rollback", "pre-upgrade"],
            "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil, namespace: kube-system}\n",
        }],
    })
}

const VICTIM: &str =
    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim, namespace: kube-system}\n";

struct Lab {
    client: Client,
    /// A user who may write Secrets in the namespace, and nothing else.
    tenant: Api<Secret>,
    maps: Api<ConfigMap>,
    foreign: Api<ConfigMap>,
    _cluster: Cluster,
}

async fn lab() -> Lab {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let spaces: Api<Namespace> = Api::all(client.clone());
    for name in ["lab", "den"] {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.into()), ..<_>::default() },
            ..<_>::default()
        };
        spaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let releases = Releases::new(client.clone(), "lab");
    for object in [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "tenant" },
            "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["*"] }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "tenant" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant" },
            "subjects": [{ "kind": "ServiceAccount", "name": "tenant", "namespace": "lab" }],
        }),
    ] {
        let object = steersman_release::resolve(object, "lab", releases.kinds()).await.unwrap();
        releases.enforce(&object).await.unwrap();
    }
    let foreign: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let victim = ConfigMap {
        metadata: ObjectMeta { name: Some("victim".into()), ..<_>::default() },
        ..<_>::default()
    };
    foreign.create(&PostParams::default(), &victim).await.unwrap();
    let account = cluster.client_as(User::service_account("lab", "tenant"));
    let stolen: Api<ConfigMap> = Api::namespaced(account.clone(), "kube-system");
    assert!(
        stolen.delete("victim", &DeleteParams::default()).await.is_err(),
        "the tenant may not do it itself"
    );
    Lab {
        tenant: Api::namespaced(account, "lab"),
        maps: Api::namespaced(client.clone(), "lab"),
        foreign,
        client,
        _cluster: cluster,
    }
}

impl Lab {
    fn releases(&self) -> Releases {
        Releases::new(self.client.clone(), "lab")
    }

    /// Returns the releases as an operator sees them, with signatures for an owner.
    fn signing(&self, owner: &str) -> Releases {
        self.releases().verified_by(Some(RecordKey::new([7; 32])), owner)
    }

    async fn forge(&self, name: &str, version: i64, record: &Value) {
        let secret = secret(name, version, "deployed", record);
        self.tenant.create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn assert_unharmed(&self) {
        assert!(self.foreign.get_opt("victim").await.unwrap().is_some(), "a foreign object was deleted");
        assert!(self.foreign.get_opt("evil").await.unwrap().is_none(), "a forged hook ran");
    }
}

#[tokio::test]
async fn what_a_record_lists_is_deleted_only_if_it_is_owned() {
    let lab = lab().await;
    let releases = lab.signing("a");
    releases.install("shop", &shop(), &values("extra=true"), &Options::default()).await.unwrap();
    let listed = format!("{VICTIM}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shop-extra}}\n");
    lab.forge("shop", 99, &record("shop", "lab", 99, &listed)).await;
    let upgraded =
        releases.upgrade("shop", &shop(), &values("mood=wild"), &Options::default()).await.unwrap();
    assert_eq!(upgraded.version, 100);
    assert!(lab.maps.get_opt("shop-extra").await.unwrap().is_none(), "it was the release's, and goes");
    lab.assert_unharmed().await;

    lab.forge("shop", 200, &record("shop", "lab", 200, VICTIM)).await;
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    lab.assert_unharmed().await;
    assert!(releases.revisions("shop").await.unwrap().is_empty());
}

#[tokio::test]
async fn helm_has_the_same_rule_for_what_is_deleted() {
    let lab = lab().await;
    let releases = lab.releases();
    let hookless = || {
        let mut record = record("shop", "lab", 1, VICTIM);
        record["hooks"] = json!([]);
        record
    };
    lab.forge("shop", 1, &hookless()).await;
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    lab.assert_unharmed().await;
    lab.forge("shop", 1, &hookless()).await;
    releases.upgrade("shop", &shop(), &Values::new(), &Options::default()).await.unwrap();
    lab.assert_unharmed().await;
}

#[tokio::test]
async fn a_record_is_what_its_secret_says() {
    let lab = lab().await;
    let releases = lab.releases();
    for (number, record) in [
        (1, record("shop", "den", 1, VICTIM)),
        (2, record("other", "lab", 2, VICTIM)),
        (3, record("shop", "lab", 1, VICTIM)),
    ] {
        lab.forge("shop", number, &record).await;
        let error = releases.get("shop", Some(number)).await.unwrap_err();
        assert!(
            matches!(&error, Error::Record { reason, .. } if reason.contains("content is revision")),
            "{error}"
        );
        assert!(releases.upgrade("shop", &shop(), &Values::new(), &Options::default()).await.is_err());
        // An operator continues: the content of such a record is not used.
        let read = lab.signing("a").get("shop", Some(number)).await.unwrap();
        assert!(read.unverified && read.manifest.is_empty() && read.namespace == "lab");
    }
    lab.signing("a").upgrade("shop", &shop(), &Values::new(), &Options::default()).await.unwrap();
    let den: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "den");
    assert!(den.get_opt("shop").await.unwrap().is_none());
    assert!(lab.maps.get_opt("shop").await.unwrap().is_some());
    // An object with labels that do not match its name is not a record.
    let mut renamed = secret("shop", 7, "deployed", &record("shop", "lab", 7, VICTIM));
    renamed.metadata.name = Some("anything".into());
    lab.tenant.create(&PostParams::default(), &renamed).await.unwrap();
    assert!(!releases.revisions("shop").await.unwrap().iter().any(|revision| revision.version == 7));
}

#[tokio::test]
async fn signatures_do_not_travel() {
    let lab = lab().await;
    let releases = lab.signing("a");
    releases.install("shop", &shop(), &Values::new(), &Options::default()).await.unwrap();
    let own = releases.get("shop", None).await.unwrap();
    assert!(!own.unverified && own.hooks.len() == 1);
    assert!(lab.signing("b").get("shop", None).await.unwrap().unverified, "signed for another owner");

    let original = lab.tenant.get("sh.helm.release.v1.shop.v1").await.unwrap();
    let copy = |name: &str, version: i64| {
        let mut copy = secret(name, version, "deployed", &Value::Null);
        copy.metadata.annotations.clone_from(&original.metadata.annotations);
        copy.data.clone_from(&original.data);
        copy
    };
    for (name, version) in [("shop", 2), ("other", 1)] {
        lab.tenant.create(&PostParams::default(), &copy(name, version)).await.unwrap();
        assert!(releases.get(name, Some(version)).await.unwrap().unverified);
    }
    let den: Api<Secret> = Api::namespaced(lab.client.clone(), "den");
    den.create(&PostParams::default(), &copy("shop", 1)).await.unwrap();
    let elsewhere = Releases::new(lab.client.clone(), "den").verified_by(Some(RecordKey::new([7; 32])), "a");
    assert!(elsewhere.get("shop", None).await.unwrap().unverified);

    // The record is changed.
    let changed = packed(&record("shop", "lab", 1, VICTIM));
    let patch = Patch::Merge(json!({ "data": { "release": BASE64.encode(&changed.0) } }));
    lab.tenant.patch("sh.helm.release.v1.shop.v1", &PatchParams::default(), &patch).await.unwrap();
    let tampered = releases.get("shop", Some(1)).await.unwrap();
    assert!(tampered.unverified && tampered.hooks.is_empty() && tampered.config.is_empty());
    assert_eq!(tampered.info.notes, "");
    let back = RollbackOptions { revision: Some(1), ..RollbackOptions::default() };
    let error = releases.rollback("shop", &back).await.unwrap_err();
    assert!(matches!(error, Error::Unverified(1)), "{error}");
    lab.assert_unharmed().await;
}

#[tokio::test]
async fn what_is_forged_never_becomes_signed() {
    let lab = lab().await;
    let releases = lab.signing("a");
    releases.install("shop", &shop(), &Values::new(), &Options::default()).await.unwrap();
    lab.forge("shop", 5, &record("shop", "lab", 5, VICTIM)).await;
    // The forged one is superseded: its status changes, and it stays unsigned.
    releases.upgrade("shop", &shop(), &values("mood=wild"), &Options::default()).await.unwrap();
    let forged = releases.get("shop", Some(5)).await.unwrap();
    assert_eq!((forged.unverified, forged.info.status), (true, Status::Superseded));
    let stored = lab.tenant.get("sh.helm.release.v1.shop.v5").await.unwrap();
    assert!(!stored.annotations().contains_key("release.steersman.dev/signature"));
    assert_eq!(stored.labels()["status"], "superseded");
    // Without signatures, as Helm reads it.
    let read = lab.releases().get("shop", Some(5)).await.unwrap();
    assert_eq!((read.info.status, read.hooks.len()), (Status::Superseded, 1));
    let first = releases.get("shop", Some(1)).await.unwrap();
    assert_eq!((first.unverified, first.info.status), (false, Status::Superseded), "ours stays ours");
}

#[tokio::test]
async fn a_forged_record_takes_over_nothing() {
    let lab = lab().await;
    let taken = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "shop" } });
    let taken: ConfigMap = serde_json::from_value(taken).unwrap();
    lab.maps.create(&PostParams::default(), &taken).await.unwrap();
    // It claims that the object always belonged to the release.
    let listed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\n";
    lab.forge("shop", 1, &record("shop", "lab", 1, listed)).await;
    let error =
        lab.signing("a").upgrade("shop", &shop(), &Values::new(), &Options::default()).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOwnership { .. }), "{error}");
}

#[tokio::test]
async fn numbers_and_sizes_are_bounded() {
    let lab = lab().await;
    let releases = lab.signing("a");
    lab.forge("shop", i64::MAX, &record("shop", "lab", i64::MAX, VICTIM)).await;
    for attempt in [
        releases.upgrade("shop", &shop(), &Values::new(), &Options::default()).await,
        releases.install("shop", &shop(), &Values::new(), &Options { replace: true, ..<_>::default() }).await,
    ] {
        assert!(attempt.is_err());
    }
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    // Millions of numbers, compressed into a few bytes.
    let start = r#"{"name": "shop", "namespace": "lab", "version": 1, "chart": {"values": {"list": ["#;
    let bomb = format!("{start}{}0]}}}}}}", "0,".repeat(9_000_000));
    let mut secret = secret("shop", 1, "deployed", &Value::Null);
    secret.data = Some([("release".to_owned(), packed_text(&bomb))].into());
    lab.tenant.create(&PostParams::default(), &secret).await.unwrap();
    let read = releases.get("shop", None).await.unwrap();
    assert!(read.unverified && read.chart.values.is_empty());
    releases.upgrade("shop", &shop(), &Values::new(), &Options::default()).await.unwrap();
    // For thousands of kinds that no cluster has, discovery runs once.
    let many: String =
        (0..3000).map(|i| format!("---\napiVersion: x{i}/v1\nkind: K\nmetadata: {{name: a}}\n")).collect();
    lab.forge("shop", 9, &record("shop", "lab", 9, &many)).await;
    releases.upgrade("shop", &shop(), &values("mood=odd"), &Options::default()).await.unwrap();
}

#[tokio::test]
async fn without_a_key_nothing_is_believed() {
    let lab = lab().await;
    let releases = lab.releases().verified_by(None, "a");
    let chart = shop();
    releases.install("shop", &chart, &values("extra=true"), &Options::default()).await.unwrap();
    let current = releases.get("shop", None).await.unwrap();
    assert!(current.unverified && current.hooks.is_empty());
    releases.upgrade("shop", &chart, &values("mood=wild"), &Options::default()).await.unwrap();
    assert!(lab.maps.get_opt("shop-extra").await.unwrap().is_none(), "what is owned is pruned all the same");
    let nothing =
        Release { name: "shop".into(), namespace: "lab".into(), unverified: true, ..Release::default() };
    let rendered =
        releases.candidate(&nothing, &chart, &values("mood=wild"), &Options::default()).await.unwrap();
    let options = UninstallOptions { rendered: Some(Box::new(rendered)), ..UninstallOptions::default() };
    releases.uninstall("shop", &options).await.unwrap();
    assert!(lab.maps.get_opt("shop").await.unwrap().is_none());
    assert!(lab.maps.get_opt("shop-gone").await.unwrap().is_some(), "the chart's own hook ran");
}

#[tokio::test]
async fn a_confined_release_stays_in_its_namespace() {
    let lab = lab().await;
    let chart = |template: &'static str| {
        Chart::from_files([
            File::new("Chart.yaml", "{apiVersion: v2, name: far, version: 1.0.0}"),
            File::new("templates/all.yaml", template),
        ])
        .unwrap()
    };
    let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: far}}";
    let confined = |confinement| lab.releases().confined(confinement);
    for (template, said) in [
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: kube-system}}", "ConfigMap/far"),
        (role, "ClusterRole.rbac.authorization.k8s.io"),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: kube-system, annotations: {helm.sh/hook: pre-install}}}",
            "ConfigMap/far",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: far}, data: {a: {{ (lookup \"v1\" \"ConfigMap\" \"kube-system\" \"victim\").kind }}}}",
            "kube-system",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: far}, data: {a: {{ len (lookup \"v1\" \"Secret\" \"\" \"\").items | quote }}}}",
            "all namespaces",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: far}, data: {a: {{ (lookup \"v1\" \"Namespace\" \"\" \"den\").kind }}}}",
            "the cluster",
        ),
    ] {
        let chart = chart(template);
        let options = Options { replace: true, ..Options::default() };
        let error =
            confined(Confinement::new()).install("far", &chart, &Values::new(), &options).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("confined to namespace lab") && error.contains(said), "{error}");
        assert!(lab.foreign.get_opt("far").await.unwrap().is_none());
    }
    let allowed = Confinement::new().allow("ClusterRole.rbac.authorization.k8s.io");
    confined(allowed).install("wide", &chart(role), &Values::new(), &Options::default()).await.unwrap();
    let inside = "{apiVersion: v1, kind: ConfigMap, metadata: {name: near}, data: {a: {{ len (lookup \"v1\" \"Secret\" \"lab\" \"\").items | quote }}}}";
    confined(Confinement::new())
        .install("near", &chart(inside), &Values::new(), &Options::default())
        .await
        .unwrap();
}
