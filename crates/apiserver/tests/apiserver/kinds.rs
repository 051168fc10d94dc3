//! Kind-specific behaviour of built-in resources, tested through a client.

use http_body_util::BodyExt as _;
use k8s_openapi::api::{
    batch::v1::Job,
    certificates::v1::CertificateSigningRequest,
    core::v1::{Endpoints, Event, PersistentVolumeClaim, Pod, ServiceAccount},
    networking::v1::IPAddress,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower_service::Service as _;

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
    // Approvals and certificates are immutable.
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

/// Creates an object and returns the error message and the warnings.
async fn judgement(path: &str, body: Value) -> (String, Vec<String>) {
    let server = steersman_apiserver::Server::default();
    let ask = async |path: &str, body: &Value| {
        let request = http::Request::post(path).body(body.to_string()).unwrap();
        server.service().call(request).await.unwrap()
    };
    let account = json!({"metadata": {"name": "default"}});
    ask("/api/v1/namespaces/default/serviceaccounts", &account).await;
    let answer = ask(&format!("{path}?dryRun=All"), &body).await;
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().unwrap().replace("\\\"", "\"")).collect();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    (answer["message"].as_str().unwrap_or_default().to_owned(), warnings)
}

async fn pod(container: Value, spec: Value) -> (String, Vec<String>) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in container.as_object().unwrap() {
        pod["spec"]["containers"][0][key] = value.clone();
    }
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    judgement("/api/v1/namespaces/default/pods", pod).await
}

#[tokio::test]
async fn huge_pages_come_whole() {
    let with = async |amount: &str| {
        let limits = json!({"memory": "1Gi", "hugepages-2Mi": amount});
        pod(json!({"resources": {"limits": limits}}), json!({})).await.0
    };
    assert_eq!(with("4Mi").await, "");
    let refused = with("3Mi").await;
    assert!(refused.contains("3Mi is not positive integer multiple of hugepages-2Mi"), "{refused}");
}

#[tokio::test]
async fn extended_resources_are_not_overcommitted() {
    let with = async |name: &str| {
        let resources = json!({"requests": {name: "1"}, "limits": {name: "2"}});
        pod(json!({"resources": resources}), json!({})).await.0
    };
    assert_eq!(with("cpu").await, "");
    let refused = with("example.com/gpu").await;
    assert!(refused.contains("must be equal to example.com/gpu limit of 2"), "{refused}");
}

#[tokio::test]
async fn replicas_of_autoscalers_have_bounds() {
    let with = async |min: i64, max: i64| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let spec = json!({"minReplicas": min, "maxReplicas": max, "scaleTargetRef": target});
        let scaler = json!({"metadata": {"name": "h"}, "spec": spec});
        judgement("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", scaler).await.0
    };
    assert_eq!(with(1, 1).await, "");
    assert!(with(1, 0).await.contains("spec.maxReplicas: Required value: must be set and greater than 0"));
    assert!(
        with(1, -1).await.contains("spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1")
    );
    assert!(
        with(-1, 1).await.contains("spec.minReplicas: Invalid value: -1: must be greater than or equal to 1")
    );
    assert!(with(2, 1).await.contains("must be greater than or equal to `minReplicas`"));
}

#[tokio::test]
async fn a_job_with_its_templates_labels_is_stored_anew_by_its_first_update() {
    let updated = async |labels: Value| {
        let client = client();
        let jobs: Api<Job> = Api::default_namespaced(client);
        let template = json!({"metadata": {"labels": {"app": "a"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job = json!({"metadata": {"name": "j", "labels": labels},
            "spec": {"manualSelector": true, "selector": {"matchLabels": {"app": "a"}}, "template": template}});
        let mut versions = Vec::new();
        let mut job: Job = jobs.create(&PostParams::default(), &read(job)).await.unwrap();
        for _ in 0..2 {
            let before = job.metadata.resource_version.clone();
            job = jobs.replace("j", &PostParams::default(), &job).await.unwrap();
            versions.push(job.metadata.resource_version != before);
        }
        versions
    };
    assert_eq!(updated(Value::Null).await, [true, false]);
    assert_eq!(updated(json!({"own": "label"})).await, [false, false]);
}

#[tokio::test]
async fn events_have_short_reasons() {
    let with = async |reason: usize, message: usize| {
        let event = json!({
            "metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}, "type": "Normal", "action": "Do",
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "example.com/reporter",
            "reportingInstance": "one", "reason": "r".repeat(reason), "message": "m".repeat(message),
        });
        judgement("/api/v1/namespaces/default/events", event).await.0
    };
    assert!(!with(128, 1024).await.contains("Invalid"));
    assert!(with(129, 1024).await.contains("reason: Invalid value: \"\": can have at most 128 characters"));
    assert!(with(130, 1024).await.contains("can have at most 128 characters"));
    assert!(with(128, 1026).await.contains("message: Invalid value: \"\": can have at most 1024 characters"));
}

#[tokio::test]
async fn the_class_of_a_claim_stays_in_its_annotation_too() {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client());
    let claim = json!({
        "metadata": {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    });
    claims.create(&PostParams::default(), &read(claim)).await.unwrap();
    let patch = async |metadata: Value| {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        claims.patch("c", &PatchParams::default(), &patch).await
    };
    patch(json!({"labels": {"a": "b"}})).await.unwrap();
    let refused = patch(json!({"annotations": {"volume.beta.kubernetes.io/storage-class": "slow"}})).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains(
            "metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"slow\""
        ),
        "{refused}"
    );
    assert!(!refused.contains("spec"), "{refused}");
}

#[tokio::test]
async fn a_docker_configuration_is_an_object() {
    for (content, kind) in
        [("[]", "array"), ("\"a\"", "string"), ("1", "number"), ("true", "bool"), ("{}", "")]
    {
        let data = json!({".dockerconfigjson": content});
        let secret =
            json!({"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "stringData": data});
        let refused = judgement("/api/v1/namespaces/default/secrets", secret).await.0;
        let why = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
        assert!(refused.contains(&why) != kind.is_empty(), "{content}: {refused}");
    }
}

#[tokio::test]
async fn a_user_of_windows_may_have_a_domain() {
    let as_user = async |name: &str| {
        let options = json!({"securityContext": {"windowsOptions": {"runAsUserName": name}}});
        pod(options, json!({})).await.0
    };
    assert_eq!(as_user("NT AUTHORITY\\NETWORK SERVICE").await, "");
    assert_eq!(as_user("ContainerUser").await, "");
    let refused = as_user("a\\b\\c").await;
    assert!(refused.contains("runAsUserName cannot contain more than one backslash"), "{refused}");
}

#[tokio::test]
async fn volumes_are_judged_by_their_kind() {
    let with = async |name: &str, source: Value| {
        let mut volume = source;
        volume["name"] = name.into();
        pod(json!({}), json!({"volumes": [volume]})).await.0
    };
    let disk =
        |kind: &str, place: &str| json!({"azureDisk": {"diskName": "d", "diskURI": place, "kind": kind}});
    let (blob, managed) = ("https://a.blob.core.windows.net/b/c.vhd", "/subscriptions/a/resourcegroups/b");
    assert_eq!(with("v", disk("Dedicated", blob)).await, "");
    assert_eq!(with("v", disk("Managed", managed)).await, "");
    assert!(with("v", disk("Managed", blob)).await.contains("/subscriptions/{sub-id}"));
    assert!(with("v", disk("Shared", managed)).await.contains("https://{account-name}"));
    let target = json!({"iscsi": {"targetPortal": "127.0.0.1:3260", "iqn": "iqn.2016-04.test.com:storage",
        "lun": 0, "initiatorName": "iqn.2015-02.example.com:init"}});
    assert_eq!(with(&"a".repeat(49), target.clone()).await, "");
    assert!(with(&"a".repeat(50), target).await.contains("must be under 64 characters"));
}

#[tokio::test]
async fn a_port_of_the_host_has_a_number() {
    let ports = json!([{"containerPort": 80, "hostIP": "10.0.0.1"}]);
    let (refused, warnings) = pod(json!({"ports": ports}), json!({})).await;
    assert_eq!(refused, "");
    let expected = "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
    let ports = json!([{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]);
    assert_eq!(pod(json!({"ports": ports}), json!({})).await, (String::new(), Vec::new()));
}

#[tokio::test]
async fn addresses_outside_of_the_cluster_are_warned_of() {
    let with = async |cluster: &str| {
        let spec = json!({"clusterIP": cluster, "externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": "s"}, "spec": spec});
        let (refused, warnings) = judgement("/api/v1/namespaces/default/services", service).await;
        assert_eq!(refused, "");
        warnings.iter().any(|warning| warning.contains("spec.externalIPs is deprecated"))
    };
    assert!(with("").await);
    assert!(!with("None").await, "they are ignored there");
}

#[tokio::test]
async fn no_more_indexes_fail_than_there_are() {
    let with = async |failed: i64| {
        let template =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
            "backoffLimitPerIndex": 1, "maxFailedIndexes": failed, "template": template});
        let job = json!({"metadata": {"name": "j"}, "spec": spec});
        judgement("/apis/batch/v1/namespaces/default/jobs", job).await.0
    };
    assert_eq!(with(3).await, "");
    assert!(with(4).await.contains("must be less than or equal to completions"));
}
