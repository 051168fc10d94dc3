//! Priorities of group versions, which determine their order in discovery.

/// Built-in group versions with the priorities of group and version.
pub(super) const BUILT_IN: [(&str, &str, i64, i64); 21] = [
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("autoscaling", "v1", 17_500, 15),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
];
/// Priorities of the group and the version of a custom resource.
pub(super) const CUSTOM: (i64, i64) = (1_000, 100);

/// Returns the priority of a local group. `apiregistration.k8s.io` precedes all others.
pub(crate) fn group_priority(group: &str) -> i64 {
    if group == "apiregistration.k8s.io" {
        return i64::MAX;
    }
    BUILT_IN.iter().find(|(name, ..)| *name == group).map_or(CUSTOM.0, |(_, _, priority, _)| *priority)
}

/// Returns the priority of a local version within its group.
pub(crate) fn version_priority(group: &str, version: &str) -> i64 {
    let built_in = BUILT_IN.iter().find(|(g, v, ..)| (*g, *v) == (group, version));
    built_in.map_or(CUSTOM.1, |(_, _, _, priority)| *priority)
}
