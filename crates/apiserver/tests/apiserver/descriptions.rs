//! The descriptions that the server shows are data: those of k8s-openapi, which an operator's types show too.

use std::collections::BTreeMap;

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

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/descriptions.json");

fn schemas() -> Map<String, Value> {
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
}

#[test]
fn descriptions_are_those_of_k8s_openapi() {
    let text = |schema: &Value| Some(schema.get("description")?.as_str()?.to_owned());
    let mut described: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (name, schema) in schemas() {
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields = fields.filter_map(|(field, schema)| Some((field.clone(), text(schema)?)));
        let own = text(&schema).map(|text| (String::new(), text));
        described.insert(name, own.into_iter().chain(fields).collect());
    }
    described.retain(|_, fields| !fields.is_empty());
    let current = format!("{}\n", serde_json::to_string_pretty(&described).unwrap());
    if std::env::var_os("STEERSMAN_RECORD").is_some() {
        std::fs::write(PATH, &current).unwrap();
    }
    let kept = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        kept == current,
        "data/descriptions.json is of another version: STEERSMAN_RECORD=1 writes it anew"
    );
}
