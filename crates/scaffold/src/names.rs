//! Validates and derives names.

use steersman_formats::names;

use crate::error::{Error, Result};

fn refused(flag: &'static str, value: &str, reason: impl Into<String>) -> Error {
    Error::Name { flag, value: value.to_owned(), reason: reason.into() }
}

/// Checks a project's name, which becomes the prefix of its objects' names and of its namespace.
pub(crate) fn check_project_name(name: &str) -> Result<()> {
    // The namespace is `<name>-system`, and a label has 63 characters.
    if name.len() > 56 {
        return Err(refused("--project-name", name, "must be no more than 56 characters"));
    }
    first(names::label(name)).map_or(Ok(()), |reason| Err(refused("--project-name", name, reason)))
}

/// Checks a project's domain, the suffix of its API groups.
pub(crate) fn check_domain(domain: &str) -> Result<()> {
    first(names::subdomain(domain)).map_or(Ok(()), |reason| Err(refused("--domain", domain, reason)))
}

/// Checks an API group without its domain.
pub(crate) fn check_group(group: &str) -> Result<()> {
    first(names::subdomain(group)).map_or(Ok(()), |reason| Err(refused("--group", group, reason)))
}

/// Checks an API group with its domain.
pub(crate) fn check_full_group(group: &str, full: &str) -> Result<()> {
    if !full.contains('.') {
        return Err(refused(
            "--group",
            group,
            "a group without a domain must have a dot in it, such as example.com",
        ));
    }
    let is_reserved = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| full.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if is_reserved {
        return Err(refused("--group", group, format!("{full} is reserved for Kubernetes")));
    }
    first(names::subdomain(full)).map_or(Ok(()), |reason| Err(refused("--group", group, reason)))
}

/// Checks an API version, such as `v1`, `v1beta1` or `v2alpha10`.
pub(crate) fn check_version(version: &str) -> Result<()> {
    let rest = version.strip_prefix('v').and_then(number);
    let sound = rest.is_some_and(|rest| match rest.strip_prefix("alpha").or(rest.strip_prefix("beta")) {
        Some(rest) => number(rest) == Some(""),
        None => rest.is_empty(),
    });
    if sound {
        return Ok(());
    }
    Err(refused("--version", version, "must be a version such as v1, v1beta1 or v1alpha1"))
}

/// Checks a kind: a word in PascalCase.
pub(crate) fn check_kind(kind: &str) -> Result<()> {
    if !kind.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Err(refused("--kind", kind, "must start with an upper case letter, such as Memcached"));
    }
    if !kind.chars().all(|c| c.is_ascii_alphanumeric()) || kind.len() > 63 {
        return Err(refused("--kind", kind, "must have up to 63 letters and digits, such as Memcached"));
    }
    Ok(())
}

/// Checks the plural of a kind, which is the resource's name in URLs.
pub(crate) fn check_plural(plural: &str) -> Result<()> {
    first(names::label_1035(plural)).map_or(Ok(()), |reason| Err(refused("--plural", plural, reason)))
}

/// Strips a leading number of one or two digits.
fn number(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_number = (1..=2).contains(&digits) && !text.starts_with('0');
    is_number.then(|| text.split_at(digits).1)
}

fn first(reasons: Vec<String>) -> Option<String> {
    reasons.into_iter().next()
}

/// Derives a kind from a chart's name as operator-sdk does: `kube-web_shop` becomes `KubeWebShop`.
pub(crate) fn kind_of_chart(name: &str) -> String {
    let mut kind = String::with_capacity(name.len());
    let mut is_start = true;
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            kind.push(if is_start { c.to_ascii_uppercase() } else { c });
            is_start = c.is_ascii_digit();
        } else {
            is_start = true;
        }
    }
    kind
}

/// Returns the English plural of a kind, in lower case.
pub(crate) fn plural_of(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    if ends(&["ay", "ey", "iy", "oy", "uy"]) {
        return format!("{word}s");
    }
    if let Some(stem) = word.strip_suffix('y') {
        return format!("{stem}ies");
    }
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return format!("{word}es");
    }
    format!("{word}s")
}

/// Guesses the resource of a kind as Kubernetes' `meta.UnsafeGuessKindToResource` does.
pub(crate) fn guess_resource(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    match word.bytes().last() {
        None => word,
        Some(_) if word.ends_with("endpoints") => word,
        Some(b's') => format!("{word}es"),
        Some(b'y') => format!("{}ies", word.trim_end_matches('y')),
        Some(_) => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_kubernetes() {
        for good in ["v1", "v12", "v1alpha1", "v2beta10"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["", "1", "v", "v0", "v1.2", "v1gamma1", "v1alpha", "v1alpha0x", "V1", "v123"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_are_words_in_camel_case() {
        for good in ["Memcached", "K8SThing", "A"] {
            assert!(check_kind(good).is_ok(), "{good}");
        }
        for bad in ["", "memcached", "Mem-cached", "Mem cached", "Größe", &"A".repeat(64)] {
            assert!(check_kind(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn project_names_leave_room_for_the_namespace() {
        assert!(check_project_name("shop-operator").is_ok());
        for bad in ["Shop", "shop_operator", "", "-shop", &"a".repeat(57)] {
            assert!(check_project_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_follow_from_names_of_charts() {
        for (name, kind) in [
            ("nginx", "Nginx"),
            ("kube-prometheus-stack", "KubePrometheusStack"),
            ("influxdb3_clustered", "Influxdb3Clustered"),
            ("redis-ha", "RedisHa"),
        ] {
            assert_eq!(kind_of_chart(name), kind);
        }
    }

    #[test]
    fn plurals_are_english() {
        for (kind, plural) in [
            ("Memcached", "memcacheds"),
            ("Nginx", "nginxes"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Switch", "switches"),
            ("Redis", "redises"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }

    /// The guess is right for every built-in kind.
    #[test]
    fn resources_of_built_in_kinds_are_guessed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kinds/data/resources.json");
        let groups: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let resources = |version: &serde_json::Value| version["resources"].as_array().cloned().unwrap();
        let mut seen = 0;
        for version in
            groups.as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap())
        {
            for resource in resources(version) {
                let (name, kind) = (resource["name"].as_str().unwrap(), resource["kind"].as_str().unwrap());
                if !name.contains('/') {
                    assert_eq!(guess_resource(kind), name);
                    seen += 1;
                }
            }
        }
        assert!(seen > 60, "{seen}");
    }
}
