//! Warnings about pods and pod templates.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde_json::Value;

use crate::{check::Read, core::persistent_volume_claim as claim, ip::ip_warning};
use steersman_api::{schema::quantity, status::quote};

/// Deprecated volume sources: field, name in warnings, and the warning.
const VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Returns the warning about a deprecated node label.
pub(crate) fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        _ => return None,
    })
}

/// Path of a list item in the spec. Formatted only for warnings.
#[derive(Clone, Copy)]
struct ItemPath<'a> {
    /// Path to the template; empty for a pod.
    pod: &'a str,
    list: &'a str,
    index: usize,
}

impl fmt::Display for ItemPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, list, index } = self;
        let dot = if pod.is_empty() { "" } else { "." };
        write!(f, "{pod}{dot}spec.{list}[{index}]")
    }
}

/// Returns warnings about a pod, or about a template at a path.
pub(crate) fn of(place: &str, object: &Value) -> Vec<String> {
    let join = |rest: &str| if place.is_empty() { rest.to_owned() } else { format!("{place}.{rest}") };
    let spec = object.at("spec");
    let mut warnings = Vec::new();
    for (key, _) in spec.pairs("nodeSelector") {
        if let Some(why) = deprecated_label(key) {
            warnings.push(format!("{}: {why}", join(&format!("spec.nodeSelector[{key}]"))));
        }
    }
    let node = spec.path(&["affinity", "nodeAffinity"]);
    let required = node.at("requiredDuringSchedulingIgnoredDuringExecution");
    for (index, term) in required.list("nodeSelectorTerms").iter().enumerate() {
        let at = format!(
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]"
        );
        node_term(&join(&at), term, false, &mut warnings);
    }
    let preferred = node.list("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, term) in preferred.iter().enumerate() {
        let at = format!(
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference"
        );
        node_term(&join(&at), term.at("preference"), true, &mut warnings);
    }
    for (index, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let at = join(&format!("spec.topologySpreadConstraints[{index}]"));
        let key = constraint.str("topologyKey");
        if let Some(why) = deprecated_label(key) {
            warnings.push(format!("{at}.topologyKey: {key} is {why}"));
        }
        if constraint.opt("labelSelector").is_none() {
            warnings.push(format!("{at}.labelSelector: {NO_SELECTOR}"));
        }
    }
    annotations(&join, object, &mut warnings);
    volumes(place, spec, &mut warnings);
    repeated(&join, spec, "hostAliases", "ip", &mut warnings);
    repeated(&join, spec, "imagePullSecrets", "name", &mut warnings);
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.str("name").is_empty() {
            let at = join(&format!("spec.imagePullSecrets[{index}].name"));
            warnings.push(format!("{at}: invalid empty name \"\""));
        }
    }
    fractions(&|| join("spec.overhead"), spec.at("overhead"), &mut warnings);
    containers(place, &join, object, &mut warnings);
    ports(place, spec, &mut warnings);
    if spec.int("terminationGracePeriodSeconds") < 0 {
        let at = join("spec.terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.path(&["affinity", kind]);
        for (list, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm."),
        ] {
            for (index, term) in affinity.list(list).iter().enumerate() {
                let term = if inner.is_empty() { term } else { term.at("podAffinityTerm") };
                if term.opt("labelSelector").is_none() {
                    let at = join(&format!("spec.affinity.{kind}.{list}[{index}].{inner}labelSelector"));
                    warnings.push(format!("{at}: {NO_SELECTOR}"));
                }
            }
        }
    }
    for (index, server) in spec.at("dnsConfig").strs("nameservers").into_iter().enumerate() {
        warnings.extend(ip_warning(&join(&format!("spec.dnsConfig.nameservers[{index}]")), server));
    }
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        warnings.extend(ip_warning(&join(&format!("spec.hostAliases[{index}].ip")), alias.str("ip")));
    }
    warnings
}

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Adds warnings about a node selector term.
pub(crate) fn node_term(at: &str, term: &Value, values: bool, warnings: &mut Vec<String>) {
    for (index, expression) in term.list("matchExpressions").iter().enumerate() {
        let key = expression.str("key");
        let at = format!("{at}.matchExpressions[{index}]");
        if let Some(why) = deprecated_label(key) {
            warnings.push(format!("{at}.key: {key} is {why}"));
        }
        for (index, value) in expression.strs("values").into_iter().enumerate().filter(|_| values) {
            for complaint in steersman_api::names::label_value(value) {
                warnings.push(format!("{at}.values[{index}]: {complaint}"));
            }
        }
    }
}

fn annotations(join: &dyn Fn(&str) -> String, object: &Value, warnings: &mut Vec<String>) {
    let annotations = object.path(&["metadata", "annotations"]);
    for (key, why) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            "non-functional in v1.16+; use the \"priorityClassName\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
    ] {
        if annotations.opt(key).is_some() {
            warnings.push(format!("{}: {why}", join(&format!("metadata.annotations[{key}]"))));
        }
    }
}

fn volumes(pod: &str, spec: &Value, warnings: &mut Vec<String>) {
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let at = ItemPath { pod, list: "volumes", index };
        // A valid volume has one source, so the order does not matter.
        for (kind, source) in present(volume) {
            if let Some((_, shown, why)) = VOLUMES.iter().find(|(field, ..)| *field == kind) {
                warnings.push(format!("{at}.{shown}: {why}"));
            }
            if kind == "ephemeral"
                && let Some(template) = source.opt("volumeClaimTemplate")
            {
                let at = format!("{at}.ephemeral.volumeClaimTemplate.spec");
                warnings.extend(claim::spec_warnings(&at, template.at("spec")));
            }
        }
    }
    for volume in spec.list("volumes") {
        overlaps(volume, warnings);
    }
}

/// Returns the fields of a volume that are not null.
fn present(volume: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = volume.as_object().into_iter().flatten();
    fields.filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.as_str(), value))
}

/// The source of a file in a volume.
#[derive(Clone, Copy)]
enum Source<'a> {
    ConfigMap(&'a str),
    Secret(&'a str),
    DownwardApi,
    Token,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfigMap(name) => write!(f, "ConfigMap {}", quote(name)),
            Self::Secret(name) => write!(f, "Secret {}", quote(name)),
            Self::DownwardApi => f.write_str("DownwardAPI"),
            Self::Token => f.write_str("ServiceAccountToken"),
        }
    }
}

/// Path of a file in a volume, with its source if there are several.
type File<'a> = (&'a str, Option<Source<'a>>);

fn files<'a>(items: &'a Value, source: Option<Source<'a>>) -> impl Iterator<Item = File<'a>> {
    items.list("items").iter().map(move |item| (item.str("path"), source))
}

/// Adds warnings about overlapping paths in a volume.
fn overlaps(volume: &Value, warnings: &mut Vec<String>) {
    let name = || quote(volume.str("name"));
    for (kind, items) in present(volume) {
        let source = match kind {
            "configMap" => Source::ConfigMap(items.str("name")),
            "secret" => Source::Secret(items.str("secretName")),
            "downwardAPI" => Source::DownwardApi,
            "projected" => {
                overlaps_of_projected(&name, items, warnings);
                continue;
            }
            _ => continue,
        };
        for body in overlapping(files(items, None)) {
            warnings.push(format!("volume {} ({source}): overlapping paths: {body}", name()));
        }
    }
}

fn overlaps_of_projected(name: &dyn Fn() -> String, projected: &Value, warnings: &mut Vec<String>) {
    let mut all: Vec<File<'_>> = Vec::new();
    for source in projected.list("sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            warnings.push(format!("volume {} (Projected) has no sources provided", name()));
            continue;
        }
        let with_items = |field: &str| source.opt(field).filter(|items| items.opt("items").is_some());
        let before = all.len();
        if let Some(items) = with_items("configMap") {
            all.extend(files(items, Some(Source::ConfigMap(items.str("name")))));
        } else if let Some(items) = with_items("secret") {
            all.extend(files(items, Some(Source::Secret(items.str("name")))));
        } else if let Some(items) = with_items("downwardAPI") {
            all.extend(files(items, Some(Source::DownwardApi)));
        } else if let Some(token) = source.opt("serviceAccountToken") {
            all.push((token.str("path"), Some(Source::Token)));
        }
        if all.len() > before {
            for body in overlapping(all.iter().copied()) {
                warnings.push(format!("volume {} (Projected): overlapping paths: {body}", name()));
            }
        }
    }
}

fn overlapping<'a>(files: impl Iterator<Item = File<'a>>) -> Vec<String> {
    let mut files: Vec<File<'_>> = files.map(|(path, source)| (path.trim_end_matches('/'), source)).collect();
    files.sort_by(|a, b| a.0.cmp(b.0));
    let shown = |(path, source): &File<'_>| match source {
        None => quote(path),
        Some(source) => format!("{} ({source})", quote(path)),
    };
    let mut found = Vec::new();
    for (index, first) in files.iter().enumerate() {
        for second in files.iter().skip(index + 1) {
            let inside = second.0.strip_prefix(first.0);
            if inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                found.push(format!("{} with {}", shown(second), shown(first)));
            }
        }
    }
    found
}

fn repeated(
    join: &dyn Fn(&str) -> String,
    spec: &Value,
    list: &str,
    field: &str,
    warnings: &mut Vec<String>,
) {
    let mut seen = HashSet::new();
    for (index, item) in spec.list(list).iter().enumerate() {
        let text = item.str(field);
        if !seen.insert(text) {
            let at = join(&format!("spec.{list}[{index}].{field}"));
            warnings.push(format!("{at}: duplicate {field} {}", quote(text)));
        }
    }
}

fn fractions(at: &dyn Fn() -> String, amounts: &Value, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        if let Some(text) = amounts.opt_str(name).filter(|text| !quantity::is_whole(text)) {
            let (at, text) = (at(), quote(text));
            warnings
                .push(format!("{at}[{name}]: fractional byte value {text} is invalid, must be an integer"));
        }
    }
}

/// Iterates over containers with their paths.
fn each<'a>(pod: &'a str, spec: &'a Value) -> impl Iterator<Item = (ItemPath<'a>, &'a Value)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| {
        let containers = spec.list(list).iter().enumerate();
        containers.map(move |(index, container)| (ItemPath { pod, list, index }, container))
    })
}

fn containers(pod: &str, join: &dyn Fn(&str) -> String, object: &Value, warnings: &mut Vec<String>) {
    let spec = object.at("spec");
    let annotations = object.path(&["metadata", "annotations"]);
    let seccomp = "seccomp.security.alpha.kubernetes.io/pod";
    let instead = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    if spec.at("securityContext").opt("seccompProfile").is_none() && annotations.opt(seccomp).is_some() {
        warnings.push(format!("{}: {instead}", join(&format!("metadata.annotations[{seccomp}]"))));
    }
    for (at, container) in each(pod, spec) {
        let context = container.at("securityContext");
        let name = container.str("name");
        // Returns the path of an annotation for this container.
        let about = |prefix: &str| {
            let mut all = annotations.as_object().into_iter().flatten();
            let found = all.find(|(key, value)| key.strip_prefix(prefix) == Some(name) && !value.is_null());
            found.map(|(key, _)| join(&format!("metadata.annotations[{key}]")))
        };
        if context.opt("seccompProfile").is_none()
            && let Some(at) = about("container.seccomp.security.alpha.kubernetes.io/")
        {
            warnings.push(format!("{at}: {instead}"));
        }
        let is_template = !pod.is_empty();
        if is_template
            && context.opt("appArmorProfile").is_none()
            && spec.at("securityContext").opt("appArmorProfile").is_none()
            && let Some(at) = about("container.apparmor.security.beta.kubernetes.io/")
        {
            warnings.push(format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead"));
        }
        let resources = container.at("resources");
        for name in ["memory", "ephemeral-storage"] {
            for part in ["limits", "requests"] {
                if let Some(text) = resources.at(part).opt_str(name).filter(|text| !quantity::is_whole(text))
                {
                    warnings.push(format!(
                        "{at}.resources.{part}[{name}]: fractional byte value {} is invalid, must be an integer",
                        quote(text)
                    ));
                }
            }
        }
        let mut seen = HashSet::new();
        for (index, variable) in container.list("env").iter().enumerate() {
            let name = variable.str("name");
            if seen.insert(name) {
                continue;
            }
            let reference = format!("$({name})");
            let value = variable.str("value");
            if variable.opt("valueFrom").is_some() || value == reference || !value.contains(&reference) {
                warnings.push(format!(
                    "{at}.env[{index}]: hides previous definition of {}, which may be dropped when using apply",
                    quote(name)
                ));
            }
        }
    }
}

/// Path of a port.
#[derive(Clone, Copy)]
struct PortPlace<'a> {
    container: ItemPath<'a>,
    index: usize,
}

impl fmt::Display for PortPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.ports[{}]", self.container, self.index)
    }
}

fn ports(pod: &str, spec: &Value, warnings: &mut Vec<String>) {
    let all = || {
        each(pod, spec).flat_map(|(container, value)| {
            let ports = value.list("ports").iter().enumerate();
            ports.map(move |(index, port)| (PortPlace { container, index }, port))
        })
    };
    let mut blocks: HashMap<(i64, &str), Vec<(PortPlace<'_>, &Value)>> = HashMap::new();
    for (here, port) in all() {
        let (address, host) = (port.str("hostIP"), port.int("hostPort"));
        if !address.is_empty() && host == 0 {
            warnings.push(format!(
                "{here}: hostIP set without hostPort: {{Name:{} HostPort:{host} ContainerPort:{} Protocol:{} HostIP:{address}}}",
                port.str("name"),
                port.int("containerPort"),
                port.str("protocol")
            ));
        }
        let others = blocks.entry((port.int("containerPort"), port.str("protocol"))).or_default();
        for (place, other) in others.iter() {
            let (other_address, other_host) = (other.str("hostIP"), other.int("hostPort"));
            if address == other_address && host == other_host {
                warnings.push(format!("{here}: duplicate port definition with {place}"));
            } else if host == 0 || other_host == 0 {
                warnings.push(format!("{here}: overlapping port definition with {place}"));
            } else if host == other_host && address.is_empty() != other_address.is_empty() {
                warnings.push(format!("{here}: dangerously ambiguous port definition with {place}"));
            }
        }
        others.push((here, port));
    }
    let mut named: HashMap<&str, PortPlace<'_>> = HashMap::new();
    for (here, port) in all() {
        let name = port.str("name");
        if name.is_empty() {
            continue;
        }
        match named.get(name) {
            Some(other) => warnings.push(format!(
                "{here}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                quote(name)
            )),
            None => {
                named.insert(name, here);
            }
        }
    }
}
