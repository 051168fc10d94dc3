//! Operators under test run with the role that they ship.

use k8s_openapi::api::{
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, RoleBinding},
};
use kube::{Api, api::ListParams, core::ObjectMeta};
use serde_json::json;
use steersman_cluster::{Cluster, User};

fn forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[tokio::test]
async fn the_roles_for_people_are_gathered() {
    let cluster = Cluster::start().await.unwrap();
    cluster.settled().await;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let count = async |name: &str| roles.get(name).await.unwrap().rules.unwrap_or_default().len();
    // The numbers of rules in a real cluster with its controller manager.
    assert_eq!([count("view").await, count("edit").await, count("admin").await], [12, 27, 29]);

    let bindings: Api<RoleBinding> = Api::default_namespaced(cluster.client());
    let binding = serde_json::from_value(json!({
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "viewers"}],
    }))
    .unwrap();
    bindings.create(&Default::default(), &binding).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client_as(User::named("jane", ["viewers"])));
    maps.list(&ListParams::default()).await.unwrap();
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    assert!(forbidden(&maps.create(&Default::default(), &map).await.unwrap_err()));

    // A custom role is aggregated too.
    let more: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
    }))
    .unwrap();
    roles.create(&Default::default(), &more).await.unwrap();
    cluster.settled().await;
    maps.create(&Default::default(), &map).await.unwrap();
}

#[tokio::test]
async fn what_was_asked_for_is_recorded() {
    let cluster = Cluster::builder().record_access(true).start().await.unwrap();
    let account = User::service_account("default", "operator");
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client_as(account.clone()));
    assert!(forbidden(&maps.list(&ListParams::default()).await.unwrap_err()));
    let all = cluster.accesses();
    let (access, count) = all.iter().find(|(access, _)| access.user == account.name).unwrap();
    assert_eq!(
        (access.verb.as_str(), access.resource.as_str(), access.allowed, *count),
        ("list", "configmaps", false, 1)
    );
}
