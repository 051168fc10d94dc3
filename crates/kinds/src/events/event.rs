//! Event of `events.k8s.io`, stored in the form of the core group.

use crate::{
    core::event::{COLUMNS, Event, SELECTABLE, cell},
    kind::{Kind, Stored},
};

pub(super) const KIND: Kind = Kind {
    rules: &Event { core: false },
    allows_create_on_update: true,
    selectable: SELECTABLE,
    renamed: &[
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
    ],
    stored: Some(Stored { group: "", version: "v1", definition: Some("io.k8s.api.core.v1.Event") }),
    columns: COLUMNS,
    cell,
    ..Kind::new("events.k8s.io", "events")
};
