//! Health checks (`/healthz`, `/livez`, `/readyz`), metrics and debugging pages.

use std::fmt::Write as _;

use http::{HeaderValue, Response, StatusCode, header};
use steersman_api::http::{Body, text_response};

use crate::{KUBERNETES_VERSION, core::Core};

/// Post-start hooks of the real server, each with a check. Here all are done before the first request.
const STARTED: [&str; 31] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Returns the checks of an endpoint, in display order.
pub(crate) fn checks(endpoint: &str) -> Vec<&'static str> {
    let (before, after): (&[&str], &[&str]) = match endpoint {
        "readyz" => (&["ping", "log", "etcd", "etcd-readiness", "informer-sync"], &["shutdown"]),
        "healthz" | "livez" => (&["ping", "log", "loopback-serving-certificate", "etcd"], &[]),
        _ => return Vec::new(),
    };
    [before, &STARTED, after].concat()
}

/// Returns the response for a path, if it is a health or debugging endpoint.
pub(crate) fn answer(core: &Core, path: &str, query: &str) -> Option<Response<Body>> {
    match path {
        "/metrics" => return Some(metrics(core, true)),
        "/metrics/slis" => return Some(metrics(core, false)),
        "/statusz" => return Some(debugging("statusz", &status(core))),
        "/flagz" => return Some(debugging("flagz", &flags(core))),
        _ => {}
    }
    let (endpoint, check) = match path.trim_start_matches('/').split_once('/') {
        Some((endpoint, check)) => (endpoint, Some(check)),
        None => (path.trim_start_matches('/'), None),
    };
    let all = checks(endpoint);
    match check {
        Some(check) => all.contains(&check).then(|| one(core, endpoint, check)),
        None if all.is_empty() => None,
        None => Some(together(core, endpoint, &all, query)),
    }
}

/// Returns why a check fails: writes cannot be persisted.
/// Liveness is unaffected, as a restart would not help.
fn failure(core: &Core, endpoint: &str, check: &str) -> Option<String> {
    let concerned = endpoint != "livez" && matches!(check, "etcd" | "etcd-readiness");
    let why = core.store.failure().filter(|_| concerned)?;
    Some(format!("read-only: writes cannot be persisted: {why}"))
}

fn one(core: &Core, endpoint: &str, check: &str) -> Response<Body> {
    match failure(core, endpoint, check) {
        Some(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        None => plain(StatusCode::OK, "ok".to_owned()),
    }
}

fn together(core: &Core, endpoint: &str, all: &[&str], query: &str) -> Response<Body> {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let is_verbose = pairs.iter().any(|(key, _)| key == "verbose");
    let mut excluded: Vec<&str> =
        pairs.iter().filter(|(key, _)| key == "exclude").map(|(_, check)| check.as_ref()).collect();
    let (mut text, mut failed) = (String::new(), false);
    for check in all {
        let line = if let Some(at) = excluded.iter().position(|other| other == check) {
            excluded.remove(at);
            format!("[+]{check} excluded: ok")
        } else if let Some(why) = failure(core, endpoint, check) {
            failed = true;
            format!("[-]{check} failed: {why}")
        } else {
            format!("[+]{check} ok")
        };
        text.push_str(&line);
        text.push('\n');
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| steersman_api::status::quote(name)).collect();
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "warn: some health checks cannot be excluded: no matches for {}", names.join(","));
    }
    if failed {
        text.push_str(&format!("{endpoint} check failed\n"));
        return plain(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    if !is_verbose {
        return plain(StatusCode::OK, "ok".to_owned());
    }
    text.push_str(&format!("{endpoint} check passed\n"));
    plain(StatusCode::OK, text)
}

fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = text_response(status, text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns a debugging page in plain text.
fn debugging(name: &str, content: &str) -> Response<Body> {
    plain(
        StatusCode::OK,
        format!(
            "\napiserver {name}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
             compatibility guarantees and is for debugging purposes only.\n{content}"
        ),
    )
}

fn status(core: &Core) -> String {
    let up = core.environment.now().duration_since(core.started).as_secs().max(0);
    let version = KUBERNETES_VERSION.trim_start_matches('v');
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    format!(
        "\nStarted= {}\nUp= {} hr {:02} min {:02} sec\nBinary version= {version}\nEmulation version= {minor}\n\
         Paths= /flagz /healthz /livez /metrics /readyz /statusz /version\n",
        core.started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        up / 3600,
        up / 60 % 60,
        up % 60,
    )
}

/// Lists the settings that are flags in the real server.
fn flags(core: &Core) -> String {
    let settings = core.settings();
    let plugins: Vec<&str> = settings.disabled_plugins.iter().map(String::as_str).collect();
    let mode = if settings.allow_all { "AlwaysAllow" } else { "RBAC" };
    format!(
        "authorization-mode=[{mode}]\ndisable-admission-plugins=[{}]\nevent-ttl={}s\n",
        plugins.join(","),
        settings.event_ttl.as_secs()
    )
}

/// Returns metrics named as in the real server: health checks and, with `all`, version and object counts.
fn metrics(core: &Core, all: bool) -> Response<Body> {
    let mut text = String::from(
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n",
    );
    // Writing to a string does not fail.
    for endpoint in ["healthz", "livez", "readyz"] {
        for check in checks(endpoint) {
            let value = u8::from(failure(core, endpoint, check).is_none());
            let _ = writeln!(text, "kubernetes_healthcheck{{name=\"{check}\",type=\"{endpoint}\"}} {value}");
        }
    }
    if all {
        text.push_str(
            "# HELP apiserver_resource_objects [ALPHA] Number of stored objects at the time of last check split by kind.\n\
             # TYPE apiserver_resource_objects gauge\n",
        );
        let catalog = core.catalog();
        let mut seen = std::collections::BTreeSet::new();
        for resource in catalog.resources().filter(|resource| seen.insert(resource.storage.clone())) {
            let count = core.store.count(&resource.storage);
            let (group, plural) = (&resource.group, &resource.plural);
            let _ = writeln!(
                text,
                "apiserver_resource_objects{{group=\"{group}\",resource=\"{plural}\"}} {count}"
            );
        }
        let _ = writeln!(
            text,
            "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by version.\n\
             # TYPE kubernetes_build_info gauge\n\
             kubernetes_build_info{{git_version=\"{KUBERNETES_VERSION}\",major=\"1\",minor=\"36\"}} 1"
        );
    }
    let mut response = text_response(StatusCode::OK, text);
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
