//! What happened, and what was not allowed.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use steersman_cluster::{Access, Cluster};

use super::view::Seen;
use crate::failure::{Failure, Result};

/// An event about something that is seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// What tells it from others, and from itself before it happened again.
    pub(super) key: String,
    /// Kind and name of what it is about.
    pub(super) title: String,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) warning: bool,
    at: Timestamp,
}

/// The events about what is seen, oldest first.
pub(super) async fn events(client: &Client, seen: &[Seen]) -> Result<Vec<Told>> {
    let mut titles = HashSet::new();
    seen.iter().for_each(|object| collect(object, &mut titles));
    let api: Api<Event> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await.map_err(|error| Failure::new(error.to_string()))?;
    let mut told: Vec<Told> =
        list.items.iter().map(tell).filter(|told| titles.contains(told.title.as_str())).collect();
    told.sort_by(|one, other| (one.at, &one.key).cmp(&(other.at, &other.key)));
    Ok(told)
}

fn collect<'a>(object: &'a Seen, titles: &mut HashSet<&'a str>) {
    titles.insert(&object.title);
    object.children.iter().for_each(|child| collect(child, titles));
}

fn tell(event: &Event) -> Told {
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
    Told {
        key: format!("{}/{}#{count}", event.namespace().unwrap_or_default(), event.name_any()),
        title,
        reason: part(event.reason.as_ref()),
        note: part(event.note.as_ref()),
        warning: event.type_.as_deref() == Some("Warning"),
        at: at.unwrap_or_default(),
    }
}

/// What a user was not allowed to do, as kubectl would say it.
pub(super) fn denied(cluster: &Cluster, user: &str) -> Vec<String> {
    let accesses = cluster.accesses();
    let mut denied: Vec<String> = accesses
        .iter()
        .filter(|(access, _)| !access.allowed && access.user == user)
        .map(|(access, _)| describe(access))
        .collect();
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
