//! `.Capabilities`: the cluster that a chart is rendered for.

use crate::gofmt;

/// Version of Helm whose behaviour is reproduced.
pub const HELM_VERSION: &str = "v3.22.0";
/// Version of Go that this Helm was built with, which templates can read.
const GO_VERSION: &str = "go1.26.8";

/// API versions that Helm assumes without a cluster.
const API_VERSIONS: &[&str] = &[
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

/// The capabilities of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Kubernetes version. v1.37.0 by default, as in Helm.
    pub kube_version: KubeVersion,
    /// API versions such as `apps/v1` and, if discovered, kinds such as `apps/v1/Deployment`.
    ///
    /// Helm's 57 built-in API versions by default.
    pub api_versions: Vec<String>,
    /// Helm version that templates see.
    pub helm_version: HelmVersion,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            kube_version: KubeVersion { version: "v1.37.0".into(), major: "1".into(), minor: "37".into() },
            api_versions: API_VERSIONS.iter().map(|version| (*version).to_owned()).collect(),
            helm_version: HelmVersion::default(),
        }
    }
}

/// A Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// Version with a leading `v`.
    pub version: String,
    /// Major version.
    pub major: String,
    /// Minor version.
    pub minor: String,
}

impl KubeVersion {
    /// Parses a `--kube-version`: two or more numbers, optionally after `v`; the rest is ignored.
    ///
    /// The error is Helm's message, without the `invalid kube version` that the flag adds.
    pub fn parse(text: &str) -> Result<Self, String> {
        let quoted = || gofmt::quote(&text.into());
        let blank = |c: char| matches!(c, '\t' | '\n' | '\x0C' | '\r' | ' ');
        let trimmed = text.trim_start_matches(blank);
        let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let end = trimmed.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(trimmed.len());
        let numbers = trimmed.get(..end).unwrap_or_default();
        let (_, after) = trimmed.split_at(end);
        // Digits separated by single dots; the version ends at any other dot.
        let components: Vec<&str> = numbers.split('.').take_while(|part| !part.is_empty()).collect();
        if components.is_empty() || after.contains('\n') {
            return Err(format!("could not parse {} as version", quoted()));
        }
        let [first, second, ..] = components.as_slice() else {
            return Err(format!("illegal version string {}", quoted()));
        };
        if first.starts_with('0') && *first != "0" {
            let first = gofmt::quote(&(*first).into());
            return Err(format!("illegal zero-prefixed version component {first} in {}", quoted()));
        }
        let mut parsed = Vec::new();
        for component in &components {
            let number: u64 = component.parse().map_err(|_| {
                let component = gofmt::quote(&(*component).into());
                format!(
                    "illegal non-numeric version component {component} in {}: strconv.ParseUint: parsing \
                     {component}: value out of range",
                    quoted()
                )
            })?;
            parsed.push(number.to_string());
        }
        let _ = second;
        let part = |index: usize| parsed.get(index).cloned().unwrap_or_default();
        Ok(Self { version: format!("v{}", parsed.join(".")), major: part(0), minor: part(1) })
    }
}

/// Helm version as templates see it, in `.Capabilities.HelmVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmVersion {
    /// Version with a leading `v`; [`HELM_VERSION`] by default.
    pub version: String,
    /// Commit of the build; empty by default.
    pub git_commit: String,
    /// Whether the build had uncommitted changes; `clean` by default.
    pub git_tree_state: String,
    /// Version of Go of the build.
    pub go_version: String,
}

impl Default for HelmVersion {
    fn default() -> Self {
        Self {
            version: HELM_VERSION.into(),
            git_commit: String::new(),
            git_tree_state: "clean".into(),
            go_version: GO_VERSION.into(),
        }
    }
}
