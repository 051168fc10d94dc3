//! Validation of volumes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::env;
use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    core::persistent_volume_claim as claim,
};
use steersman_api::{fields::FieldError, names, schema::quantity};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Valid volumes by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// Validates a pod's volumes and returns the valid ones. `pod` is the pod's name, or empty.
pub(super) fn validate<'a>(
    at: FieldPath<'_>,
    volumes: &'a [Value],
    pod: &str,
    is_pod: bool,
    errors: &mut Errors,
) -> Volumes<'a> {
    let claims: HashSet<String> = volumes
        .iter()
        .filter(|volume| !pod.is_empty() && volume.opt("ephemeral").is_some())
        .map(|volume| format!("{pod}-{}", volume.str("name")))
        .collect();
    let mut sound = Volumes::new();
    for (index, volume) in volumes.iter().enumerate() {
        let at = at.index(index);
        let name = volume.str("name");
        let before = errors.len();
        let sources = volume.as_object().map(sources).unwrap_or_default();
        source(at, volume, &sources, pod, errors);
        // Templates may leave the image reference to higher-level configuration. It is not validated next to other
        // sources.
        if is_pod
            && let [(("image", ..), image)] = sources.as_slice()
            && image.str("reference").is_empty()
        {
            let at = at.field("image");
            errors.required(at.field("reference"), "");
        }
        let place = at.field("name");
        if name.is_empty() {
            errors.required(place, "");
        } else {
            errors.all(&place, name, names::label(name));
        }
        if sound.contains_key(name) {
            errors.duplicate(place, name);
        }
        if errors.len() == before {
            sound.insert(name, volume);
        }
        let claim = volume.at("persistentVolumeClaim").str("claimName");
        if claims.contains(claim) {
            let at = at.field("persistentVolumeClaim");
            errors.invalid(
                at.field("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    sound
}

type Validate = fn(FieldPath<'_>, &Value, &mut Errors);

/// A volume source: field, name in errors about several sources, name in other errors, and validation.
type Source = (&'static str, &'static str, &'static str, Validate);

/// Volume sources in the order in which kube-apiserver validates them.
const SOURCES: &[Source] = &[
    ("emptyDir", "emptyDir", "emptyDir", |_, _, _| {}),
    ("hostPath", "hostPath", "hostPath", host_path),
    ("gitRepo", "gitRepo", "gitRepo", |at, v, errors| {
        needs(at, v, &["repository"], errors);
        local_path(at.field("directory"), v.str("directory"), errors);
    }),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |at, v, e| disk(at, v, "pdName", e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |at, v, e| {
        disk(at, v, "volumeID", e);
    }),
    ("secret", "secret", "secret", |at, v, e| keyed(at, v, "secretName", e)),
    ("nfs", "nfs", "nfs", nfs),
    ("iscsi", "iscsi", "iscsi", |at, v, e| {
        iscsi(at, v, "must be valid format starting with iqn, eui, or naa", e);
    }),
    ("glusterfs", "glusterfs", "glusterfs", |at, v, e| needs(at, v, &["endpoints", "path"], e)),
    ("flocker", "flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |at, v, e| {
        needs(at, v, &["claimName"], e);
    }),
    ("rbd", "rbd", "rbd", rbd),
    ("cinder", "cinder", "cinder", |at, v, e| {
        needs(at, v, &["volumeID"], e);
        secret_reference(at, v, &["name"], e);
    }),
    ("cephfs", "cephFS", "cephfs", ceph),
    ("quobyte", "quobyte", "quobyte", quobyte),
    ("downwardAPI", "downwarAPI", "downwardAPI", |at, v, e| {
        mode(at.field("defaultMode"), v.opt_int("defaultMode"), e);
        for file in v.list("items") {
            downward_file(at, file, e);
        }
    }),
    ("fc", "fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", flex),
    ("configMap", "configMap", "configMap", |at, v, e| keyed(at, v, "name", e)),
    ("azureFile", "azureFile", "azureFile", |at, v, e| needs(at, v, &["secretName", "shareName"], e)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |at, v, e| needs(at, v, &["volumePath"], e)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |at, v, e| {
        needs(at, v, &["pdID"], e);
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |at, v, e| needs(at, v, &["volumeID"], e)),
    ("azureDisk", "azureDisk", "azureDisk", azure_disk),
    ("storageos", "storageos", "storageos", |at, v, e| {
        storage_os(at, v, e);
        secret_reference(at, v, &["name"], e);
    }),
    ("projected", "projected", "projected", projected),
    ("scaleIO", "scaleIO", "scaleIO", |at, v, e| needs(at, v, &["gateway", "system", "volumeName"], e)),
    ("csi", "csi", "csi", |at, v, errors| {
        driver_name(at.field("driver"), v.str("driver"), errors);
        if let Some(reference) = v.opt("nodePublishSecretRef") {
            let name = reference.str("name");
            if name.is_empty() {
                let at = at.field("nodePublishSecretRef");
                errors.required(at.field("name"), "");
            } else {
                errors.all(&at.field("name"), name, names::subdomain(name));
            }
        }
    }),
    ("ephemeral", "ephemeral", "ephemeral", |at, v, errors| match v.opt("volumeClaimTemplate") {
        None => errors.required(at.field("volumeClaimTemplate"), ""),
        Some(template) => claim::validate_template(at.field("volumeClaimTemplate"), template, errors),
    }),
    ("image", "image", "image", |at, v, errors| {
        errors.one_of(at.field("pullPolicy"), v.str("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
    }),
];

/// Returns a volume's sources in validation order.
fn sources(volume: &Map<String, Value>) -> Vec<(&'static Source, &Value)> {
    let place = |key: &str| SOURCES.iter().position(|(field, ..)| *field == key);
    let mut found: Vec<_> = volume
        .iter()
        .filter(|(_, source)| !source.is_null())
        .filter_map(|(key, source)| Some((SOURCES.get(place(key)?)?, source)))
        .collect();
    found.sort_by_cached_key(|((field, ..), _)| place(field));
    found
}

/// Whether a volume has no source.
pub(super) fn is_without_source(volume: &Map<String, Value>) -> bool {
    let is_source = |key: &str| SOURCES.iter().any(|(field, ..)| *field == key);
    !volume.iter().any(|(key, value)| !value.is_null() && is_source(key))
}

fn source(at: FieldPath<'_>, volume: &Value, sources: &[(&Source, &Value)], pod: &str, errors: &mut Errors) {
    for (index, ((field, called, place, judge), source)) in sources.iter().enumerate() {
        if *field == "emptyDir" {
            if source.opt_str("sizeLimit").is_some_and(quantity::is_negative) {
                let at = at.field("emptyDir");
                errors.forbidden(at.field("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        } else if index > 0 {
            errors.forbidden(at.field(called), "may not specify more than 1 volume type");
        } else {
            judge(at.field(place), source, errors);
            if *field == "ephemeral" && !pod.is_empty() && !volume.str("name").is_empty() {
                let claim = format!("{pod}-{}", volume.str("name"));
                for complaint in names::subdomain(&claim) {
                    let why = format!("PVC name {}: {complaint}", steersman_api::status::quote(&claim));
                    errors.invalid(at.field("name"), volume.str("name"), why);
                }
            }
        }
        if *field == "iscsi"
            && source.opt_str("initiatorName").is_some()
            && volume.str("name").len() + 1 + source.str("targetPortal").len() > 64
        {
            errors.invalid(at.field("name"), volume.str("name"), LONG_PORTAL);
        }
    }
    if sources.is_empty() {
        errors.required(at, "must specify a volume type");
    }
}

pub(crate) const LONG_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// Reports required string fields that are empty.
pub(crate) fn needs(at: FieldPath<'_>, value: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if value.str(field).is_empty() {
            errors.required(at.field(field), "");
        }
    }
}

/// Reports required string fields that are empty in `secretRef`, if present.
pub(crate) fn secret_reference(at: FieldPath<'_>, value: &Value, fields: &[&str], errors: &mut Errors) {
    if let Some(reference) = value.opt("secretRef") {
        needs(at.field("secretRef"), reference, fields, errors);
    }
}

pub(crate) fn host_path(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    let path = value.str("path");
    if path.is_empty() {
        return errors.required(at.field("path"), "");
    }
    no_backsteps(at.field("path"), path, errors);
    let kinds =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if let Some(kind) = value.opt_str("type").filter(|kind| !kinds.contains(kind)) {
        errors.unsupported(at.field("type"), kind, &kinds);
    }
}

pub(crate) fn disk(at: FieldPath<'_>, value: &Value, name: &str, errors: &mut Errors) {
    needs(at, value, &[name], errors);
    let partition = value.int("partition");
    if !(0..=255).contains(&partition) {
        errors.invalid(at.field("partition"), partition, check::between(1, 255));
    }
}

fn mode(at: FieldPath<'_>, mode: Option<i64>, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(at, mode, MODE);
    }
}

fn keyed(at: FieldPath<'_>, value: &Value, name: &str, errors: &mut Errors) {
    needs(at, value, &[name], errors);
    mode(at.field("defaultMode"), value.opt_int("defaultMode"), errors);
    let items = at.field("items");
    for (index, item) in value.list("items").iter().enumerate() {
        key_to_path(items.index(index), item, errors);
    }
}

fn key_to_path(at: FieldPath<'_>, item: &Value, errors: &mut Errors) {
    needs(at, item, &["key", "path"], errors);
    unreserved_path(at.field("path"), item.str("path"), errors);
    mode(at.field("mode"), item.opt_int("mode"), errors);
}

pub(crate) fn nfs(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    needs(at, value, &["server", "path"], errors);
    if !value.str("path").starts_with('/') {
        errors.invalid(at.field("path"), value.str("path"), "must be an absolute path");
    }
}

/// Validates an iSCSI volume. `odd` is the error for names with an unknown prefix.
pub(crate) fn iscsi(at: FieldPath<'_>, value: &Value, odd: &str, errors: &mut Errors) {
    needs(at, value, &["targetPortal"], errors);
    match value.str("iqn") {
        "" => errors.required(at.field("iqn"), ""),
        name => iscsi_name(at.field("iqn"), name, odd, errors),
    }
    errors.in_range(at.field("lun"), value.int("lun"), 0, 255);
    if (value.flag("chapAuthDiscovery") || value.flag("chapAuthSession")) && value.opt("secretRef").is_none()
    {
        errors.required(at.field("secretRef"), "");
    }
    if let Some(name) = value.opt_str("initiatorName") {
        iscsi_name(at.field("initiatorname"), name, odd, errors);
    }
}

fn iscsi_name(at: FieldPath<'_>, name: &str, odd: &str, errors: &mut Errors) {
    let hex = |rest: &str, length: usize| {
        let mut rest = rest.chars();
        rest.next().is_some() && {
            let rest = rest.as_str();
            rest.len() == length && rest.bytes().all(|c| c.is_ascii_alphanumeric())
        }
    };
    let sound = if name.starts_with("iqn") {
        is_qualified_iscsi_name(name)
    } else if let Some(rest) = name.strip_prefix("eui") {
        hex(rest, 16)
    } else if let Some(rest) = name.strip_prefix("naa") {
        hex(rest, 32)
    } else {
        return errors.invalid(at, name, odd);
    };
    if !sound {
        errors.invalid(at, name, "must be valid format");
    }
}

/// Whether the name ends with `iqn.YYYY-MM.domain:rest`; like Kubernetes' regular expression, without an anchor at the
/// start.
fn is_qualified_iscsi_name(name: &str) -> bool {
    name.match_indices("iqn.").any(|(start, _)| {
        let rest = name.get(start + 4..).unwrap_or_default();
        let digits = |range: std::ops::Range<usize>| {
            rest.get(range).is_some_and(|text| text.bytes().all(|c| c.is_ascii_digit()))
        };
        let date = digits(0..4) && digits(5..7) && rest.get(4..5) == Some("-") && rest.get(7..8) == Some(".");
        let Some((domain, last)) = rest.get(8..).and_then(|rest| rest.split_once(':')) else { return false };
        date && !domain.is_empty()
            && domain.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
            && !last.is_empty()
            && !last.chars().any(|c| ",;*&$|".contains(c) || c.is_ascii_whitespace())
    })
}

pub(crate) fn flocker(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    let (name, uuid) = (value.str("datasetName"), value.str("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(at, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(at.field("datasetName"), name, "must not contain '/'");
    }
}

pub(crate) fn rbd(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    ceph(at, value, errors);
    needs(at, value, &["image"], errors);
}

pub(crate) fn ceph(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    if value.list("monitors").is_empty() {
        errors.required(at.field("monitors"), "");
    }
}

pub(crate) fn quobyte(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    let registry = value.str("registry");
    if registry.is_empty() {
        errors.required(at.field("registry"), pairs);
    } else if value.str("tenant").len() >= 65 {
        errors.required(at.field("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.invalid(at.field("registry"), registry, pairs);
        }
    }
    needs(at, value, &["volume"], errors);
}

fn is_host_port(text: &str) -> bool {
    let Some((host, _)) = text.rsplit_once(':') else { return false };
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|host| !host.contains(['[', ']'])),
        None => !host.contains([':', '[', ']']),
    }
}

pub(crate) fn fibre_channel(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    let (names, ids) = (value.list("targetWWNs"), value.list("wwids"));
    if names.is_empty() && ids.is_empty() {
        errors.required(at.field("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        errors.invalid(
            at.field("targetWWNs"),
            value.shown("targetWWNs"),
            "targetWWNs and wwids can not be specified simultaneously",
        );
    }
    if !names.is_empty() {
        match value.opt_int("lun") {
            None => errors.required(at.field("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) => errors.in_range(at.field("lun"), lun, 0, 255),
        }
    }
}

pub(crate) fn flex(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    needs(at, value, &["driver"], errors);
    let options = at.field("options");
    for (key, _) in value.pairs("options") {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid(options.key(key), key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(crate) fn azure_disk(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    needs(at, value, &["diskName", "diskURI"], errors);
    let modes = ["None", "ReadOnly", "ReadWrite"];
    if let Some(mode) = value.opt_str("cachingMode").filter(|mode| !modes.contains(mode)) {
        errors.unsupported(at.field("cachingMode"), mode, &modes);
    }
    let Some(kind) = value.opt_str("kind") else { return };
    let kinds = ["Dedicated", "Managed", "Shared"];
    if !kinds.contains(&kind) {
        errors.unsupported(at.field("kind"), kind, &kinds);
    }
    let uri = value.str("diskURI");
    if kind == "Managed" && !uri.starts_with("/subscriptions/") {
        let form =
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        errors.unsupported(at.field("diskURI"), uri, &[form]);
    }
    if kind != "Managed" && !uri.starts_with("https://") {
        let form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
        errors.unsupported(at.field("diskURI"), uri, &[form]);
    }
}

pub(crate) fn storage_os(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    match value.str("volumeName") {
        "" => errors.required(at.field("volumeName"), ""),
        name => errors.all(&at.field("volumeName"), name, names::label(name)),
    }
    let namespace = value.str("volumeNamespace");
    if !namespace.is_empty() {
        errors.all(&at.field("volumeNamespace"), namespace, names::label(namespace));
    }
}

/// Validates the name of a CSI driver.
pub(crate) fn driver_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(at, 63));
    }
    errors.all(&at, name, names::subdomain(&name.to_lowercase()));
}

fn downward_file(at: FieldPath<'_>, file: &Value, errors: &mut Errors) {
    needs(at, file, &["path"], errors);
    unreserved_path(at.field("path"), file.str("path"), errors);
    match (file.opt("fieldRef"), file.opt("resourceFieldRef")) {
        (Some(field), resource) => {
            env::object_field(at.field("fieldRef"), field, &env::VOLUME_FIELDS, errors);
            if resource.is_some() {
                errors.invalid(
                    at,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        }
        (None, Some(resource)) => env::resource_field(at.field("resourceFieldRef"), resource, true, errors),
        (None, None) => errors.required(at, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(at.field("mode"), file.opt_int("mode"), errors);
}

fn projected(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    mode(at.field("defaultMode"), value.opt_int("defaultMode"), errors);
    let mut paths: HashSet<&str> = HashSet::new();
    let list = at.field("sources");
    for (index, source) in value.list("sources").iter().enumerate() {
        let here = list.index(index);
        let mut found = 0;
        for field in ["secret", "configMap"] {
            let Some(source) = source.opt(field) else { continue };
            found += 1;
            let place = here.field(field);
            needs(place, source, &["name"], errors);
            let items = place.field("items");
            for (index, item) in source.list("items").iter().enumerate() {
                key_to_path(items.index(index), item, errors);
                let path = item.str("path");
                if !path.is_empty() && !paths.insert(path) {
                    errors.invalid(at, source.str("name"), CONFLICT);
                }
            }
        }
        if let Some(source) = source.opt("downwardAPI") {
            found += 1;
            for file in source.list("items") {
                downward_file(here.field("downwardAPI"), file, errors);
                let path = file.str("path");
                if !path.is_empty() && !paths.insert(path) {
                    errors.invalid(at, path, CONFLICT);
                }
            }
        }
        if let Some(token) = source.opt("serviceAccountToken") {
            found += 1;
            let place = here.field("serviceAccountToken");
            let seconds = token.int("expirationSeconds");
            if seconds < 600 {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(place.field("expirationSeconds"), seconds, why);
            }
            if seconds > 1 << 32 {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(place.field("expirationSeconds"), seconds, why);
            }
            match token.str("path") {
                "" => errors.required(at.field("path"), ""),
                path => unreserved_path(at.field("path"), path, errors),
            }
        }
        if let Some(bundle) = source.opt("clusterTrustBundle") {
            found += 1;
            trust_bundle(here.field("clusterTrustBundle"), bundle, errors);
            let path = bundle.str("path");
            if !paths.insert(path) {
                errors.invalid(at, path, CONFLICT);
            }
        }
        if let Some(certificate) = source.opt("podCertificate") {
            found += 1;
            pod_certificate(at, here.field("podCertificate"), certificate, &mut paths, errors);
        }
        if found > 1 {
            errors.forbidden(here, "may not specify more than 1 volume type per source");
        }
    }
}

const CONFLICT: &str = "conflicting duplicate paths";

fn trust_bundle(at: FieldPath<'_>, bundle: &Value, errors: &mut Errors) {
    match (bundle.opt_str("name"), bundle.opt_str("signerName")) {
        (Some(_), Some(_)) => {
            errors.invalid(at, bundle.clone(), "only one of name and signerName may be used");
        }
        (Some(name), None) => {
            if name.is_empty() {
                errors.required(at.field("name"), "must be a valid object name");
            }
            let complaints = match name.rsplit_once(':') {
                Some((_, last)) => names::subdomain(last),
                None => names::subdomain(name),
            };
            for complaint in complaints {
                let why = format!("not a valid clustertrustbundlename: {complaint}");
                errors.invalid(at.field("name"), name, why);
            }
            if let Some(selector) = bundle.opt("labelSelector") {
                let why = "labelSelector must be unset if name is specified";
                errors.invalid(at.field("labelSelector"), selector.clone(), why);
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                errors.required(at.field("signerName"), "must be a valid signer name");
            }
            signer_name(at.field("signerName"), signer, errors);
            check::label_selector(at.field("labelSelector"), bundle.at("labelSelector"), errors);
        }
        (None, None) => errors.required(at, "either name or signerName must be specified"),
    }
    needs(at, bundle, &["path"], errors);
    unreserved_path(at.field("path"), bundle.str("path"), errors);
}

fn pod_certificate<'a>(
    whole: FieldPath<'_>,
    at: FieldPath<'_>,
    certificate: &'a Value,
    paths: &mut HashSet<&'a str>,
    errors: &mut Errors,
) {
    let signer = certificate.str("signerName");
    signer_name(at.field("signerName"), signer, errors);
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    let kind = certificate.str("keyType");
    if !kinds.contains(&kind) {
        errors.unsupported(at.field("keyType"), kind, &kinds);
    }
    if let Some(seconds) = certificate.opt_int("maxExpirationSeconds") {
        let place = at.field("maxExpirationSeconds");
        if seconds < 3600 {
            errors.invalid(place, seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        let own = signer
            .split('/')
            .next()
            .is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"));
        let most = if own { 24 * 60 * 60 } else { 91 * 24 * 60 * 60 };
        if seconds > most {
            errors.invalid(place, seconds, format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let mut found = 0;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = certificate.str(field);
        if path.is_empty() {
            continue;
        }
        found += 1;
        unreserved_path(at.field(field), path, errors);
        if !paths.insert(path) {
            errors.invalid(whole, path, CONFLICT);
        }
    }
    if found == 0 {
        errors
            .required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

/// Validates a signer name of the form `domain/path`.
pub(crate) fn signer_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(at, name, why);
    };
    if domain.len() > 253 {
        errors.push(FieldError::too_long(at, 253));
    }
    if let Some(label) = domain.split('.').find(|label| !names::label(label).is_empty()) {
        for complaint in names::label(label) {
            let why = format!("validating label {}: {complaint}", steersman_api::status::quote(label));
            errors.invalid(at, domain, why);
        }
    }
    if !domain.contains('.') {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    if let Some(label) = path.split('.').find(|label| !names::subdomain(label).is_empty()) {
        for complaint in names::subdomain(label) {
            let why = format!("validating label {}: {complaint}", steersman_api::status::quote(label));
            errors.invalid(at, path, why);
        }
    }
}

/// Validates a relative path that must not leave its directory.
pub(crate) fn local_path(at: FieldPath<'_>, path: &str, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    no_backsteps(at, path, errors);
}

pub(crate) fn no_backsteps(at: FieldPath<'_>, path: &str, errors: &mut Errors) {
    if path.split('/').any(|part| part == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

fn unreserved_path(at: FieldPath<'_>, path: &str, errors: &mut Errors) {
    local_path(at, path, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}
