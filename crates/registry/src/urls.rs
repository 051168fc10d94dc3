//! URL handling equivalent to Helm's.

use url::Url;

use crate::Error;

/// Resolves `reference` against a repository's `base`. Absolute URLs are kept, others are below the base and inherit its
/// query.
pub(crate) fn resolve(base: &str, reference: &str) -> Result<String, Error> {
    if Url::parse(reference).is_ok() {
        return Ok(reference.to_owned());
    }
    let mut base = parse(base)?;
    if !base.path().ends_with('/') {
        let directory = format!("{}/", base.path());
        base.set_path(&directory);
    }
    let mut joined = base.join(reference).map_err(|_| Error::InvalidUrl(reference.to_owned()))?;
    joined.set_query(base.query());
    Ok(joined.into())
}

/// Parses an absolute URL.
pub(crate) fn parse(url: &str) -> Result<Url, Error> {
    Url::parse(url).map_err(|_| Error::InvalidUrl(url.to_owned()))
}

/// Whether two URLs are equal after cleaning their paths.
pub(crate) fn equal(left: &str, right: &str) -> bool {
    match (Url::parse(left), Url::parse(right)) {
        (Ok(left), Ok(right)) => cleaned(left) == cleaned(right),
        (Err(_), Err(_)) => left.trim_end_matches('/') == right.trim_end_matches('/'),
        _ => false,
    }
}

/// Whether both URLs have the same origin: scheme, host and port. Credentials never leave it unless requested.
pub(crate) fn same_service(left: &str, right: &str) -> bool {
    match (Url::parse(left), Url::parse(right)) {
        (Ok(left), Ok(right)) => left.origin() == right.origin() && left.origin().is_tuple(),
        _ => false,
    }
}

/// Returns the last segment of a URL's path.
pub(crate) fn file_name(url: &Url) -> &str {
    url.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

fn cleaned(mut url: Url) -> Url {
    let parts: Vec<_> = url.path().split('/').filter(|part| !part.is_empty()).collect();
    let path = format!("/{}", parts.join("/"));
    url.set_path(&path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_references_lie_beneath_the_repository() {
        for (base, reference, expected) in [
            ("http://h/charts", "a-1.tgz", "http://h/charts/a-1.tgz"),
            ("http://h/charts/", "a-1.tgz", "http://h/charts/a-1.tgz"),
            ("http://h/charts", "sub/a-1.tgz", "http://h/charts/sub/a-1.tgz"),
            ("http://h/charts", "../a-1.tgz", "http://h/a-1.tgz"),
            ("http://h/charts", "/a-1.tgz", "http://h/a-1.tgz"),
            ("http://h/charts?token=t", "a-1.tgz", "http://h/charts/a-1.tgz?token=t"),
            ("http://h", "index.yaml", "http://h/index.yaml"),
            ("http://h/charts", "https://cdn/a-1.tgz", "https://cdn/a-1.tgz"),
            ("http://h/charts", "oci://r/a:1", "oci://r/a:1"),
        ] {
            assert_eq!(resolve(base, reference).unwrap(), expected, "{base} {reference}");
        }
    }

    #[test]
    fn spelling_of_paths_does_not_matter() {
        assert!(equal("http://h/charts", "http://h/charts/"));
        assert!(equal("http://h", "http://h/"));
        assert!(equal("http://h//charts", "http://h/charts"));
        assert!(!equal("http://h/charts", "https://h/charts"));
        assert!(!equal("http://h/charts", "http://h/chart"));
    }

    #[test]
    fn a_service_is_scheme_host_and_port() {
        assert!(same_service("http://h/a", "http://h/b"));
        assert!(same_service("https://h/a", "https://h:443/b"));
        assert!(!same_service("http://h/a", "https://h/a"));
        assert!(!same_service("http://h:1/a", "http://h:2/a"));
        assert!(!same_service("http://h/a", "http://h.evil/a"));
    }
}
