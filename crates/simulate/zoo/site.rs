//! The kind that all operators of the zoo keep, and what they do with it.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman::{Context, Controller, Key, Operator, Result};

pub(crate) const FINALIZER: &str = "zoo.steersman.dev/cleanup";

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(group = "zoo.steersman.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[serde(default)]
pub(crate) struct SiteSpec {
    pub(crate) size: i32,
    pub(crate) color: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub(crate) struct SiteStatus {
    pub(crate) phase: String,
    pub(crate) color: String,
    pub(crate) child: String,
    pub(crate) made: i32,
}

pub(crate) fn site(size: i32, color: &str) -> Value {
    json!({
        "apiVersion": "zoo.steersman.dev/v1", "kind": "Site",
        "metadata": {"name": "shop"}, "spec": {"size": size, "color": color},
    })
}

/// An operator with one controller. Changes of its config maps and secrets concern the site that their label names.
pub(crate) fn operator(controller: Controller<Site>) -> Operator {
    unwatched(controller.watches_mapped(owner::<ConfigMap>).watches_mapped(owner::<Secret>))
}

pub(crate) fn owner<K: Resource<DynamicType = ()>>(object: &K) -> Vec<Key> {
    let site = object.labels().get("site").map(|site| Key::new(object.namespace().as_deref(), site));
    site.into_iter().collect()
}

/// An operator that does not look at its config maps again.
pub(crate) fn unwatched(controller: Controller<Site>) -> Operator {
    Operator::new("zoo").controller(controller).permission("", ["configmaps", "secrets"], ["*"]).permission(
        "zoo.steersman.dev",
        ["sites", "sites/status"],
        ["*"],
    )
}

/// The config maps of a site, by plain requests.
pub(crate) struct Maps {
    pub(crate) api: Api<ConfigMap>,
    site: String,
}

impl Maps {
    pub(crate) fn of(ctx: &Context) -> Self {
        Self::new(ctx.client(), ctx.namespace(), ctx.name())
    }

    pub(crate) fn new(client: Client, namespace: &str, site: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), site: site.to_owned() }
    }

    fn object(&self, metadata: &Value, data: &Value) -> ConfigMap {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        object["metadata"]["labels"] = json!({"site": self.site});
        serde_json::from_value(object).unwrap()
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Option<ConfigMap>> {
        Ok(self.api.get_opt(name).await?)
    }

    /// A value of a config map, if it is there.
    pub(crate) async fn value(&self, name: &str, key: &str) -> Result<Option<String>> {
        Ok(self.get(name).await?.and_then(|map| map.data?.get(key).cloned()))
    }

    pub(crate) async fn list(&self) -> Result<Vec<ConfigMap>> {
        let mine = ListParams::default().labels(&format!("site={}", self.site));
        Ok(self.api.list(&mine).await?.items)
    }

    /// Fails if it exists.
    pub(crate) async fn create(&self, name: &str, data: Value) -> Result<(), kube::Error> {
        self.api.create(&PostParams::default(), &self.object(&json!({"name": name}), &data)).await.map(drop)
    }

    /// With a name that the API server draws.
    pub(crate) async fn generate(&self, prefix: &str) -> Result<(), kube::Error> {
        let object = self.object(&json!({"generateName": prefix}), &json!({}));
        self.api.create(&PostParams::default(), &object).await.map(drop)
    }

    /// Makes it so, whatever was there.
    pub(crate) async fn put(&self, name: &str, data: Value) -> Result<(), kube::Error> {
        let object = self.object(&json!({"name": name}), &data);
        self.api.patch(name, &PatchParams::apply("zoo").force(), &Patch::Apply(&object)).await.map(drop)
    }

    /// Whether there was something to delete.
    pub(crate) async fn delete(&self, name: &str) -> Result<bool, kube::Error> {
        match self.api.delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn delete_all(&self) -> Result<()> {
        for map in self.list().await? {
            self.delete(&map.name_any()).await?;
        }
        Ok(())
    }
}

/// The secret of a site, with the credentials of something outside.
fn secrets(ctx: &Context) -> Api<Secret> {
    Api::namespaced(ctx.client(), ctx.namespace())
}

pub(crate) async fn put_secret(ctx: &Context) -> Result<()> {
    let metadata = json!({"name": ctx.name(), "labels": {"site": ctx.name()}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let params = PatchParams::apply("zoo").force();
    secrets(ctx).patch(ctx.name(), &params, &Patch::Apply(&secret)).await?;
    Ok(())
}

pub(crate) async fn delete_secret(ctx: &Context) -> Result<()> {
    match secrets(ctx).delete(ctx.name(), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

pub(crate) fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
