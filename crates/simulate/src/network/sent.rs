//! The desired state that an operator sent for an object: its create or apply, plus later patches.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use steersman_api::protobuf;

use crate::{query::verb, target::Target};

/// Patch types whose body contains the new values of fields.
const MERGED: [&str; 2] = ["application/merge-patch+json", "application/strategic-merge-patch+json"];

/// The desired state that an operator sent for an object. It is parsed lazily, since few are used.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// The body of the last create or apply.
    whole: Bytes,
    /// The bodies of patches since then.
    patches: Vec<Bytes>,
}

/// The desired state in a request.
#[derive(Debug)]
pub(crate) enum Demand {
    /// The whole desired state.
    Whole(Bytes),
    /// The fields in a patch.
    Patch(Bytes),
}

impl Demand {
    /// Extracts the desired state from a create, apply or patch, with the object's key.
    ///
    /// Updates do not count: they also contain fields that the operator only read.
    pub(super) async fn of(
        request: &mut Request<Body>,
        target: &Target,
    ) -> Result<Option<(String, Self)>, kube::Error> {
        let form = request.headers().get(header::CONTENT_TYPE).and_then(|form| form.to_str().ok());
        let is_merged = form.is_some_and(|form| MERGED.iter().any(|merged| form.starts_with(merged)));
        let demand: fn(Bytes) -> Self = match *request.method() {
            Method::POST => Self::Whole,
            Method::PATCH if verb(request.method(), request.headers()) == "apply" => Self::Whole,
            Method::PATCH if is_merged => Self::Patch,
            _ => return Ok(None),
        };
        if target.subresource.is_some() {
            return Ok(None);
        }
        let body = std::mem::replace(request.body_mut(), Body::empty()).collect().await?.to_bytes();
        *request.body_mut() = Body::from(body.clone());
        let name = target.name.clone();
        let name = name.or_else(|| parse(&body)["metadata"]["name"].as_str().map(str::to_owned));
        let key = Target { name, ..target.clone() }.key();
        Ok(key.map(|key| (key, demand(body))))
    }
}

impl Sent {
    /// Combines the previous desired state with a new request's.
    ///
    /// A patch counts only for an object that the operator created or applied.
    pub(super) fn and(before: Option<Self>, demand: Demand) -> Option<Self> {
        match demand {
            Demand::Whole(whole) => Some(Self { whole, patches: Vec::new() }),
            Demand::Patch(patch) => {
                let mut sent = before?;
                if sent.patches.last() != Some(&patch) {
                    sent.patches.push(patch);
                }
                Some(sent)
            }
        }
    }

    /// Returns the desired object; null if it can't be parsed.
    pub(crate) fn object(&self) -> Value {
        let mut object = parse(&self.whole);
        self.patches.iter().for_each(|patch| merge(&mut object, parse(patch)));
        object
    }
}

fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).ok().or_else(|| protobuf::decode(body).ok()).unwrap_or_default()
}

/// Merges a patch into an object. Lists are replaced, and may then be only a part of the live list.
fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (name, value) in patch {
                match value {
                    Value::Null => drop(fields.remove(&name)),
                    value => merge(fields.entry(name).or_insert(Value::Null), value),
                }
            }
        }
        (object, patch) => *object = patch,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_a_demand_on_what_was_made() {
        let bytes = |value: Value| Bytes::from(value.to_string());
        let patch = |before: Option<Sent>, value: Value| Sent::and(before, Demand::Patch(bytes(value)));
        assert!(patch(None, json!({"spec": {"replicas": 1}})).is_none());
        let made =
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 3, "paused": true, "ports": [1, 2]}});
        let made = Sent::and(None, Demand::Whole(bytes(made)));
        let change = json!({"spec": {"replicas": 4, "paused": null, "ports": [2]}});
        let changed = patch(patch(made, change.clone()), change);
        let sent = changed.clone().unwrap();
        assert_eq!(sent.object(), json!({"metadata": {"name": "a"}, "spec": {"replicas": 4, "ports": [2]}}));
        assert_eq!(sent.patches.len(), 1);
        let anew = json!({"spec": {"replicas": 2}});
        assert_eq!(Sent::and(changed, Demand::Whole(bytes(anew.clone()))).unwrap().object(), anew);
    }

    #[tokio::test]
    async fn what_a_request_demands_goes_by_its_form() {
        let target = Target::of(&"/apis/apps/v1/namespaces/lab/deployments/web".parse().unwrap());
        let demanded = async |method: Method, form: &str| {
            let request = Request::builder().method(method).header(header::CONTENT_TYPE, form);
            let mut request = request.body(Body::from(b"{}".to_vec())).unwrap();
            let demand = Demand::of(&mut request, &target).await.unwrap();
            // The body is still available to the API server.
            let body =
                std::mem::replace(request.body_mut(), Body::empty()).collect().await.unwrap().to_bytes();
            assert_eq!(body, "{}");
            demand.map(|(key, demand)| (key, matches!(demand, Demand::Whole(_))))
        };
        let web = |is_whole| Some(("deployments.apps/lab/web".to_owned(), is_whole));
        assert_eq!(demanded(Method::PATCH, "application/apply-patch+yaml").await, web(true));
        assert_eq!(demanded(Method::PATCH, "application/strategic-merge-patch+json").await, web(false));
        assert_eq!(demanded(Method::PATCH, "application/merge-patch+json").await, web(false));
        assert_eq!(demanded(Method::PATCH, "application/json-patch+json").await, None);
        assert_eq!(demanded(Method::PUT, "application/json").await, None);
    }
}
