//! The server of the metrics API. Its requests come from the aggregation layer, which has authorised them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    environment::{Environment, seconds},
    group_version::GroupResource,
    http::{Discovery, Options, Route, Target, negotiate, wants_discovery},
    object,
    selector::{FieldSelector, LabelSelector},
    status::{ApiError, ApiResult, Reason, quote},
    store::{Entry, Store},
};
use steersman_apiserver::ApiServiceTarget;

use super::{
    GROUP, NAME, NAMESPACE, VERSION,
    documents::{self, NODES, PODS, Served},
    output::{list_as, one_as, usage_list},
    usage::{PodUsage, Usage, measure},
};

/// Window of the reported usage. Autoscalers ignore the CPU usage of pods that became ready within it.
const WINDOW: &str = "10s";
/// Maximum number of ignored annotations to remember as logged.
const MAX_REPORTED: usize = 1000;
/// Maximum number of warnings in a response.
const MAX_WARNINGS: usize = 10;

/// A small metrics-server, which reads from the store.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    store: Store,
    environment: Arc<dyn Environment>,
    /// Whether it serves its own Service, which has no pods.
    is_installed: bool,
    /// Whether it serves for an installed metrics-server whose pods are simulated.
    stands_in: bool,
    /// Ignored annotations that have been logged.
    reported: Mutex<BTreeSet<String>>,
}

impl MetricsServer {
    pub(crate) fn new(
        store: Store,
        environment: Arc<dyn Environment>,
        is_installed: bool,
        stands_in: bool,
    ) -> Self {
        Self { store, environment, is_installed, stands_in, reported: Mutex::default() }
    }

    /// Whether it serves an APIService through its own Service, regardless of endpoints.
    pub(crate) fn is_behind(&self, target: ApiServiceTarget<'_>) -> bool {
        let service = target.service;
        self.is_installed
            && (target.group, service.namespace, service.name) == (GROUP, NAMESPACE, NAME)
            && service.object.is_some()
    }

    /// Whether it serves an APIService that has no other server.
    pub(crate) fn serves(&self, target: ApiServiceTarget<'_>) -> bool {
        // A Service without a selector has endpoints written by hand, which lead to another server.
        let selects =
            |service: &Value| service["spec"]["selector"].as_object().is_some_and(|s| !s.is_empty());
        let stands_in = || {
            self.stands_in
                && target.group == GROUP
                && target.service.object.is_some_and(selects)
                && target.service.endpoints.any_ready()
        };
        self.is_behind(target) || stands_in()
    }

    /// Responds to a request.
    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let mut warnings = BTreeSet::new();
        let mut response = match self.respond(request, &mut warnings) {
            Ok(response) => response,
            Err(error) => json_response(error.code, error.to_value().to_string()),
        };
        for warning in warnings.iter().take(MAX_WARNINGS) {
            // A warning with characters that a header can't have is only logged.
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quote(warning))) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        self.report(warnings);
        response
    }

    /// Logs ignored annotations, each once.
    fn report(&self, warnings: BTreeSet<String>) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() > MAX_REPORTED {
            reported.clear();
        }
        for warning in warnings {
            if !reported.contains(&warning) {
                tracing::warn!("{warning}");
                reported.insert(warning);
            }
        }
    }

    fn respond(
        &self,
        request: &Request<Bytes>,
        warnings: &mut BTreeSet<String>,
    ) -> ApiResult<Response<Bytes>> {
        let path = request.uri().path();
        let document = |text: String| Ok(json_response(StatusCode::OK, text));
        match Route::parse(path) {
            Route::Resource(target)
                if (target.group.as_str(), target.version.as_str()) == (GROUP, VERSION) =>
            {
                self.serve(&target, request, warnings)
            }
            _ if request.method() != Method::GET => Err(ApiError::method_not_allowed()),
            Route::GroupsRoot if wants_discovery(request.headers()) == Discovery::V2 => {
                let mut response = json_response(StatusCode::OK, documents::aggregated().to_string());
                let media = HeaderValue::from_static(documents::AGGREGATED);
                response.headers_mut().insert(header::CONTENT_TYPE, media);
                Ok(response)
            }
            Route::GroupsRoot => document(documents::groups().to_string()),
            Route::Group(group) if group == GROUP => document(documents::group().to_string()),
            Route::GroupVersion(group, version) if (group.as_str(), version.as_str()) == (GROUP, VERSION) => {
                document(documents::resources().to_string())
            }
            Route::Other(path) => match path.as_str() {
                "/openapi/v2" => document(documents::OPENAPI_V2_DOCUMENT.clone()),
                "/openapi/v3" => document(documents::openapi_v3_index().to_string()),
                documents::OPENAPI_V3 => document(documents::OPENAPI_V3_DOCUMENT.clone()),
                "/healthz" | "/livez" | "/readyz" => Ok(Response::new(Bytes::from_static(b"ok"))),
                _ => Err(no_such_path()),
            },
            _ => Err(no_such_path()),
        }
    }

    /// Serves a request for metrics.
    fn serve(
        &self,
        target: &Target,
        request: &Request<Bytes>,
        warnings: &mut BTreeSet<String>,
    ) -> ApiResult<Response<Bytes>> {
        let served = match target.plural.as_str() {
            "nodes" if !target.namespaced => &NODES,
            "pods" => &PODS,
            _ => return Err(no_such_path()),
        };
        let needs_namespace = served.namespaced && !target.name.is_empty() && !target.namespaced;
        if !target.subresource.is_empty() || needs_namespace {
            return Err(no_such_path());
        }
        let options = Options::parse(request.uri().query().unwrap_or_default())?;
        if request.method() != Method::GET || options.watch || target.watch {
            return Err(ApiError::method_not_allowed());
        }
        // The API server transcodes the JSON if its client requested another encoding.
        let (output, _) = negotiate(request.headers())?;
        let value = if target.name.is_empty() {
            let items = self.list(served, &target.namespace, &options, warnings)?;
            list_as(output, served, items, &options)
        } else {
            let item = self.get(served, &target.namespace, &target.name, warnings)?;
            one_as(output, served, item, &options)
        };
        Ok(json_response(StatusCode::OK, value?.to_string()))
    }

    /// Returns the metrics of the objects that the selectors match.
    fn list(
        &self,
        served: &Served,
        namespace: &str,
        options: &Options,
        warnings: &mut BTreeSet<String>,
    ) -> ApiResult<Vec<Value>> {
        let invalid = |why: String| ApiError::bad_request(format!("unable to parse requirement: {why}"));
        let labels = LabelSelector::parse(&options.label_selector).map_err(invalid)?;
        let fields = FieldSelector::parse(&options.field_selector).map_err(ApiError::bad_request)?;
        let is_known = |field: &&str| matches!(*field, "metadata.name" | "metadata.namespace");
        if let Some(field) = fields.fields().find(|field| !is_known(field)) {
            return Err(ApiError::bad_request(format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quote(field)
            )));
        }
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let entries = self.store.list(served.plural, &prefix, None).entries;
        let chosen = entries.iter().filter(|entry| labels.matches(entry.labels()) && fields.matches(entry));
        Ok(if served.namespaced {
            let unheard = self.unheard_nodes();
            chosen.filter_map(|entry| self.pod(entry, &unheard, warnings)).collect()
        } else {
            let usage = self.node_usage(warnings);
            chosen.filter_map(|entry| self.node(entry, &usage)).collect()
        })
    }

    /// Returns the metrics of one object.
    fn get(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        warnings: &mut BTreeSet<String>,
    ) -> ApiResult<Value> {
        let key = if served.namespaced { object::key(namespace, name) } else { name.to_owned() };
        let Some(entry) = self.store.read(served.plural, &key) else {
            return Err(ApiError::not_found(GroupResource { group: "", resource: served.plural }, name));
        };
        let item = if served.namespaced {
            self.pod(&entry, &self.unheard_nodes(), warnings)
        } else {
            self.node(&entry, &self.node_usage(warnings))
        };
        item.ok_or_else(|| {
            ApiError::not_found(GroupResource { group: GROUP, resource: served.subject }, &key)
        })
    }

    /// Returns the names of nodes that are not ready, which report no metrics.
    fn unheard_nodes(&self) -> BTreeSet<String> {
        let nodes = self.store.list("nodes", "", None).entries;
        nodes.iter().filter(|node| !is_ready(&node.value())).map(|node| node.name().to_owned()).collect()
    }

    /// Returns the usage of all pods, summed by node.
    fn node_usage(&self, warnings: &mut BTreeSet<String>) -> BTreeMap<String, Usage> {
        let mut nodes = BTreeMap::<String, Usage>::new();
        for entry in self.store.list("pods", "", None).entries {
            let pod = entry.value();
            let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
            let sum = nodes.entry(node.to_owned()).or_default();
            *sum = sum.plus(self.measure(&pod, warnings).total());
        }
        nodes
    }

    /// Measures the usage of a pod, which is zero unless it is running.
    fn measure<'a>(&self, pod: &'a Value, warnings: &mut BTreeSet<String>) -> PodUsage<'a> {
        if pod["status"]["phase"] != "Running" {
            return PodUsage::default();
        }
        let controller = self.controller(pod);
        let mut usage = measure(pod, controller.as_ref());
        let about = format!("pod {}/{}", object::namespace(pod), object::name(pod));
        warnings.extend(usage.ignored.drain(..).map(|why| format!("{about}: ignored {why}")));
        usage
    }

    /// Returns the object that controls a pod, if its kind is built in.
    fn controller(&self, pod: &Value) -> Option<Value> {
        let owners = pod["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let resource = match owner["kind"].as_str()? {
            "ReplicaSet" => "replicasets.apps",
            "StatefulSet" => "statefulsets.apps",
            "DaemonSet" => "daemonsets.apps",
            "Job" => "jobs.batch",
            "ReplicationController" => "replicationcontrollers",
            _ => return None,
        };
        let key = object::key(object::namespace(pod), owner["name"].as_str()?);
        let controller = self.store.read(resource, &key)?.value();
        (controller["metadata"]["uid"] == owner["uid"]).then_some(controller)
    }

    fn pod(
        &self,
        entry: &Entry,
        unheard: &BTreeSet<String>,
        warnings: &mut BTreeSet<String>,
    ) -> Option<Value> {
        let pod = entry.value();
        if pod["spec"]["nodeName"].as_str().is_none_or(|node| unheard.contains(node)) {
            return None;
        }
        let usage = self.measure(&pod, warnings);
        if usage.containers.is_empty() {
            return None;
        }
        let containers: Vec<Value> = usage
            .containers
            .iter()
            .map(|(name, usage)| json!({"name": name, "usage": usage_list(*usage)}))
            .collect();
        let now = self.environment.now();
        Some(json!({
            "metadata": metadata(&pod, now),
            "timestamp": seconds(now),
            "window": WINDOW,
            "containers": containers,
        }))
    }

    fn node(&self, entry: &Entry, usage: &BTreeMap<String, Usage>) -> Option<Value> {
        let node = entry.value();
        if !is_ready(&node) {
            return None;
        }
        let now = self.environment.now();
        let usage = usage.get(entry.name()).copied().unwrap_or_default();
        Some(json!({
            "metadata": metadata(&node, now),
            "timestamp": seconds(now),
            "window": WINDOW,
            "usage": usage_list(usage),
        }))
    }
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns the metadata of metrics: created at the time of the request, with the labels of the measured object.
fn metadata(of: &Value, now: Timestamp) -> Value {
    let mut metadata = json!({"name": object::name(of), "creationTimestamp": seconds(now)});
    for field in ["namespace", "labels"] {
        object::carry(&of["metadata"], &mut metadata, field);
    }
    metadata
}

fn no_such_path() -> ApiError {
    let message = "the server could not find the requested resource";
    ApiError::new(StatusCode::NOT_FOUND, Reason::NotFound, message)
}

fn json_response(code: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
