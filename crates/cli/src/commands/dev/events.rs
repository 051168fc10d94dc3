//! Events of the shown objects, and denied requests.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use steersman_cluster::{Access, Cluster};

use super::view::Seen;
use crate::failure::Result;

/// An event about a shown object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventLine {
    /// Identifies the event and its occurrence: it changes when the event recurs.
    pub(super) key: String,
    /// Kind and name of the involved object.
    pub(super) title: String,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) warning: bool,
    at: Timestamp,
}

/// Returns the events about shown objects, oldest first.
pub(super) async fn events(client: &Client, seen: &[Seen]) -> Result<Vec<EventLine>> {
    let mut titles = HashSet::new();
    seen.iter().for_each(|object| collect(object, &mut titles));
    let api: Api<Event> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await?;
    let mut lines: Vec<EventLine> =
        list.items.iter().map(event_line).filter(|line| titles.contains(line.title.as_str())).collect();
    lines.sort_by(|one, other| (one.at, &one.key).cmp(&(other.at, &other.key)));
    Ok(lines)
}

fn collect<'a>(object: &'a Seen, titles: &mut HashSet<&'a str>) {
    titles.insert(&object.title);
    object.children.iter().for_each(|child| collect(child, titles));
}

fn event_line(event: &Event) -> EventLine {
    let regarding = event.regarding.as_ref();
    let part = |part: Option<&String>| part.cloned().unwrap_or_default();
    let title = format!(
        "{}/{}",
        part(regarding.and_then(|object| object.kind.as_ref())),
        part(regarding.and_then(|object| object.name.as_ref()))
    );
    let series = event.series.as_ref();
    let again = series.map(|series| series.last_observed_time.0);
    let at = again.or_else(|| event.event_time.as_ref().map(|time| time.0));
    let at = at.or_else(|| event.deprecated_last_timestamp.as_ref().map(|time| time.0));
    let count = series.map(|series| series.count).or(event.deprecated_count).unwrap_or(1);
    EventLine {
        key: format!("{}/{}#{count}", event.namespace().unwrap_or_default(), event.name_any()),
        title,
        reason: part(event.reason.as_ref()),
        note: part(event.note.as_ref()),
        warning: event.type_.as_deref() == Some("Warning"),
        at: at.unwrap_or_default(),
    }
}

/// Returns a user's denied requests that are still not allowed, in kubectl's notation.
pub(crate) fn denied(cluster: &Cluster, user: &str) -> Vec<String> {
    let mut denied: Vec<String> = cluster.denied(user).iter().map(describe).collect();
    denied.sort();
    denied.dedup();
    denied
}

fn describe(access: &Access) -> String {
    if access.resource.is_empty() {
        return format!("{} {}", access.verb, access.path);
    }
    let mut resource = access.resource.clone();
    if !access.subresource.is_empty() {
        resource = format!("{resource}/{}", access.subresource);
    }
    if !access.group.is_empty() {
        resource = format!("{resource}.{}", access.group);
    }
    if access.namespace.is_empty() {
        format!("{} {resource}", access.verb)
    } else {
        format!("{} {resource} in namespace {}", access.verb, access.namespace)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
    use kube::api::PostParams;
    use serde_json::{from_value, json};
    use steersman_cluster::User;

    use super::*;

    #[test]
    fn refusals_are_named_as_kubectl_names_them() {
        let access = Access { verb: "get".into(), path: "/metrics".into(), ..Access::default() };
        assert_eq!(describe(&access), "get /metrics");
        let access = Access { verb: "list".into(), resource: "nodes".into(), ..Access::default() };
        assert_eq!(describe(&access), "list nodes");
        let access = Access {
            verb: "update".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "status".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ..Access::default()
        };
        assert_eq!(describe(&access), "update deployments/status.apps in namespace shop");
    }

    #[test]
    fn events_are_told_by_what_they_are_about() {
        let event = |rest: serde_json::Value| {
            let mut event = json!({
                "metadata": { "name": "e", "namespace": "shop" }, "reason": "Scaled", "note": "to 2", "type": "Warning",
                "regarding": { "kind": "Deployment", "name": "web" }, "eventTime": "2024-01-01T00:00:00.000000Z",
            });
            event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            event_line(&from_value(event).unwrap())
        };
        let once = event(json!({}));
        assert_eq!(
            (once.title.as_str(), once.key.as_str(), once.warning),
            ("Deployment/web", "shop/e#1", true)
        );
        assert_eq!(once.at, "2024-01-01T00:00:00Z".parse().unwrap());
        let last = json!({ "series": { "count": 3, "lastObservedTime": "2024-01-02T00:00:00.000000Z" } });
        let again = event(last);
        assert_eq!(again.key, "shop/e#3");
        assert_eq!(again.at, "2024-01-02T00:00:00Z".parse().unwrap());
        let old = event(json!({
            "eventTime": null, "type": "Normal", "deprecatedCount": 2, "deprecatedLastTimestamp": "2024-01-03T00:00:00Z",
        }));
        assert_eq!((old.key.as_str(), old.warning), ("shop/e#2", false));
        assert_eq!(old.at, "2024-01-03T00:00:00Z".parse().unwrap());
    }

    #[tokio::test]
    async fn a_refusal_goes_when_the_role_allows_it() {
        let cluster = Cluster::builder().record_access(true).start().await.unwrap();
        let user = User::service_account("default", "operator");
        let secrets: Api<Secret> = Api::namespaced(cluster.client_as(user.clone()), "default");
        for name in ["one", "other"] {
            assert!(secrets.get(name).await.is_err());
        }
        assert_eq!(denied(&cluster, &user.name), ["get secrets in namespace default"]);
        assert!(denied(&cluster, "somebody").is_empty());

        let roles: Api<ClusterRole> = Api::all(cluster.client());
        let role = json!({
            "metadata": { "name": "r" }, "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }],
        });
        roles.create(&PostParams::default(), &from_value(role).unwrap()).await.unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
        let binding = json!({
            "metadata": { "name": "b" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "operator" }],
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r" },
        });
        bindings.create(&PostParams::default(), &from_value(binding).unwrap()).await.unwrap();
        assert!(secrets.get_opt("one").await.unwrap().is_none());
        assert_eq!(denied(&cluster, &user.name).len(), 1, "the other was not asked for again");
        assert!(secrets.get_opt("other").await.unwrap().is_none());
        assert!(denied(&cluster, &user.name).is_empty());
    }
}
