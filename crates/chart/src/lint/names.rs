//! Object names, validated as by Kubernetes.

/// Returns the errors in the name of an object of this kind.
pub(super) fn problems(kind: &str, name: &str) -> Vec<String> {
    match kind.to_lowercase().as_str() {
        "service" => dns_1035_label(name),
        "namespace" => dns_1123_label(name),
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => path_segment(name),
        _ => dns_1123_subdomain(name),
    }
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether it consists of lower case letters, digits and inner hyphens.
fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(first, last)| alphanumeric(*first) && alphanumeric(*last))
        && bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

fn dns_1123_subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::from_iter(too_long(name, 253));
    if !is_subdomain(name) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    problems
}

fn dns_1123_label(name: &str) -> Vec<String> {
    let mut problems = Vec::from_iter(too_long(name, 63));
    if !is_label(name) {
        problems.push(if is_subdomain(name) {
            "must not contain dots".into()
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .into()
        });
    }
    problems
}

fn dns_1035_label(name: &str) -> Vec<String> {
    let mut problems = Vec::from_iter(too_long(name, 63));
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .into(),
        );
    }
    problems
}

fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    let found = ["/", "%"].into_iter().filter(|illegal| name.contains(illegal));
    found.map(|illegal| format!("may not contain '{illegal}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::problems;

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain";
    const LABEL: &str = "a lowercase RFC 1123 label";
    const LABEL_1035: &str = "a DNS-1035 label";

    /// Asserts the beginning of each error in a name.
    #[track_caller]
    fn has(kind: &str, name: &str, expected: &[&str]) {
        let problems = problems(kind, name);
        assert_eq!(problems.len(), expected.len(), "{kind} {name}: {problems:?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{kind} {name}: {problem}");
        }
    }

    #[test]
    fn names_are_subdomains_unless_their_kind_says_otherwise() {
        for kind in ["ConfigMap", "deployment", ""] {
            for name in ["a", "9", "a-b", "a.b-c.9", "a--b"] {
                has(kind, name, &[]);
            }
            for name in ["", "-a", "a-", "A", "a_b", "a..b", ".a", "a.", "\u{e9}", "a.-b"] {
                has(kind, name, &[SUBDOMAIN]);
            }
        }
        has("ConfigMap", &"a".repeat(253), &[]);
        has("ConfigMap", &"a".repeat(254), &["must be no more than 253 characters"]);
        has("ConfigMap", &"A".repeat(254), &["must be no more than 253 characters", SUBDOMAIN]);
    }

    #[test]
    fn services_and_namespaces_are_labels() {
        has("Service", "a-9", &[]);
        for name in ["9-a", "a.b", "", "-a", "a-", "aB"] {
            has("service", name, &[LABEL_1035]);
        }
        has("Service", &"a".repeat(63), &[]);
        has("Service", &"a".repeat(64), &["must be no more than 63 characters"]);
        has("Namespace", "9-a", &[]);
        has("Namespace", "a.b", &["must not contain dots"]);
        for name in ["", "a_b", "-a", "a..b"] {
            has("namespace", name, &[LABEL]);
        }
        has("Namespace", &"a".repeat(63), &[]);
        has("Namespace", &"a".repeat(64), &["must be no more than 63 characters"]);
    }

    #[test]
    fn roles_are_segments_of_a_path() {
        for kind in ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"] {
            has(kind, "system:a_B", &[]);
            has(kind, ".", &["may not be '.'"]);
            has(kind, "..", &["may not be '..'"]);
            has(kind, "a/b%c", &["may not contain '/'", "may not contain '%'"]);
        }
        has("CertificateSigningRequest", "any/%thing", &[]);
    }
}
