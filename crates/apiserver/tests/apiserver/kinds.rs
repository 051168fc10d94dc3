//! What is particular to built-in kinds, through a client.

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Endpoints, Event, Pod, ServiceAccount},
    networking::v1::IPAddress,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn client() -> Client {
    Client::new(steersman_apiserver::Server::default().service(), "default")
}

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn where_a_pod_runs_is_no_new_generation() {
    let client = client();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let account = read(json!({"metadata": {"name": "default"}}));
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod = read(json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}});
    pods.create_subresource::<_, Value>("binding", "a", &PostParams::default(), &binding).await.unwrap();
    let bound = pods.get("a").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n"));
    assert_eq!(bound.metadata.generation, Some(1));
}

#[tokio::test]
async fn a_request_for_a_certificate_is_decided_by_approval_alone() {
    let requests: Api<CertificateSigningRequest> = Api::all(client());
    // "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n"
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KQUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    let request = read(json!({"metadata": {"name": "a"}, "spec": {
        "request": pem, "signerName": "example.com/signer", "usages": ["client auth"], "username": "somebody-else",
    }}));
    let made = requests.create(&PostParams::default(), &request).await.unwrap();
    assert_eq!(made.spec.username.as_deref(), Some("system:admin"));
    let decide = Patch::Merge(json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Test"},
    ]}}));
    let params = PatchParams::default();
    requests.patch_status("a", &params, &decide).await.unwrap_err();
    let approved = requests.patch_subresource("approval", "a", &params, &decide).await.unwrap();
    let condition = approved.status.unwrap().conditions.unwrap().remove(0);
    assert!(condition.last_update_time.is_some() && condition.last_transition_time.is_some());
    let sign = |certificate: &str| {
        let status = json!({"certificate": certificate});
        Patch::Merge(json!({"spec": {"signerName": "example.com/other"}, "status": status}))
    };
    // "A", and "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
    let (text, certificate) =
        ("QQ==", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=");
    let refused = requests.patch_status("a", &params, &sign(text)).await.unwrap_err().to_string();
    assert!(refused.contains("must contain at least one CERTIFICATE PEM block"), "{refused}");
    let signed = requests.patch_status("a", &params, &sign(certificate)).await.unwrap();
    assert_eq!(signed.spec.signer_name, "example.com/signer");
    assert!(signed.status.unwrap().certificate.unwrap().0.starts_with(b"-----BEGIN CERTIFICATE-----"));
    // What is decided and signed stays so.
    let approve = async |status: Value| {
        let change: Patch<Value> = Patch::Merge(json!({"status": status}));
        requests.patch_subresource("approval", "a", &params, &change).await
    };
    let kept = approve(json!({"certificate": null})).await.unwrap();
    assert!(kept.status.unwrap().certificate.is_some());
    let denied = json!({"type": "Denied", "status": "True"});
    for conditions in [
        json!([]),
        json!([{"type": "Approved", "status": "False"}]),
        json!([{"type": "Approved", "status": "True"}, {"type": "Approved", "status": "True"}]),
        json!([{"type": "Approved", "status": "True"}, denied]),
        json!([{"type": "Approved", "status": "True"}, {"status": "True"}]),
    ] {
        approve(json!({"conditions": conditions})).await.unwrap_err();
    }
}

#[tokio::test]
async fn signers_are_named_by_a_domain_and_a_path() {
    let requests: Api<CertificateSigningRequest> = Api::all(client());
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KQUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    for (signer, why) in [
        ("signer", "must be a fully qualified domain and path"),
        ("example.com/a/b", "must be a fully qualified domain and path"),
        ("local/a", "should be a domain with at least two segments"),
        ("exa_mple.com/a", "validating label \"exa_mple\""),
        ("example.com/A", "validating label \"A\""),
    ] {
        let request = read(json!({"metadata": {"name": "a"}, "spec": {
            "request": pem, "signerName": signer, "usages": ["client auth"],
        }}));
        let refused = requests.create(&PostParams::default(), &request).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test]
async fn addresses_are_named_by_themselves() {
    let addresses: Api<IPAddress> = Api::all(client());
    let address = |name: &str| -> IPAddress {
        let parent = json!({"resource": "services", "namespace": "default", "name": "a"});
        read(json!({"metadata": {"name": name}, "spec": {"parentRef": parent}}))
    };
    addresses.create(&PostParams::default(), &address("2001:db8::1")).await.unwrap();
    for wrong in ["2001:db8:0::2", "10.0.0.01", "name"] {
        addresses.create(&PostParams::default(), &address(wrong)).await.unwrap_err();
    }
}

#[tokio::test]
async fn events_are_selected_by_their_reporter() {
    let events: Api<Event> = Api::default_namespaced(client());
    let event = read(json!({
        "metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}, "type": "Normal", "reason": "Test",
        "action": "Do", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "example.com/reporter", "reportingInstance": "one",
    }));
    events.create(&PostParams::default(), &event).await.unwrap();
    let by = |source: &str| ListParams::default().fields(&format!("source={source}"));
    assert_eq!(events.list(&by("example.com/reporter")).await.unwrap().items.len(), 1);
    assert!(events.list(&by("example.com/other")).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn the_api_server_has_endpoints() {
    let endpoints: Api<Endpoints> = Api::default_namespaced(client());
    let subsets = endpoints.get("kubernetes").await.unwrap().subsets.unwrap();
    assert_eq!(subsets[0].ports.as_ref().unwrap()[0].name.as_deref(), Some("https"));
}
