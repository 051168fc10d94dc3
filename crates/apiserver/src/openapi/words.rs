//! What the documents say about built-in types: the words that come with k8s-openapi.

use std::sync::LazyLock;

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration,
        apps::v1 as apps,
        authentication::v1 as authentication,
        authorization::v1 as authorization,
        autoscaling::{v1 as autoscaling_v1, v2 as autoscaling},
        batch::v1 as batch,
        certificates::v1 as certificates,
        coordination::v1 as coordination,
        core::v1 as core,
        discovery::v1 as discovery,
        events::v1 as events,
        flowcontrol::v1 as flowcontrol,
        networking::v1 as networking,
        node::v1 as node,
        policy::v1 as policy,
        rbac::v1 as rbac,
        resource::v1 as resource,
        scheduling::v1 as scheduling,
        storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::apis::meta::v1 as meta,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

/// Schemas with descriptions by name, made when a document is first asked for.
static DESCRIBED: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut generator = SchemaGenerator::default();
    macro_rules! describe {
        ($($module:ident: $($kind:ident)*;)*) => { $($(
            generator.subschema_for::<$module::$kind>();
        )*)* };
    }
    // Everything that these refer to comes with them.
    describe! {
        admissionregistration: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
            MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration;
        apiextensions: CustomResourceDefinition;
        apiregistration: APIService;
        apps: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        authentication: SelfSubjectReview TokenRequest TokenReview;
        authorization: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
            SubjectAccessReview;
        autoscaling: HorizontalPodAutoscaler;
        autoscaling_v1: HorizontalPodAutoscaler Scale;
        batch: CronJob Job;
        certificates: CertificateSigningRequest;
        coordination: Lease;
        core: Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
            ServiceAccount;
        discovery: EndpointSlice;
        events: Event;
        flowcontrol: FlowSchema PriorityLevelConfiguration;
        meta: DeleteOptions ListMeta Status;
        networking: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR;
        node: RuntimeClass;
        policy: Eviction PodDisruptionBudget;
        rbac: ClusterRole ClusterRoleBinding Role RoleBinding;
        resource: DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice;
        scheduling: PriorityClass;
        storage: CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass;
    }
    generator.take_definitions(true)
});

/// Writes the descriptions of a type and of its fields into its schema.
pub(super) fn describe(name: &str, schema: &mut Value) {
    let Some(described) = DESCRIBED.get(name) else { return };
    add(schema, described.get("description"));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (field, property) in properties.into_iter().flatten() {
        add(property, described.pointer("/properties").and_then(|all| all.get(field)?.get("description")));
    }
}

/// The description that all kinds give of one of their common fields.
pub(super) fn of_every_kind(field: &str) -> Option<&'static str> {
    let pod = DESCRIBED.get("io.k8s.api.core.v1.Pod")?;
    pod.get("properties")?.get(field)?.get("description")?.as_str()
}

fn add(schema: &mut Value, words: Option<&Value>) {
    let (Some(schema), Some(words)) = (schema.as_object_mut(), words) else { return };
    // A reference has no room for anything beside it.
    if let Some(reference) = schema.remove("$ref") {
        schema.insert("allOf".into(), serde_json::json!([{"$ref": reference}]));
    }
    schema.insert("description".into(), words.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_every_type_is_described() {
        let all = steersman_api::schema::definitions();
        let silent: Vec<&String> = all
            .keys()
            .filter(|name| !name.ends_with("List") && !DESCRIBED.contains_key(name.as_str()))
            .collect();
        assert!(silent.len() * 20 < all.len(), "{} of {}: {silent:?}", silent.len(), all.len());
        let mut pod = all["io.k8s.api.core.v1.Pod"].clone();
        describe("io.k8s.api.core.v1.Pod", &mut pod);
        assert!(pod["description"].as_str().unwrap().starts_with("Pod is a collection of containers"));
        assert!(pod["properties"]["spec"]["description"].is_string());
        for (name, schema) in all {
            let mut described = schema.clone();
            describe(name, &mut described);
            assert_eq!(described.get("properties").is_some(), schema.get("properties").is_some(), "{name}");
        }
        assert!(of_every_kind("metadata").unwrap().starts_with("Standard object's metadata"));
    }
}
