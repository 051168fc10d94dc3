//! Instances of a kind: lists and single objects.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    answer::{self, Body},
    audit,
    field::{self, Step},
    health::Health,
    kinds::{Kind, list, name_of, namespace_of},
    problem::{Problem, Result},
    redact,
    request::RequestContext,
    upstream::{Cluster, encode},
    writes::{self, Change},
};

const DEFAULT_LIMIT: u64 = 500;
const LARGEST_LIMIT: u64 = 5000;
/// The maximum number of objects read for a list that the API server cannot filter or sort on its own.
const MOST: usize = 50_000;
pub(crate) const SELECTION: &[&str] = &[
    "version",
    "labelSelector",
    "fieldSelector",
    "filter",
    "sort",
    "limit",
    "continue",
    "fields",
    "reveal",
    "lastEventId",
];

/// Returns the URL path of an instance in the gateway's API.
pub(crate) fn address(kind: &Kind, namespace: Option<&str>, name: &str) -> String {
    let place = match namespace.filter(|_| kind.namespaced) {
        Some(namespace) => format!("namespaces/{}/", encode(namespace)),
        None => String::new(),
    };
    format!("/v1/kinds/{}/{place}instances/{}", encode(&kind.name()), encode(name))
}

/// Prepares an object for display: with kind and apiVersion, without managed fields. Secrets are redacted unless the
/// request reveals them.
pub(crate) fn shown(ctx: &RequestContext, kind: &Kind, object: &Value) -> Result<Value> {
    let reveal = ctx.query.flag("reveal")?;
    let mut object = if reveal { object.clone() } else { redact::hide(object, kind) };
    if let Some(members) = object.as_object_mut() {
        members.entry("apiVersion").or_insert_with(|| kind.api_version().into());
        members.entry("kind").or_insert_with(|| kind.kind.clone().into());
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(object)
}

/// Which objects of a kind are selected, and how they are shown.
pub(crate) struct Selection {
    /// The label and field selectors for the API server's query, each preceded by `&`.
    pub(crate) selectors: String,
    filters: Vec<Filter>,
    fields: Vec<Vec<Step>>,
    columns: Vec<Option<Vec<Step>>>,
}

/// A filter on one field of an object.
struct Filter {
    path: Subject,
    operator: Operator,
    value: String,
}

enum Subject {
    Name,
    Health,
    Field(Vec<Step>),
}

#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Is,
    IsNot,
    Contains,
    More,
    Less,
}

impl Filter {
    fn parse(text: &str) -> Result<Self> {
        let operators = [
            ("!=", Operator::IsNot),
            ("=", Operator::Is),
            ("~", Operator::Contains),
            (">", Operator::More),
            ("<", Operator::Less),
        ];
        // The leftmost operator counts; the value is what follows it.
        let found = operators
            .iter()
            .filter_map(|(sign, operator)| Some((text.find(sign)?, *sign, *operator)))
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())));
        let Some((at, sign, operator)) = found else {
            return Ok(Self { path: Subject::Name, operator: Operator::Contains, value: text.to_owned() });
        };
        let (path, value) = (text[..at].trim(), text[at + sign.len()..].trim().to_owned());
        let path = match path {
            "health" => Subject::Health,
            path => Subject::Field(field::parse(path).ok_or_else(|| {
                Problem::bad_request(format!("parameter filter: {path:?} is not a valid field path"))
            })?),
        };
        Ok(Self { path, operator, value })
    }

    fn holds(&self, object: &Value, kind: &Kind) -> bool {
        let values = match &self.path {
            Subject::Name => {
                vec![name_of(object).to_owned(), namespace_of(object).unwrap_or_default().to_owned()]
            }
            Subject::Health => vec![Health::of(object, kind.custom).state.word().to_owned()],
            Subject::Field(steps) => field::find(object, steps).into_iter().map(field::text).collect(),
        };
        let number = |text: &str| text.parse::<f64>().ok();
        let compared = |value: &String| match self.operator {
            Operator::Is | Operator::IsNot => *value == self.value,
            Operator::Contains => value.to_lowercase().contains(&self.value.to_lowercase()),
            Operator::More => {
                number(value).zip(number(&self.value)).is_some_and(|(value, bound)| value > bound)
            }
            Operator::Less => {
                number(value).zip(number(&self.value)).is_some_and(|(value, bound)| value < bound)
            }
        };
        values.iter().any(compared) != (self.operator == Operator::IsNot)
    }
}

impl Selection {
    pub(crate) fn read(ctx: &RequestContext, kind: &Kind) -> Result<Self> {
        let mut selectors = String::new();
        for name in ["labelSelector", "fieldSelector"] {
            if let Some(value) = ctx.query.get(name) {
                selectors += &format!("&{name}={}", encode(value));
            }
        }
        let filters = ctx
            .query
            .all("filter")
            .filter(|text| !text.is_empty())
            .map(Filter::parse)
            .collect::<Result<_>>()?;
        let paths = ctx.query.get("fields").into_iter().flat_map(|text| text.split(','));
        let path = |text: &str| {
            let steps = field::parse(text).filter(|steps| field::patch(steps, Value::Null).is_some());
            steps.ok_or_else(|| {
                Problem::bad_request(format!("parameter fields: {text:?} is not a valid field path"))
            })
        };
        let fields = paths.map(path).collect::<Result<_>>()?;
        let columns = kind.columns();
        let columns = columns
            .iter()
            .map(|column| field::parse(column["jsonPath"].as_str().unwrap_or_default()))
            .collect();
        Ok(Self { selectors, filters, fields, columns })
    }

    pub(crate) fn holds(&self, object: &Value, kind: &Kind) -> bool {
        self.filters.iter().all(|filter| filter.holds(object, kind))
    }

    /// Returns an object with its health and printer column cells.
    pub(crate) fn item(&self, ctx: &RequestContext, kind: &Kind, object: &Value) -> Result<Value> {
        let object = shown(ctx, kind, object)?;
        let cell = |steps: &Option<Vec<Step>>| match steps.as_ref().map(|steps| field::find(&object, steps)) {
            None => Value::Null,
            Some(found) if found.len() > 1 => {
                found.into_iter().map(field::text).collect::<Vec<_>>().join(",").into()
            }
            Some(found) => found.first().map(|value| (*value).clone()).unwrap_or_default(),
        };
        let cells: Vec<Value> = self.columns.iter().map(cell).collect();
        let health = Health::of(&object, kind.custom).document();
        Ok(json!({"object": self.pruned(object), "health": health, "cells": cells}))
    }

    /// Reduces an object to the requested fields, and those that identify it.
    fn pruned(&self, object: Value) -> Value {
        if self.fields.is_empty() {
            return object;
        }
        let mut kept = json!({});
        let named = [
            "apiVersion",
            "kind",
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "metadata.resourceVersion",
        ];
        let named = named.iter().filter_map(|path| field::parse(path));
        for steps in named.chain(self.fields.iter().cloned()) {
            if let Some(patch) =
                field::first(&object, &steps).and_then(|value| field::patch(&steps, value.clone()))
            {
                writes::merge(&mut kept, &patch);
            }
        }
        kept
    }
}

/// `GET …/instances`.
pub(crate) async fn get_list(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
) -> Result<Response<Body>> {
    let selection = Selection::read(ctx, kind)?;
    audit_reveal(ctx, kind, (namespace, None))?;
    let limit = ctx.query.number("limit", 1, LARGEST_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let path = kind.path(namespace, None);
    let sort = ctx.query.get("sort");
    let page = if selection.filters.is_empty() && sort.is_none() {
        let from =
            ctx.query.get("continue").map(|token| format!("&continue={}", encode(token))).unwrap_or_default();
        let page =
            ctx.caller.cluster.get(&format!("{path}?limit={limit}{from}{}", selection.selectors)).await?;
        let metadata = &page["metadata"];
        Page {
            next: metadata["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned),
            remaining: metadata["remainingItemCount"].as_u64(),
            version: metadata["resourceVersion"].clone(),
            objects: list(&page["items"]).to_vec(),
        }
    } else {
        sorted(ctx, kind, &path, &selection, sort, limit).await?
    };
    let items: Vec<Value> =
        page.objects.iter().map(|object| selection.item(ctx, kind, object)).collect::<Result<_>>()?;
    let document = json!({"items": items, "continue": page.next, "remaining": page.remaining, "resourceVersion": page.version});
    Ok(answer::json(StatusCode::OK, &document))
}

struct Page {
    objects: Vec<Value>,
    next: Option<String>,
    remaining: Option<u64>,
    version: Value,
}

/// Lists all objects under a path, with the list's resourceVersion.
pub(crate) async fn all(cluster: &Cluster, path: &str, selectors: &str) -> Result<(Vec<Value>, String)> {
    let mut objects = Vec::new();
    let mut from = String::new();
    loop {
        let mut page = cluster.get(&format!("{path}?limit={DEFAULT_LIMIT}{from}{selectors}")).await?;
        if let Value::Array(items) = page["items"].take() {
            objects.extend(items);
        }
        let metadata = &page["metadata"];
        match metadata["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(_) if objects.len() > MOST => {
                let detail =
                    format!("more than {MOST} objects: filter by namespace, labelSelector or fieldSelector");
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "TooMany", detail));
            }
            Some(token) => from = format!("&continue={}", encode(token)),
            None => {
                return Ok((objects, metadata["resourceVersion"].as_str().unwrap_or_default().to_owned()));
            }
        }
    }
}

/// Returns a page of a list that the API server cannot filter or sort on its own. The continue token is an offset into
/// the order.
async fn sorted(
    ctx: &RequestContext,
    kind: &Kind,
    path: &str,
    selection: &Selection,
    sort: Option<&str>,
    limit: u64,
) -> Result<Page> {
    let wrong = || Problem::bad_request("parameter continue: not a continue token for these parameters");
    let from: usize = match ctx.query.get("continue") {
        None => 0,
        Some(token) => {
            let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
            String::from_utf8(bytes)
                .ok()
                .and_then(|text| text.strip_prefix("at:")?.parse().ok())
                .ok_or_else(wrong)?
        }
    };
    let (mut objects, version) = all(&ctx.caller.cluster, path, &selection.selectors).await?;
    objects.retain(|object| selection.holds(object, kind));
    for key in sort.unwrap_or_default().split(',').rev().filter(|key| !key.is_empty()) {
        let (key, down) = key.strip_prefix('-').map_or((key, false), |key| (key, true));
        let steps = field::parse(key).ok_or_else(|| {
            Problem::bad_request(format!("parameter sort: {key:?} is not a valid field path"))
        })?;
        // Sorts by the last key first; the sort is stable, so the earlier keys take precedence.
        if down {
            objects.sort_by_cached_key(|object| std::cmp::Reverse(Order::of(object, kind, key, &steps)));
        } else {
            objects.sort_by_cached_key(|object| Order::of(object, kind, key, &steps));
        }
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = from.saturating_add(limit);
    let rest = objects.len().saturating_sub(end);
    let objects = objects.into_iter().skip(from).take(limit).collect();
    let next = (rest > 0).then(|| URL_SAFE_NO_PAD.encode(format!("at:{end}")));
    Ok(Page { objects, next, remaining: Some(rest as u64), version: version.into() })
}

/// The sort key of a value: missing values first, then numbers, then strings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Nothing,
    Number(i128),
    Text(String),
}

impl Order {
    fn of(object: &Value, kind: &Kind, key: &str, steps: &[Step]) -> Self {
        if key == "health" {
            return Self::Number(Health::of(object, kind.custom).state as i128);
        }
        match field::first(object, steps) {
            None | Some(Value::Null) => Self::Nothing,
            #[allow(
                clippy::cast_possible_truncation,
                reason = "an order of fractions to a millionth is enough"
            )]
            Some(Value::Number(number)) => Self::Number((number.as_f64().unwrap_or_default() * 1e6) as i128),
            Some(other) => Self::Text(field::text(other)),
        }
    }
}

/// Audits that a caller reveals secrets, before they are shown.
fn audit_reveal(ctx: &RequestContext, kind: &Kind, place: (Option<&str>, Option<&str>)) -> Result<()> {
    if ctx.query.flag("reveal")? {
        audit::accepted(ctx, kind, place, "reveal", StatusCode::OK, Vec::new());
    }
    Ok(())
}

/// `GET …/instances/{name}`.
pub(crate) async fn get_one(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version", "reveal"])?;
    let object = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    audit_reveal(ctx, kind, (namespace, Some(name)))?;
    let response =
        answer::object(StatusCode::OK, &shown(ctx, kind, &object)?, ctx.accepts("application/yaml"));
    let unchanged = ctx
        .headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|tag| response.headers().get(header::ETAG) == Some(tag));
    if unchanged {
        let mut short = answer::empty(StatusCode::NOT_MODIFIED);
        if let Some(tag) = response.headers().get(header::ETAG) {
            short.headers_mut().insert(header::ETAG, HeaderValue::clone(tag));
        }
        return Ok(short);
    }
    Ok(response)
}

/// Parses the body of a write as an object of the kind.
fn object_body(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Value> {
    let mut object = ctx.json()?;
    let Some(members) = object.as_object_mut() else {
        return Err(Problem::bad_request("the body must be an object"));
    };
    for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        let given = members.entry(field).or_insert_with(|| wanted.clone().into());
        if *given != wanted {
            return Err(Problem::invalid(field, format!("is {given}, but the URL has {wanted}")));
        }
    }
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(Problem::invalid("metadata", "must be an object"));
    };
    for (field, wanted) in [("name", name), ("namespace", namespace.filter(|_| kind.namespaced))] {
        let Some(wanted) = wanted else { continue };
        let given = metadata.entry(field).or_insert_with(|| wanted.into());
        if *given != wanted {
            return Err(Problem::invalid(
                &format!("metadata.{field}"),
                format!("is {given}, but the URL has {wanted}"),
            ));
        }
    }
    Ok(object)
}

/// `POST …/instances`.
pub(crate) async fn create(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
) -> Result<Response<Body>> {
    ctx.query.allow(writes::PARAMETERS)?;
    let object = object_body(ctx, kind, namespace, None)?;
    let namespace = namespace.or_else(|| namespace_of(&object)).map(str::to_owned);
    if kind.namespaced && namespace.is_none() {
        let detail = "is required: set it here, or in the URL as /namespaces/{namespace}/instances";
        return Err(Problem::invalid("metadata.namespace", detail));
    }
    let path = kind.path(namespace.as_deref(), None);
    let change =
        Change { method: Method::POST, path, content_type: writes::JSON, body: object, behind: None };
    writes::perform(ctx, kind, namespace.as_deref(), None, "create", change, None).await
}

/// Serves PUT, PATCH and DELETE of `…/instances/{name}`.
pub(crate) async fn write_one(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(writes::PARAMETERS)?;
    let path = kind.path(namespace, Some(name));
    let (action, change) = match ctx.method {
        Method::PUT => {
            let body = object_body(ctx, kind, namespace, Some(name))?;
            ("update", Change { method: Method::PUT, path, content_type: writes::JSON, body, behind: None })
        }
        Method::PATCH => {
            let body = ctx.json()?;
            let content_type = match ctx.media_type().as_str() {
                "application/json-patch+json" => writes::JSON_PATCH,
                "application/apply-patch+yaml" => writes::APPLY,
                _ => writes::MERGE,
            };
            let fits = if content_type == writes::JSON_PATCH { body.is_array() } else { body.is_object() };
            if !fits {
                return Err(Problem::bad_request(format!("the body is not a patch of type {content_type}")));
            }
            ("patch", Change { method: Method::PATCH, path, content_type, body, behind: None })
        }
        _ => {
            let policy = match ctx.query.get("propagation").unwrap_or("background") {
                "background" => "Background",
                "foreground" => "Foreground",
                "orphan" => "Orphan",
                other => {
                    let detail = format!(
                        "parameter propagation: {other:?} is not one of background, foreground, orphan"
                    );
                    return Err(Problem::bad_request(detail));
                }
            };
            let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
            (
                "delete",
                Change { method: Method::DELETE, path, content_type: writes::JSON, body, behind: None },
            )
        }
    };
    writes::perform(ctx, kind, namespace, Some(name), action, change, None).await
}

/// `GET …/status`.
pub(crate) async fn status(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version"])?;
    let object = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    let object = shown(ctx, kind, &object)?;
    let document = json!({
        "health": Health::of(&object, kind.custom).document(),
        "generation": object.pointer("/metadata/generation"),
        "observedGeneration": object.pointer("/status/observedGeneration"),
        "conditions": list(&object["status"]["conditions"]),
        "status": object["status"],
    });
    Ok(answer::json(StatusCode::OK, &document))
}
