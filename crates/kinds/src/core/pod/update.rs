//! Preparation and validation of pod updates, by subresource.

use serde_json::{Map, Value};

use super::{affinity, defaults, security, validate_whole};
use crate::{
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    internal, ip,
    kind::Change,
};
use steersman_api::{names, object};

/// Resets fields that the subresource can't change.
pub(super) fn prepare(subresource: Option<&str>, object: &mut Value, old: &Value) {
    match subresource {
        Some("status") => {
            let owners = old.path(&["metadata", "ownerReferences"]).clone();
            let metadata = object::metadata(object);
            match owners {
                Value::Null => metadata.remove("ownerReferences"),
                owners => metadata.insert("ownerReferences".into(), owners),
            };
            prepare_status(object, old);
        }
        Some("ephemeralcontainers") => {
            let containers = object.at("spec").at("ephemeralContainers").clone();
            take_back(object, old);
            let spec = object::child(object, "spec");
            match containers {
                Value::Null => spec.remove("ephemeralContainers"),
                containers => spec.insert("ephemeralContainers".into(), containers),
            };
        }
        Some("resize") => prepare_resize(object, old),
        _ => {}
    }
    defaults::drop_disabled(object::child(object, "spec"));
}

fn prepare_status(object: &mut Value, old: &Value) {
    let status = object::child(object, "status");
    for field in ["qosClass", "observedGeneration"] {
        let absent = status.get(field).is_none_or(|value| value.is_null() || value.as_i64() == Some(0));
        if let Some(value) = old.at("status").opt(field).filter(|_| absent) {
            status.insert(field.into(), value.clone());
        }
    }
    let mut known: Vec<&Value> = old.at("status").list("conditions").iter().collect();
    for condition in check::children(status, "conditions") {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        let Some(place) = known.iter().position(|other| other.str("type") == kind) else { continue };
        let generation = known.remove(place).int("observedGeneration");
        let own = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
        if own == 0 && generation != 0 {
            condition.insert("observedGeneration".into(), generation.into());
        }
    }
}

/// Resets the object to `old`, except for resourceVersion and managedFields.
fn take_back(object: &mut Value, old: &Value) {
    let metadata = object.at("metadata").clone();
    *object = old.clone();
    let target = object::metadata(object);
    for field in ["resourceVersion", "managedFields"] {
        match metadata.get(field) {
            Some(value) => target.insert(field.into(), value.clone()),
            None => target.remove(field),
        };
    }
}

fn prepare_resize(object: &mut Value, old: &Value) {
    let same = |list: &str| {
        let (new, old) = (object.at("spec").list(list), old.at("spec").list(list));
        new.len() == old.len()
    };
    if !same("containers") || !same("initContainers") {
        return;
    }
    let wanted = object.at("spec").clone();
    take_back(object, old);
    let spec = object::child(object, "spec");
    match wanted.opt("resources") {
        Some(resources) => spec.insert("resources".into(), resources.clone()),
        None => spec.remove("resources"),
    };
    for list in ["containers", "initContainers"] {
        let news = wanted.list(list);
        let Some(olds) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        if olds.iter().zip(news).any(|(old, new)| old.str("name") != new.str("name")) {
            *olds = news.to_vec();
            continue;
        }
        for (old, new) in olds.iter_mut().zip(news) {
            for field in ["resources", "resizePolicy"] {
                object::carry(new, old, field);
            }
        }
    }
}

fn annotation_changes(change: Change<'_>, errors: &mut Errors) {
    const ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let metadata = FieldPath::root("metadata");
    let at = metadata.field("annotations");
    let path = ["metadata", "annotations"];
    let (new, old) = (change.object.path(&path), change.old.path(&path));
    for (key, _) in old.as_object().into_iter().flatten().filter(|(key, value)| new.get(*key) != Some(value))
    {
        if key.starts_with(ARMOR) {
            errors.forbidden(at.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(at.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.as_object().into_iter().flatten().filter(|(key, _)| old.get(key.as_str()).is_none()) {
        if key.starts_with(ARMOR) {
            errors.forbidden(at.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(at.key(key), "may not add mirror pod annotation");
        }
    }
    security::annotations(at, new, change.object.at("spec"), errors);
}

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update that is not of a subresource.
pub(super) fn validate(change: Change<'_>, errors: &mut Errors) {
    change.metadata(errors);
    change.whole_metadata(errors);
    validate_whole(change.object, errors);
    annotation_changes(change, errors);
    let (new, old) = (change.object.at("spec"), change.old.at("spec"));
    let at = FieldPath::root("spec");
    for field in ["containers", "initContainers"] {
        let list = at.field(field);
        if new.list(field).len() != old.list(field).len() {
            return errors.forbidden(list, "pod updates may not add or remove containers");
        }
        for (index, container) in new.list(field).iter().enumerate() {
            let at = list.index(index);
            if container.str("image").is_empty() {
                errors.required(at.field("image"), "");
            }
            super::container::image_spaces(at, container, errors);
        }
    }
    let deadline = at.field("activeDeadlineSeconds");
    match (new.opt_int("activeDeadlineSeconds"), old.opt_int("activeDeadlineSeconds")) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            return errors.in_range(deadline, now, 0, i64::from(i32::MAX));
        }
        (Some(now), Some(then)) if then < now => {
            return errors.invalid(deadline, now, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            errors.invalid(deadline, Value::Null, why);
        }
        _ => {}
    }
    added_tolerations(at.field("tolerations"), new.list("tolerations"), old.list("tolerations"), errors);
    let list = at.field("schedulingGates");
    for (index, gate) in new.list("schedulingGates").iter().enumerate() {
        let name = gate.str("name");
        let known = old.list("schedulingGates").iter().any(|other| other.str("name") == name);
        let last = new.list("schedulingGates").iter().rposition(|other| other.str("name") == name);
        if !known && last == Some(index) {
            let at = list.index(index);
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(at.field("name"), why);
        }
    }
    if new == old {
        return;
    }
    let wanted = without_updatable(at, new, old, errors);
    if wanted != *old {
        let shown = change.diff("spec", "core.PodSpec", old, &wanted);
        let why = format!("pod updates may not change fields other than {UPDATABLE}\n{shown}");
        errors.forbidden("spec", why);
    }
}

/// Returns the new spec with mutable fields reset, to detect changes of immutable ones.
fn without_updatable(at: FieldPath<'_>, new: &Value, old: &Value, errors: &mut Errors) -> Value {
    let mut wanted = new.clone();
    let spec = object::ensure(&mut wanted);
    for field in ["containers", "initContainers"] {
        for (container, before) in check::children(spec, field).zip(old.list(field)) {
            match before.opt("image") {
                Some(image) => container.insert("image".into(), image.clone()),
                None => container.remove("image"),
            };
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(spec, old, field);
    }
    if old.int("terminationGracePeriodSeconds") < 0 && new.opt_int("terminationGracePeriodSeconds") == Some(1)
    {
        restore(spec, old, "terminationGracePeriodSeconds");
    }
    if old.list("schedulingGates").is_empty() {
        return wanted;
    }
    // A pod with scheduling gates may restrict its node selector and node affinity further.
    let removed =
        old.pairs("nodeSelector").any(|(key, value)| new.at("nodeSelector").get(key) != Some(value));
    if removed {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(at.field("nodeSelector"), new.shown("nodeSelector"), why);
    }
    restore(spec, old, "nodeSelector");
    let (now, then) = (new.path(&["affinity", "nodeAffinity"]), old.path(&["affinity", "nodeAffinity"]));
    if now != then {
        node_affinity(now, then, errors);
        let affinity = check::made(spec, "affinity");
        match then {
            Value::Null => affinity.remove("nodeAffinity"),
            then => affinity.insert("nodeAffinity".into(), then.clone()),
        };
        if affinity.is_empty() && old.opt("affinity").is_none() {
            spec.remove("affinity");
        }
    }
    wanted
}

fn restore(spec: &mut Map<String, Value>, old: &Value, field: &str) {
    match old.opt(field) {
        Some(value) => spec.insert(field.into(), value.clone()),
        None => spec.remove(field),
    };
}

fn node_affinity(new: &Value, old: &Value, errors: &mut Errors) {
    let path = ["requiredDuringSchedulingIgnoredDuringExecution"];
    let (now, then) = (new.path(&path).list("nodeSelectorTerms"), old.path(&path).list("nodeSelectorTerms"));
    let place = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let shown = |terms: &[Value]| {
        let terms: Vec<String> = terms.iter().map(|t| internal::show("core.NodeSelectorTerm", t)).collect();
        if terms.is_empty() { "null".to_owned() } else { format!("[{}]", terms.join(",")) }
    };
    if !then.is_empty() && then.len() != now.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid_shown(place, shown(now), why);
    }
    for (index, (now, then)) in now.iter().zip(then).enumerate() {
        let kept = ["matchExpressions", "matchFields"]
            .iter()
            .all(|field| now.list(field).get(..then.list(field).len()) == Some(then.list(field)));
        let empty =
            |term: &Value| term.list("matchExpressions").is_empty() && term.list("matchFields").is_empty();
        if !kept || (empty(then) && !empty(now)) {
            let why = "only additions are allowed (no mutations or deletions)";
            let shown = internal::show("core.NodeSelectorTerm", now);
            errors.invalid_shown(format!("{place}[{index}]"), shown, why);
        }
    }
}

fn added_tolerations(at: FieldPath<'_>, new: &[Value], old: &[Value], errors: &mut Errors) {
    let same = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|field| a.str(field) == b.str(field))
    };
    if old.iter().any(|before| !new.iter().any(|now| same(before, now))) {
        return errors.forbidden(at, "existing toleration can not be modified except its tolerationSeconds");
    }
    affinity::tolerations(at, new, errors);
}

/// Validates an update of the status.
pub(super) fn validate_status(change: Change<'_>, errors: &mut Errors) {
    change.metadata(errors);
    annotation_changes(change, errors);
    let at = FieldPath::root("status");
    let (new, old) = (change.object.at("status"), change.old.at("status"));
    let list = at.field("conditions");
    for (index, condition) in new.list("conditions").iter().enumerate() {
        let at = list.index(index);
        let generation = condition.int("observedGeneration");
        if generation < 0 {
            errors.invalid(at.field("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = condition.str("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.all(&at.field("Type"), kind, names::qualified(kind));
        }
    }
    let node = new.str("nominatedNodeName");
    if !node.is_empty() && node != old.str("nominatedNodeName") {
        errors.all(&at.field("nominatedNodeName"), node, names::subdomain(node));
        if !change.old.at("spec").str("nodeName").is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            errors.forbidden(at.field("nominatedNodeName"), why);
        }
    }
    if new.int("observedGeneration") < 0 {
        let why = "must be a non-negative integer";
        errors.invalid(at.field("observedGeneration"), new.int("observedGeneration"), why);
    }
    if new.str("qosClass") != old.str("qosClass") {
        errors.invalid(at.field("qosClass"), new.str("qosClass"), IMMUTABLE);
    }
    transitions(at, change, errors);
    addresses(at, new, old, errors);
}

/// Reports terminated containers that run again although their restart policy does not allow it.
fn transitions(at: FieldPath<'_>, change: Change<'_>, errors: &mut Errors) {
    let spec = change.old.at("spec");
    let (new, old) = (change.object.at("status"), change.old.at("status"));
    let terminated = |status: &Value| status.at("state").opt("terminated").is_some();
    for field in ["containerStatuses", "initContainerStatuses"] {
        let always = spec.str("restartPolicy") == "Always";
        if field == "containerStatuses" && always {
            continue;
        }
        let list = at.field(field);
        for before in old.list(field).iter().filter(|status| terminated(status)) {
            let own_rules = ["containers", "initContainers"]
                .iter()
                .flat_map(|list| spec.list(list))
                .find(|container| container.str("name") == before.str("name"))
                .is_some_and(|container| container.opt("restartPolicy").is_some());
            let failed = before.path(&["state", "terminated"]).int("exitCode") != 0;
            if own_rules
                || (failed
                    && (spec.str("restartPolicy") == "OnFailure" || field != "containerStatuses" && always))
            {
                continue;
            }
            for (index, now) in new.list(field).iter().enumerate() {
                if now.str("name") == before.str("name") && !terminated(now) {
                    let at = list.index(index);
                    errors.forbidden(at.field("state"), "may not be transitioned to non-terminated state");
                }
            }
        }
    }
}

fn addresses(at: FieldPath<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    for (field, single) in [("podIPs", None), ("hostIPs", Some("hostIP"))] {
        let list = at.field(field);
        let addresses: Vec<&str> = new.list(field).iter().map(|entry| entry.str("ip")).collect();
        if let (Some(single), Some(first)) = (single, addresses.first())
            && new.str(single) != *first
        {
            let at = list.index(0);
            errors.invalid(at.field("ip"), *first, "must be equal to `hostIP`");
        }
        let known: Vec<&str> = old.list(field).iter().map(|entry| entry.str("ip")).collect();
        for (index, address) in addresses.iter().enumerate().filter(|(_, address)| !known.contains(address)) {
            ip::legacy_ip(list.index(index), address, errors);
        }
        if addresses.len() > 1 {
            let v4 = addresses.iter().filter(|a| !a.contains(':')).count();
            if v4 == 0 || v4 == addresses.len() || addresses.len() > 2 {
                let kind = if field == "podIPs" { "[]core.PodIP" } else { "[]core.HostIP" };
                let shown = internal::show(kind, new.at(field));
                errors.invalid_shown(list, shown, "may specify no more than one IP for each IP family");
            }
        }
    }
}

/// Validates an update of ephemeral containers.
pub(super) fn validate_ephemeral(change: Change<'_>, errors: &mut Errors) {
    change.metadata(errors);
    change.whole_metadata(errors);
    validate_whole(change.object, errors);
    annotation_changes(change, errors);
    let field = "ephemeralContainers";
    for before in change.old.at("spec").list(field) {
        let name = before.str("name");
        let quoted = steersman_api::status::quote(name);
        match change.object.at("spec").list(field).iter().rfind(|now| now.str("name") == name) {
            None => {
                let why = format!("existing ephemeral containers {quoted} may not be removed\n");
                errors.forbidden("spec.ephemeralContainers", why);
            }
            Some(now) if now != before => {
                let shown = change.diff("", "core.EphemeralContainer", before, now);
                let why = format!("existing ephemeral containers {quoted} may not be changed\n{shown}");
                errors.forbidden("spec.ephemeralContainers", why);
            }
            Some(_) => {}
        }
    }
}

/// Validates an in-place resize.
pub(super) fn validate_resize(change: Change<'_>, errors: &mut Errors) {
    change.metadata(errors);
    change.whole_metadata(errors);
    validate_whole(change.object, errors);
    let (new, old) = (change.object.at("spec"), change.old.at("spec"));
    let at = FieldPath::root("spec");
    if super::quality(old) != super::quality(new) {
        let class = change.object.at("status").str("qosClass");
        errors.invalid(at, class, "Pod QOS Class may not change as a result of resizing");
    }
    let mut moved = false;
    for field in ["containers", "initContainers"] {
        let list = at.field(field);
        if new.list(field).len() != old.list(field).len() {
            errors.forbidden(list, format!("{field} may not be added or removed on resize"));
            moved = true;
            continue;
        }
        for (index, (now, then)) in new.list(field).iter().zip(old.list(field)).enumerate() {
            if now.str("name") != then.str("name") {
                let at = list.index(index);
                let why = format!("{field} may not be renamed or reordered on resize");
                errors.forbidden(at.field("name"), why);
                moved = true;
            }
        }
    }
    if moved {
        return;
    }
    for field in ["initContainers", "containers"] {
        let list = at.field(field);
        for (index, (now, then)) in new.list(field).iter().zip(old.list(field)).enumerate() {
            let here = list.index(index);
            let place = here.field("resources");
            let sidecar = field == "containers" || then.opt_str("restartPolicy") == Some("Always");
            for part in ["requests", "limits"] {
                let gone = then
                    .at("resources")
                    .pairs(part)
                    .any(|(name, _)| now.path(&["resources", part]).get(name).is_none());
                if gone && sidecar {
                    errors.forbidden(place.field(part), format!("resource {part} cannot be removed"));
                }
            }
            if field == "initContainers" && !sidecar {
                if now != then {
                    errors.forbidden(at, "resources for non-sidecar init containers are immutable");
                }
            } else if with_compute_of(now, then) != *then {
                let (place, why) = if field == "containers" {
                    (at, "only cpu and memory resources are mutable")
                } else {
                    (here, "only cpu and memory resources for init or sidecar containers are mutable")
                };
                errors.forbidden(place, why);
            }
        }
    }
}

/// Returns a container with the CPU and memory resources of another one.
fn with_compute_of(now: &Value, then: &Value) -> Value {
    let mut out = now.clone();
    let resources = object::child(&mut out, "resources");
    resources.remove("claims");
    for part in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            let before = then.path(&["resources", part]).opt(name).cloned();
            let list = check::made(resources, part);
            match before {
                Some(amount) => list.insert(name.into(), amount),
                None => list.remove(name),
            };
            if list.is_empty() {
                resources.remove(part);
            }
        }
    }
    out
}
