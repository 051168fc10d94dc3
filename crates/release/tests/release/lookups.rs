//! `lookup` and `.Capabilities`: what templates see of the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};
use steersman_chart::Values;
use steersman_cluster::User;
use steersman_release::{ApplySet, DryRun, Error, Kinds, Options, Releases, documents};

use crate::support::{chart, cluster, create_map, judged, maps, quick};

/// Returns the result of a template expression.
async fn evaluated(releases: &Releases, expression: &str) -> Result<Value, Error> {
    evaluated_with(releases, expression, Options { dry_run: Some(DryRun::Server), ..quick() }).await
}

async fn evaluated_with(releases: &Releases, expression: &str, options: Options) -> Result<Value, Error> {
    let template = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{x: {{{{ {expression} }}}}}}}}"
    );
    let release = releases.install("shop", &chart(&template), &Values::new(), &options).await?;
    Ok(documents(&release.manifest)?[0]["data"]["x"].clone())
}

fn definition(kind: &str, plural: &str, versions: &[&str]) -> Value {
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, name)| json!({ "name": name, "served": true, "storage": index == 0, "schema": schema }))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": versions,
        },
    })
}

async fn define(client: &Client, definition: Value) {
    ApplySet::new(client.clone(), "set", "default").apply_only(vec![definition]).await.unwrap();
}

#[tokio::test]
async fn lookups_find_objects_and_lists() {
    let (_cluster, client, releases) = cluster().await;
    create_map(&client, "known").await;
    let cases = [
        (r#"(lookup "v1" "ConfigMap" "default" "known").metadata.name"#, json!("known")),
        (r#"(lookup "v1" "ConfigMap" "default" "known").kind"#, json!("ConfigMap")),
        (r#"lookup "v1" "ConfigMap" "default" "unknown" | toJson"#, json!({})),
        (r#"lookup "v1" "ConfigMap" "kube-system" "known" | toJson"#, json!({})),
        (r#"(lookup "v1" "Namespace" "" "default").metadata.name"#, json!("default")),
        // The namespace is ignored for cluster-scoped kinds.
        (r#"(lookup "v1" "Namespace" "default" "default").metadata.name"#, json!("default")),
        (r#"(lookup "v1" "ConfigMap" "default" "").kind"#, json!("ConfigMapList")),
        (
            r#"range (lookup "v1" "ConfigMap" "default" "").items }}{{ if eq .metadata.name "known" }}{{ .apiVersion }}/{{ .kind }}{{ end }}{{ end"#,
            json!("v1/ConfigMap"),
        ),
        (
            r#"range (lookup "v1" "ConfigMap" "" "").items }}{{ if eq .metadata.name "known" }}{{ .metadata.namespace }}{{ end }}{{ end"#,
            json!("default"),
        ),
        (r#"len (lookup "v1" "Secret" "default" "").items"#, json!(0)),
        // A lookup that depends on the result of another.
        (
            r#"(lookup "v1" "ConfigMap" "default" (lookup "v1" "ConfigMap" "default" "known").metadata.name).kind"#,
            json!("ConfigMap"),
        ),
    ];
    for (expression, expected) in cases {
        assert_eq!(evaluated(&releases, expression).await.unwrap(), expected, "{expression}");
    }
    let error = evaluated(&releases, r#"lookup "example.com/v1" "Never" "" "x" | toJson"#).await.unwrap_err();
    assert!(
        error.to_string().contains("no matches for kind \"Never\" in version \"example.com/v1\""),
        "{error}"
    );
    let client_side = Options { dry_run: Some(DryRun::Client), ..quick() };
    let found =
        evaluated_with(&releases, r#"lookup "v1" "ConfigMap" "default" "known" | toJson"#, client_side).await;
    assert_eq!(found.unwrap(), json!({}));
}

#[tokio::test]
async fn lookups_that_are_refused_say_so() {
    let (cluster, client, _) = cluster().await;
    let expression = r#"lookup "v1" "Secret" "kube-system" "" | toJson"#;
    let stranger = cluster.client_as(User::service_account("default", "stranger"));
    let error = evaluated(&Releases::new(stranger, "default"), expression).await.unwrap_err();
    assert!(error.to_string().contains("forbidden"), "{error}");
    // A list of a kind that was just removed.
    for (code, is_found) in [(404, true), (500, false)] {
        let gone = judged(&client, move |seen| seen.is(Method::GET, "kube-system/secrets").then_some(code));
        let found = evaluated(&Releases::new(gone, "default"), expression).await;
        match found {
            Ok(found) => assert!(is_found && found == json!({}), "{found}"),
            Err(error) => {
                assert!(!is_found && error.to_string().contains("the test answers with 500"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_render_does_not_ask_for_ever() {
    let (_cluster, client, releases) = cluster().await;
    // Each names the next.
    for index in 0..20 {
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(format!("n{index}")), ..ObjectMeta::default() },
            data: Some([("next".to_owned(), format!("n{}", index + 1))].into()),
            ..ConfigMap::default()
        };
        maps(&client).create(&PostParams::default(), &map).await.unwrap();
    }
    let follow = |times: usize| {
        format!(
            r#"$at := "n0" }}}}{{{{ range until {times} }}}}{{{{ $at = dig "data" "next" "n0" (lookup "v1" "ConfigMap" "default" $at) }}}}{{{{ end }}}}{{{{ $at"#
        )
    };
    assert_eq!(evaluated(&releases, &follow(15)).await.unwrap(), json!("n15"));
    let error = evaluated(&releases, &follow(16)).await.unwrap_err();
    assert_eq!(error.to_string(), "lookups of templates did not converge after 16 rounds");
}

#[tokio::test]
async fn hosts_are_asked_for_only_if_allowed() {
    let (_cluster, _client, releases) = cluster().await;
    let expression = r#"getHostByName "localhost" | quote"#;
    assert_eq!(evaluated(&releases, expression).await.unwrap(), json!(""));
    let options = Options { dry_run: Some(DryRun::Server), enable_dns: true, ..quick() };
    let found = evaluated_with(&releases, expression, options).await.unwrap();
    assert!(["127.0.0.1", "::1"].contains(&found.as_str().unwrap()), "{found}");
}

#[tokio::test]
async fn capabilities_are_those_of_the_cluster() {
    let (_cluster, client, releases) = cluster().await;
    let version = client.apiserver_version().await.unwrap();
    let cases = [
        (".Capabilities.KubeVersion.Version", json!(version.git_version)),
        (".Capabilities.KubeVersion.Major | quote", json!(version.major)),
        (".Capabilities.KubeVersion.Minor | quote", json!(version.minor)),
        (r#".Capabilities.APIVersions.Has "v1""#, json!(true)),
        (r#".Capabilities.APIVersions.Has "v1/ConfigMap""#, json!(true)),
        (r#".Capabilities.APIVersions.Has "apps/v1/Deployment""#, json!(true)),
        // A subresource.
        (
            r#".Capabilities.APIVersions.Has "policy/v1/Eviction" | or (.Capabilities.APIVersions.Has "v1/Eviction") | or (.Capabilities.APIVersions.Has "autoscaling/v1/Scale")"#,
            json!(true),
        ),
        (r#".Capabilities.APIVersions.Has "example.com/v1""#, json!(false)),
        (r#".Capabilities.APIVersions.Has "v1/Deployment""#, json!(false)),
    ];
    for (expression, expected) in cases {
        assert_eq!(evaluated(&releases, expression).await.unwrap(), expected, "{expression}");
    }
}

#[tokio::test]
async fn kinds_are_asked_for_once_and_again_when_one_is_missing() {
    let (_cluster, client, _) = cluster().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let tapped = judged(&client, move |seen| {
        if seen.is(Method::GET, "/version") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        None
    });
    let kinds = Kinds::new(tapped);
    let times = || asked.load(Ordering::SeqCst);
    let map = kinds.find("v1", "ConfigMap").await.unwrap();
    assert_eq!(
        (map.namespaced, map.resource.plural.as_str(), map.resource.api_version.as_str()),
        (true, "configmaps", "v1")
    );
    let role = kinds.find("rbac.authorization.k8s.io/v1", "ClusterRole").await.unwrap();
    assert_eq!(
        (role.namespaced, role.resource.group.as_str(), role.resource.version.as_str()),
        (false, "rbac.authorization.k8s.io", "v1")
    );
    kinds.capabilities().await.unwrap();
    assert_eq!(times(), 1);
    assert_eq!(kinds.find_opt("example.com/v1", "Widget").await.unwrap(), None);
    assert_eq!(times(), 2);
    let missing = kinds.find("example.com/v1", "Widget").await.unwrap_err();
    assert_eq!(missing.to_string(), "no matches for kind \"Widget\" in version \"example.com/v1\"");
    assert_eq!(times(), 3);
    define(&client, definition("Widget", "widgets", &["v2", "v1"])).await;
    assert_eq!(kinds.find("example.com/v1", "Widget").await.unwrap().resource.plural, "widgets");
    assert_eq!(times(), 4);
    assert_eq!(kinds.find("example.com/v2", "Widget").await.unwrap().resource.version, "v2");
    // In a group there are several versions: the result is always the same one.
    let found = kinds.find_in_group("example.com", "Widget").await.unwrap().unwrap();
    assert_eq!(found.resource.api_version, "example.com/v1");
    assert_eq!(kinds.find_in_group("example.com", "ConfigMap").await.unwrap(), None);
    assert_eq!(kinds.find_in_group("", "Widget").await.unwrap(), None);
    assert_eq!(kinds.find_in_group("", "ConfigMap").await.unwrap(), Some(map));
    assert_eq!(times(), 4);
    let other = kinds.clone();
    other.invalidate().await;
    kinds.capabilities().await.unwrap();
    assert_eq!(times(), 5, "clones share what they know");
    // Of many concurrent callers, one runs discovery.
    other.invalidate().await;
    let asking = (0..8).map(|_| kinds.find("v1", "ConfigMap"));
    futures::future::try_join_all(asking).await.unwrap();
    assert_eq!(times(), 6);
}
