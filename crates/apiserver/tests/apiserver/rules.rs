//! Rules of custom resources, through a client.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

fn definition(spec: &Value) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "shops", "kind": "Shop"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec},
            }}}],
        },
    }))
    .unwrap()
}

fn client() -> Client {
    Client::new(steersman_apiserver::Server::default().service(), "default")
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn rules_are_enforced() {
    let client = client();
    let spec = json!({
        "type": "object",
        "properties": {
            "min_size": {"type": "integer"}, "size": {"type": "integer"},
            "tier": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "tier stays as it is"},
            ]},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.min_size) || self.size >= self.min_size",
            "messageExpression": "self.size < 0 ? 'no size at all' : 'size is below min_size'",
        }],
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition(&spec)).await.unwrap();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let shops: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let shop = |name: &str, spec: Value| DynamicObject::new(name, &resource).data(json!({"spec": spec}));

    let refused = shops
        .create(&PostParams::default(), &shop("a", json!({"size": 1, "min_size": 2})))
        .await
        .unwrap_err();
    assert_eq!(
        message(refused),
        "Shop.example.com \"a\" is invalid: spec: Invalid value: size is below min_size"
    );
    let good = shop("a", json!({"size": 3, "min_size": 2, "tier": "gold"}));
    shops.create(&PostParams::default(), &good).await.unwrap();
    let change = |tier: &str| Patch::Merge(json!({"spec": {"tier": tier}}));
    let refused = shops.patch("a", &PatchParams::default(), &change("silver")).await.unwrap_err();
    assert_eq!(
        message(refused),
        "Shop.example.com \"a\" is invalid: spec.tier: Invalid value: \"silver\": tier stays as it is"
    );
    shops.patch("a", &PatchParams::default(), &change("gold")).await.unwrap();
}

#[tokio::test]
async fn a_definition_with_a_rule_that_does_not_compile_is_refused() {
    let spec = json!({
        "type": "object", "properties": {"size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.sise > 0"}],
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client());
    let refused = definitions.create(&PostParams::default(), &definition(&spec)).await.unwrap_err();
    let message = message(refused);
    let place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    assert!(message.contains(place), "{message}");
    assert!(message.contains("undefined field 'sise'"), "{message}");
}

#[tokio::test]
async fn a_definition_says_where_replicas_are() {
    let client = client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut scaled = definition(&json!({"type": "object", "properties": {"size": {"type": "integer"}}}));
    scaled.spec.versions[0].subresources = serde_json::from_value(json!({
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
    }))
    .unwrap();
    definitions.create(&PostParams::default(), &scaled).await.unwrap();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let shops: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let shop = DynamicObject::new("a", &resource).data(json!({"spec": {"size": 2}}));
    shops.create(&PostParams::default(), &shop).await.unwrap();
    let scale = shops.get_scale("a").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    let change = Patch::Merge(json!({"spec": {"replicas": 5}}));
    shops.patch_scale("a", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(shops.get("a").await.unwrap().data["spec"], json!({"size": 5}));
}

#[tokio::test]
async fn older_objects_read_as_the_definition_is_now() {
    let client = client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let before = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "colour": {"type": "string"},
    }});
    definitions.create(&PostParams::default(), &definition(&before)).await.unwrap();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let shops: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let shop = DynamicObject::new("a", &resource).data(json!({"spec": {"colour": "blue"}}));
    let stored = shops.create(&PostParams::default(), &shop).await.unwrap();

    let after = json!({"type": "object", "properties": {"size": {"type": "integer", "default": 7}}});
    let patch = Patch::Merge(json!({"spec": {"versions": definition(&after).spec.versions}}));
    definitions.patch("shops.example.com", &PatchParams::default(), &patch).await.unwrap();

    let now = json!({"size": 7});
    let read = shops.get("a").await.unwrap();
    assert_eq!(read.data["spec"], now);
    assert_eq!(read.metadata.resource_version, stored.metadata.resource_version, "nothing was written");
    let listed = shops.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].data["spec"], now);
    // The first write keeps it so.
    let change = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let written = shops.patch("a", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(written.data["spec"], now);
}
