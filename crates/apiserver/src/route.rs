//! Routes a path and method to a resource and a verb.

use std::sync::Arc;

use http::{Method, request::Parts};
use steersman_api::{
    http::{self as wire, Options, Target},
    names,
    selector::FieldSelector,
    status::{ApiError, ApiResult},
};

use crate::{
    catalog::{Catalog, Resource, Verb},
    handlers,
};

/// Finds the resource at a path and the verb of the request; `None` if the path does not exist.
pub(crate) fn find(
    catalog: &Catalog,
    target: &Target,
    request: &Parts,
    verb: Option<Verb>,
) -> ApiResult<Option<(Arc<Resource>, Verb)>> {
    let Some(found) = catalog.find(&target.group, &target.version, &target.plural) else { return Ok(None) };
    if !leads_somewhere(target, found) {
        return Ok(None);
    }
    let verbs = match target.subresource.as_str() {
        // Resources that can only be created have no objects.
        "" if !target.name.is_empty() && found.verbs.iter().all(|v| *v == Verb::Create) => return Ok(None),
        "" => &found.verbs,
        name => match found.subresource(name) {
            Some(sub) => &sub.verbs,
            // Custom resources look up the object before the subresource.
            None if found.custom => return Err(ApiError::not_found(found, &target.name)),
            None => return Ok(None),
        },
    };
    let offered = verb.filter(|verb| verbs.contains(verb));
    if !found.custom {
        return match offered {
            Some(verb) if has_route(&request.method, verb, target, found) => {
                Ok(Some((Arc::clone(found), verb)))
            }
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    // All paths of a custom resource share a handler that looks only at the verb: HEAD reads, and a POST to a name
    // creates the object in the body. Writes across namespaces have no route.
    if found.namespaced && target.namespace.is_empty() && !matches!(verb, Some(Verb::List | Verb::Watch)) {
        return Ok(None);
    }
    match offered {
        Some(verb) if verb != Verb::Watch || request.method == Method::GET => {
            if target.name.is_empty() {
                handlers::check_named(verb, wire::media_type(&request.headers))?;
            }
            Ok(Some((Arc::clone(found), verb)))
        }
        _ => {
            let asked = verb.map_or("", Verb::as_str);
            Err(ApiError::method_not_supported(&found.group, &found.plural, asked))
        }
    }
}

/// Whether a path is valid for the resource.
/// Authorization used the attributes in the path, so a path that misplaces a resource must not reach it:
/// `namespaces/mine/namespaces/yours` is granted by rights within `mine`.
fn leads_somewhere(target: &Target, resource: &Resource) -> bool {
    let place =
        if target.namespaced { resource.namespaced } else { !resource.namespaced || target.name.is_empty() };
    // Only proxies have a path after the subresource, and subresources cannot be watched.
    let part = (target.rest.is_empty() || target.subresource == "proxy")
        && (target.subresource.is_empty() || !target.watch);
    place && part
}

/// Whether a built-in resource supports a method on this path: on the collection or on a single object.
fn has_route(method: &Method, verb: Verb, target: &Target, resource: &Resource) -> bool {
    let collection = target.name.is_empty();
    let everywhere = resource.namespaced && target.namespace.is_empty();
    let fits = match verb {
        Verb::Create => (collection || !target.subresource.is_empty()) && !everywhere,
        Verb::Update | Verb::Patch => !collection,
        Verb::DeleteCollection => !everywhere,
        Verb::Watch => method == Method::GET,
        _ => true,
    };
    fits && method != Method::HEAD
}

/// Returns the verb of a request; `None` if no resource supports the method.
pub(crate) fn verb(method: &Method, target: &Target, options: &Options) -> Option<Verb> {
    // Legacy watch paths imply the verb, whatever the method; they are the only way to watch a single object by path.
    if target.watch {
        return Some(Verb::Watch);
    }
    Some(match (method.as_str(), target.name.is_empty()) {
        ("GET" | "HEAD", true) if options.watch => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::List,
        ("GET" | "HEAD", false) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::DeleteCollection,
        ("DELETE", false) => Verb::Delete,
        _ => return None,
    })
}

/// Returns the object name that a collection request is limited to by its field selector.
pub(crate) fn selected_name(verb: Option<Verb>, options: &Options) -> Option<String> {
    if options.field_selector.is_empty() || !matches!(verb, Some(Verb::List | Verb::Watch)) {
        return None;
    }
    let selector = FieldSelector::parse(&options.field_selector).ok()?;
    let name = selector.exact_name()?;
    names::check(names::NameRule::PathSegment, name, false).is_empty().then(|| name.to_owned())
}
