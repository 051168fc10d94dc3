//! Least privilege: the recorded requests of an operator, compared with its declared permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Method, Uri};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use serde::{Deserialize, Serialize};

use crate::{operator::Finding, write_guard};

/// Recorded requests of an operator, with their counts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<Mutex<BTreeMap<Need, u64>>>);

/// The permission that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Need {
    verb: String,
    group: String,
    /// With the subresource, as in rules: `deployments/status`.
    resource: String,
}

/// Verbs without requests of their own: permissions to use what another request refers to.
const SILENT_VERBS: [&str; 7] = ["approve", "attest", "bind", "escalate", "impersonate", "sign", "use"];

impl Need {
    /// Returns a permission that the request may need as well. An apply creates a missing object; where lists are not
    /// streamed, a list precedes the watch.
    fn behind(&self) -> Option<Self> {
        let verb = match self.verb.as_str() {
            "patch" => "create",
            "watch" => "list",
            _ => return None,
        };
        Some(Self { verb: verb.to_owned(), ..self.clone() })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// One line of a recording.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    need: Need,
    count: u64,
}

impl Requests {
    /// Creates an empty recording.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Need, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request.
    pub(crate) fn note(&self, method: &Method, uri: &Uri) {
        if let Some(need) = need(method, uri) {
            *self.lock().entry(need).or_default() += 1;
        }
    }

    /// Returns a client whose requests are recorded here.
    #[must_use]
    pub fn of(&self, client: Client) -> Client {
        let requests = self.clone();
        write_guard::with_middleware(client, move |client, request| {
            requests.note(request.method(), request.uri());
            async move { client.send(request).await }
        })
    }

    /// Returns the recording: one line of JSON per kind of request.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let all = self.lock();
        let lines = all.iter().filter_map(|(need, count)| {
            serde_json::to_string(&Line { need: need.clone(), count: *count }).ok()
        });
        lines.map(|line| line + "\n").collect()
    }

    /// Parses a recording.
    ///
    /// # Errors
    /// Fails if a line is not one of a recording.
    pub fn from_lines(text: &str) -> Result<Self, serde_json::Error> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let all = lines.map(|line| serde_json::from_str(line).map(|line: Line| (line.need, line.count)));
        Ok(Self(Arc::new(Mutex::new(all.collect::<Result<_, _>>()?))))
    }

    /// Compares the requests with rules.
    pub(crate) fn compare(&self, rules: &[PolicyRule]) -> Comparison {
        let used: BTreeSet<Need> = self.lock().keys().cloned().collect();
        let declared: BTreeSet<Need> = rules.iter().flat_map(needs).collect();
        let covers = |rule: &Need, need: &Need| {
            let matches = |pattern: &str, text: &str| pattern == "*" || pattern == text;
            matches(&rule.verb, &need.verb)
                && matches(&rule.group, &need.group)
                && matches(&rule.resource, &need.resource)
        };
        let missing = used.iter().filter(|need| !declared.iter().any(|rule| covers(rule, need)));
        let missing = missing.map(|need| Finding {
            problem: format!("used but not declared: {need}"),
            fix: "declare it with Operator::permission".to_owned(),
        });
        let behind: Vec<Need> = used.iter().filter_map(Need::behind).collect();
        // Permissions that the API server checks and no request shows: owner references with `blockOwnerDeletion` need
        // `update` on finalizers, and writing a role or a binding takes `escalate` or `bind`.
        let silent = |rule: &Need| {
            rule.resource.ends_with("/finalizers") || SILENT_VERBS.contains(&rule.verb.as_str())
        };
        let idle = declared
            .iter()
            .filter(|rule| !silent(rule) && !used.iter().chain(&behind).any(|need| covers(rule, need)));
        let idle = idle.map(|rule| Finding {
            problem: format!("declared but not used: {rule}"),
            fix: "leave it out, if the run did everything that the operator can do".to_owned(),
        });
        Comparison { missing: missing.collect(), idle: idle.collect() }
    }
}

/// Result of comparing requests with rules.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Permissions that were used and are not allowed.
    pub(crate) missing: Vec<Finding>,
    /// Permissions that are allowed and were not used.
    pub(crate) idle: Vec<Finding>,
}

fn needs(rule: &PolicyRule) -> Vec<Need> {
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                all.push(Need { verb: verb.clone(), group: group.clone(), resource: resource.clone() });
            }
        }
    }
    all
}

/// Returns the permission that a request needs. `None`: it is not for a resource.
fn need(method: &Method, uri: &Uri) -> Option<Need> {
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let mut rest: Vec<&str> = parts.collect();
    // A namespace's own subresources are not objects in it.
    let inside =
        matches!(rest.as_slice(), ["namespaces", _, kind, ..] if !matches!(*kind, "status" | "finalize"));
    if inside {
        rest.drain(..2);
    }
    let (resource, name, subresource) = match rest.as_slice() {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some(*name), None),
        [resource, name, subresource, ..] => (*resource, Some(*name), Some(*subresource)),
        [] => return None,
    };
    // Self reviews need no permission.
    if group == "authorization.k8s.io" {
        return None;
    }
    let verb = match (method.as_str(), name) {
        ("GET" | "HEAD", _) if write_guard::watches(uri) => "watch",
        ("GET" | "HEAD", Some(_)) => "get",
        ("GET" | "HEAD", None) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", Some(_)) => "delete",
        ("DELETE", None) => "deletecollection",
        _ => return None,
    };
    let resource = match subresource {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    Some(Need { verb: verb.to_owned(), group: group.to_owned(), resource })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(requests: &[(Method, &'static str)]) -> Requests {
        let all = Requests::new();
        for (method, uri) in requests {
            all.note(method, &Uri::from_static(uri));
        }
        all
    }

    #[test]
    fn requests_are_told_by_what_they_need() {
        let requests = noted(&[
            (Method::GET, "/version"),
            (Method::GET, "/api/v1/namespaces/lab/pods?limit=1"),
            (Method::GET, "/api/v1/pods?allowWatchBookmarks=true&watch=true"),
            (Method::GET, "/api/v1/namespaces/lab"),
            (Method::PUT, "/api/v1/namespaces/lab/finalize"),
            (Method::PATCH, "/apis/apps/v1/namespaces/lab/deployments/one/status?force=true"),
            (Method::DELETE, "/apis/apps/v1/namespaces/lab/deployments/one"),
            (Method::DELETE, "/apis/apps/v1/namespaces/lab/deployments"),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ]);
        let told: Vec<String> = requests.lock().keys().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "delete deployments.apps",
                "deletecollection deployments.apps",
                "get namespaces",
                "list pods",
                "patch deployments/status.apps",
                "update namespaces/finalize",
                "watch pods",
            ]
        );
        let read = Requests::from_lines(&requests.to_lines()).unwrap();
        assert_eq!(*read.lock(), *requests.lock());
        assert!(Requests::from_lines("nonsense").is_err());
    }

    #[test]
    fn what_is_missing_and_what_is_idle_is_told() {
        let requests = noted(&[
            (Method::GET, "/api/v1/namespaces/lab/secrets/one"),
            (Method::GET, "/api/v1/pods?watch=1"),
            (Method::PATCH, "/api/v1/namespaces/lab/pods/one"),
        ]);
        let rule = |verbs: &[&str], resources: &[&str]| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(resources.iter().map(ToString::to_string).collect()),
            verbs: verbs.iter().map(ToString::to_string).collect(),
            ..PolicyRule::default()
        };
        // Lists and creations are implied by watches and applies, and `update` on finalizers shows in no request.
        let Comparison { missing, idle } = requests.compare(&[
            rule(&["create", "delete", "list", "patch", "watch"], &["pods"]),
            rule(&["update"], &["pods/finalizers"]),
            rule(&["bind", "escalate"], &["clusterroles"]),
            rule(&["list"], &["services"]),
        ]);
        let problems: Vec<_> = missing.iter().chain(&idle).map(|finding| finding.problem.as_str()).collect();
        assert_eq!(
            problems,
            [
                "used but not declared: get secrets",
                "declared but not used: delete pods",
                "declared but not used: list services",
            ]
        );
        let Comparison { missing, idle } = requests.compare(&[rule(&["*"], &["*"])]);
        assert_eq!((missing, idle), (vec![], vec![]));
    }

    #[test]
    fn a_rule_covers_by_verb_group_and_resource() {
        let requests = noted(&[(Method::GET, "/apis/apps/v1/namespaces/lab/deployments/one")]);
        let rule = |verb: &str, group: &str, resource: &str| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: vec![verb.to_owned()],
            ..PolicyRule::default()
        };
        for (verb, group, resource, is_covered) in [
            ("get", "apps", "deployments", true),
            ("*", "apps", "deployments", true),
            ("get", "*", "deployments", true),
            ("get", "apps", "*", true),
            ("list", "apps", "deployments", false),
            ("get", "", "deployments", false),
            ("get", "apps", "deployments/status", false),
        ] {
            let Comparison { missing, idle } = requests.compare(&[rule(verb, group, resource)]);
            assert_eq!(
                (missing.is_empty(), idle.is_empty()),
                (is_covered, is_covered),
                "{verb} {group} {resource}"
            );
        }
    }

    #[test]
    fn every_method_has_its_verb() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/pods", Some("list pods")),
            (Method::HEAD, "/api/v1/namespaces/lab/pods/one", Some("get pods")),
            (Method::GET, "/api/v1/namespaces/lab/pods/one?watch=1", Some("watch pods")),
            (Method::POST, "/api/v1/namespaces/lab/pods", Some("create pods")),
            (Method::POST, "/api/v1/namespaces/lab/pods/one/eviction", Some("create pods/eviction")),
            (Method::PUT, "/api/v1/namespaces/lab/pods/one", Some("update pods")),
            (Method::PATCH, "/api/v1/namespaces/lab/pods/one", Some("patch pods")),
            (Method::GET, "/api/v1/namespaces", Some("list namespaces")),
            (Method::PUT, "/api/v1/namespaces/lab/status", Some("update namespaces/status")),
            (Method::GET, "/api/v1/namespaces/lab/status", Some("get namespaces/status")),
            (Method::DELETE, "/apis/example.com/v1/things", Some("deletecollection things.example.com")),
            (Method::OPTIONS, "/api/v1/pods", None),
            (Method::GET, "/api/v1", None),
            (Method::GET, "/apis/apps", None),
            (Method::GET, "/healthz", None),
            (Method::GET, "/", None),
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews", None),
        ] {
            let found = need(&method, &Uri::from_static(uri)).map(|need| need.to_string());
            assert_eq!(found.as_deref(), expected, "{method} {uri}");
        }
    }

    #[test]
    fn requests_are_counted() {
        let requests = noted(&[(Method::GET, "/api/v1/pods"), (Method::GET, "/api/v1/pods")]);
        assert_eq!(
            requests.to_lines(),
            "{\"verb\":\"list\",\"group\":\"\",\"resource\":\"pods\",\"count\":2}\n"
        );
        assert_eq!(*Requests::from_lines("\n  \n").unwrap().lock(), BTreeMap::new());
    }

    #[test]
    fn what_shows_in_no_request_is_not_idle() {
        let rule = |verb: &str, resource: &str| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: vec![verb.to_owned()],
            ..PolicyRule::default()
        };
        let idle = |verb: &str, resource: &str| Requests::new().compare(&[rule(verb, resource)]).idle.len();
        for verb in SILENT_VERBS {
            assert_eq!(idle(verb, "roles"), 0, "{verb}");
        }
        assert_eq!(
            (idle("update", "pods/finalizers"), idle("update", "pods"), idle("get", "roles")),
            (0, 1, 1)
        );
        // Only what a request implies counts as used: not what might follow a list or a creation.
        let used = noted(&[(Method::GET, "/api/v1/pods"), (Method::POST, "/api/v1/namespaces/lab/pods")]);
        assert_eq!(used.compare(&[rule("watch", "pods"), rule("patch", "pods")]).idle.len(), 2);
    }
}
