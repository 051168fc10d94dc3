//! PersistentVolume.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _, names, object, schema::quantity, status::ApiResult, strategy::Hook,
    table::Cell,
};

use crate::{
    cells::{access_modes, list, text},
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read, child},
    core::persistent_volume_claim as claim,
    core::pod::{affinity, defaults, volume, warnings_of_node_term},
    internal,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &PersistentVolume,
    has_status: true,
    columns: &[
        Column::NAME,
        Column::string("Capacity"),
        Column::string("Access Modes"),
        Column::string("Reclaim Policy"),
        Column::string("Status"),
        Column::string("Claim"),
        Column::string("StorageClass"),
        Column::string("VolumeAttributesClass"),
        Column::string("Reason"),
        Column::AGE,
        Column::string("VolumeMode").wide(),
    ],
    cell,
    ..Kind::new("", "persistentvolumes")
};

struct PersistentVolume;

impl Rules for PersistentVolume {
    fn default(&self, _: &str, object: &mut Value) {
        check::default_zero(object::child(object, "status"), "phase", "Pending");
        let spec = object::child(object, "spec");
        check::default_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        check::default(spec, "volumeMode", "Filesystem");
        if let Some(path) = child(spec, "hostPath") {
            check::default(path, "type", "");
        }
        if let Some(disk) = child(spec, "iscsi") {
            check::default_zero(disk, "iscsiInterface", "default");
        }
        if let Some(disk) = child(spec, "rbd") {
            defaults::rbd(disk);
        }
        if let Some(disk) = child(spec, "azureDisk") {
            defaults::azure_disk(disk);
        }
        if let Some(disk) = child(spec, "scaleIO") {
            defaults::scale_io(disk);
        }
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let now = hook.environment.now_string();
        let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        object::ensure(object).insert("status".into(), status);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource != Some("status") {
            return Ok(());
        }
        let field = "lastPhaseTransitionTime";
        let (then, phase) = (old.at("status").at(field).clone(), old.at("status").str("phase").to_owned());
        let now = hook.environment.now_string();
        let status = object::child(object, "status");
        let own = status.get(field).cloned().unwrap_or_default();
        let same = status.get("phase").and_then(Value::as_str).unwrap_or_default() == phase;
        if same && own.is_null() && !then.is_null() {
            status.insert(field.into(), then);
        } else if !same && (own.is_null() || own == then) {
            status.insert(field.into(), now.into());
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_volume(FieldPath::root("spec"), object.at("spec"), object::name(object), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        if change.is_status() {
            return change.metadata(errors);
        }
        // Validated twice in kube-apiserver, so errors are reported twice.
        for _ in 0..2 {
            change.whole_metadata(errors);
            self.validate(change.object, errors);
        }
        let (mut new, old) = (change.object.at("spec").clone(), change.old.at("spec"));
        if let Some(csi) = new.get_mut("csi").and_then(Value::as_object_mut)
            && old.opt("csi").is_some_and(|csi| csi.opt("controllerExpandSecretRef").is_none())
        {
            csi.remove("controllerExpandSecretRef");
        }
        if SOURCES.iter().any(|(field, ..)| new.at(field) != old.at(field)) {
            let shown = change.diff("spec", "core.PersistentVolumeSource", old, &new);
            let why = format!("spec.persistentvolumesource is immutable after creation\n{shown}");
            errors.forbidden("spec.persistentvolumesource", why);
        }
        if new.at("volumeMode") != old.at("volumeMode") {
            errors.invalid("volumeMode", new.shown("volumeMode"), IMMUTABLE);
        }
        node_affinity_change(&new, old, errors);
        let class = "volumeAttributesClassName";
        if old.opt(class).is_some() && new.opt(class).is_none() {
            errors
                .forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden");
        }
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        volume_warnings(object)
    }
}

/// Validates that the node affinity only changes from beta to GA labels.
fn node_affinity_change(new: &Value, old: &Value, errors: &mut Errors) {
    let (now, then) = (new.at("nodeAffinity"), old.at("nodeAffinity"));
    if then.is_null() || now == then {
        return;
    }
    let mut renamed = then.clone();
    let terms = renamed.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    let news = now.path(&["required"]).list("nodeSelectorTerms");
    for (term, wanted) in terms.into_iter().flatten().zip(news) {
        let list = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for (expression, wanted) in list.into_iter().flatten().zip(wanted.list("matchExpressions")) {
            let newer = match expression.str("key") {
                "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
                "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
                "beta.kubernetes.io/os" => "kubernetes.io/os",
                "beta.kubernetes.io/arch" => "kubernetes.io/arch",
                "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
                _ => continue,
            };
            if wanted.str("key") == newer {
                object::ensure(expression).insert("key".into(), newer.into());
            }
        }
    }
    if renamed != *now {
        let shown = internal::show("*core.VolumeNodeAffinity", now);
        let why = format!("{IMMUTABLE}, except for updating from beta label to GA");
        errors.invalid_shown("nodeAffinity", shown, why);
    }
}

type Validate = fn(FieldPath<'_>, &Value, &mut Errors);

/// Volume sources: field, name in errors about several sources, name in other errors, and validation.
const SOURCES: &[(&str, &str, &str, Validate)] = &[
    ("hostPath", "hostPath", "hostPath", volume::host_path),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |at, v, e| volume::disk(at, v, "pdName", e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |at, v, e| {
        volume::disk(at, v, "volumeID", e);
    }),
    ("glusterfs", "glusterfs", "glusterfs", |at, v, errors| {
        volume::needs(at, v, &["endpoints", "path"], errors);
        match v.opt_str("endpointsNamespace") {
            None => {}
            Some("") => errors.invalid(
                at.field("endpointsNamespace"),
                "",
                "if the endpointnamespace is set, it must be a valid namespace name",
            ),
            Some(name) => errors.all(&at.field("endpointsNamespace"), name, names::label(name)),
        }
    }),
    ("flocker", "flocker", "flocker", volume::flocker),
    ("nfs", "nfs", "nfs", volume::nfs),
    ("rbd", "rbd", "rbd", volume::rbd),
    ("quobyte", "quobyte", "quobyte", volume::quobyte),
    ("cephfs", "cephFS", "cephfs", volume::ceph),
    ("iscsi", "iscsi", "iscsi", |at, v, e| {
        volume::iscsi(at, v, "must be valid format", e);
        volume::secret_reference(at, v, &["name"], e);
    }),
    ("cinder", "cinder", "cinder", |at, v, e| {
        volume::needs(at, v, &["volumeID"], e);
        volume::secret_reference(at, v, &["name", "namespace"], e);
    }),
    ("fc", "fc", "fc", volume::fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", volume::flex),
    ("azureFile", "azureFile", "azureFile", |at, v, errors| {
        volume::needs(at, v, &["secretName", "shareName"], errors);
        if v.opt_str("secretNamespace") == Some("") {
            errors.required(at.field("secretNamespace"), "");
        }
    }),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |at, v, e| volume::needs(at, v, &["volumePath"], e)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |at, v, e| {
        volume::needs(at, v, &["pdID"], e);
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |at, v, e| volume::needs(at, v, &["volumeID"], e)),
    ("azureDisk", "azureDisk", "azureDisk", volume::azure_disk),
    ("scaleIO", "scaleIO", "scaleIO", |at, v, e| {
        volume::needs(at, v, &["gateway", "system", "volumeName"], e);
    }),
    ("local", "local", "local", |at, v, errors| match v.str("path") {
        "" => errors.required(at.field("path"), ""),
        path => volume::no_backsteps(at.field("path"), path, errors),
    }),
    ("storageos", "storageos", "storageos", |at, v, e| {
        volume::storage_os(at, v, e);
        volume::secret_reference(at, v, &["name", "namespace"], e);
    }),
    ("csi", "csi", "csi", |at, v, errors| {
        volume::driver_name(at.field("driver"), v.str("driver"), errors);
        volume::needs(at, v, &["volumeHandle"], errors);
        for field in [
            "controllerPublishSecretRef",
            "controllerExpandSecretRef",
            "nodePublishSecretRef",
            "nodeExpandSecretRef",
        ] {
            let Some(reference) = v.opt(field) else { continue };
            let at = at.field(field);
            match reference.str("name") {
                "" => errors.required(at.field("name"), ""),
                name => errors.all(&at.field("name"), name, names::subdomain(name)),
            }
            match reference.str("namespace") {
                "" => errors.required(at.field("namespace"), ""),
                name => errors.all(&at.field("namespace"), name, names::label(name)),
            }
        }
    }),
];

fn validate_volume(at: FieldPath<'_>, spec: &Value, name: &str, errors: &mut Errors) {
    claim::access_modes(at, spec, "", errors);
    let place = at.field("capacity");
    let count = spec.pairs("capacity").count();
    if count == 0 {
        errors.required(place, "");
    }
    if count > 1 || spec.at("capacity").opt("storage").is_none() {
        errors.unsupported(place, spec.shown("capacity"), &["storage"]);
    }
    for (name, amount) in spec.pairs("capacity") {
        let text = amount.as_str().unwrap_or_default();
        let whole = quantity::whole(text);
        if whole < 0 {
            let whole = i64::try_from(whole).unwrap_or(i64::MIN);
            errors.invalid(place.key(name), whole, "must be a valid resource quantity");
        }
        if quantity::nanos(text) <= 0 {
            errors.invalid(place.key(name), text, check::NOT_POSITIVE);
        }
    }
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = spec.str("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.unsupported(at.field("persistentVolumeReclaimPolicy"), policy, &policies);
    }
    if let Some(affinity) = spec.opt("nodeAffinity") {
        let at = at.field("nodeAffinity");
        match affinity.opt("required") {
            Some(required) => affinity::node_selector(at.field("required"), required, errors),
            None => errors.required(at.field("required"), "must specify required node constraints"),
        }
    }
    let mut found = 0;
    for (field, called, place, validate) in SOURCES {
        let Some(source) = spec.opt(field) else { continue };
        found += 1;
        if found > 1 && *field != "flexVolume" {
            errors.forbidden(at.field(called), "may not specify more than 1 volume type");
            continue;
        }
        validate(at.field(place), source, errors);
        if *field == "local" && spec.opt("nodeAffinity").is_none() {
            errors.required(at.field("nodeAffinity"), "Local volume requires node affinity");
        }
        if *field == "iscsi"
            && source.opt_str("initiatorName").is_some()
            && name.len() + 1 + source.str("targetPortal").len() > 64
        {
            let at = at.field("iscsi");
            errors.invalid(at.field("targetportal"), source.str("targetPortal"), volume::LONG_PORTAL);
        }
    }
    if found == 0 {
        errors.required(at, "must specify a volume type");
    }
    let path = spec.at("hostPath").str("path");
    if !path.is_empty() && path.bytes().all(|c| c == b'/' || c == b'.') && policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(at.field("persistentVolumeReclaimPolicy"), why);
    }
    let class = spec.str("storageClassName");
    if !class.is_empty() {
        errors.all(&at.field("storageClassName"), class, names::subdomain(class));
    }
    if let Some(mode) = spec.opt_str("volumeMode").filter(|mode| !claim::VOLUME_MODES.contains(mode)) {
        errors.unsupported(at.field("volumeMode"), mode, &claim::VOLUME_MODES);
    }
    if let Some(class) = spec.opt_str("volumeAttributesClassName") {
        let place = at.field("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(place, "an empty string is disallowed");
        } else {
            errors.all(&place, class, names::subdomain(class));
        }
        if spec.opt("csi").is_none() {
            errors.required(at.field("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn volume_warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = object.path(&["metadata", "annotations"]);
    for (key, why) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations.opt(key).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {why}"));
        }
    }
    let spec = object.at("spec");
    if spec.str("persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let terms = spec.path(&["nodeAffinity", "required"]).list("nodeSelectorTerms");
    for (index, term) in terms.iter().enumerate() {
        let at = format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}]");
        warnings_of_node_term(&at, term, false, &mut warnings);
    }
    for (field, shown, why) in [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ] {
        if spec.opt(field).is_some() {
            warnings.push(format!("spec.{shown}: {why}"));
        }
    }
    warnings
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Capacity" => text(object, &["spec", "capacity", "storage"]),
        "Access Modes" => access_modes(list(object, &["spec", "accessModes"])),
        "Reclaim Policy" => text(object, &["spec", "persistentVolumeReclaimPolicy"]),
        "Claim" => match object::get(object, &["spec", "claimRef"]) {
            Some(claim) => {
                let part = |key: &str| claim[key].as_str().unwrap_or_default();
                format!("{}/{}", part("namespace"), part("name")).into()
            }
            None => "".into(),
        },
        "Reason" => text(object, &["status", "reason"]),
        _ => return claim::volume_cell(column, object),
    })
}
