use super::*;

fn field(number: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![u8::try_from(number << 3 | 2).unwrap(), u8::try_from(body.len()).unwrap()];
    out.extend_from_slice(body);
    out
}

fn number(number: u32, value: u8) -> Vec<u8> {
    vec![u8::try_from(number << 3).unwrap(), value]
}

fn envelope(api_version: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, body)].concat()
}

#[test]
fn a_config_map() {
    let metadata = field(1, b"settings");
    let entry = [field(1, b"key"), field(2, b"value")].concat();
    let body = [field(1, &metadata), field(2, &entry), number(4, 1)].concat();
    assert_eq!(
        decode(&envelope("v1", "ConfigMap", &body)).unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"key": "value"},
            "immutable": true,
        })
    );
}

#[test]
fn types_whose_json_differs() {
    // A Service with a numeric and a named target port.
    let by_number = [number(1, 0), number(2, 80)].concat();
    let by_name = [number(1, 1), field(3, b"http")].concat();
    let ports = [field(1, &field(4, &by_number)), field(1, &field(4, &by_name))].concat();
    let body = field(2, &ports);
    let value = decode(&envelope("v1", "Service", &body)).unwrap();
    assert_eq!(value["spec"]["ports"], json!([{"targetPort": 80}, {"targetPort": "http"}]));
}

#[test]
fn attributes_of_users_are_lists() {
    let values = [field(1, b"one"), field(1, b"two")].concat();
    let entry = [field(1, b"example.com/key"), field(2, &values)].concat();
    let body = field(2, &field(6, &entry));
    let value = decode(&envelope("certificates.k8s.io/v1", "CertificateSigningRequest", &body)).unwrap();
    assert_eq!(value["spec"]["extra"], json!({"example.com/key": ["one", "two"]}));
}

#[test]
fn what_is_not_protobuf_is_refused() {
    assert!(matches!(decode(b"{}"), Err(ProtobufError::NoEnvelope)));
    assert!(matches!(decode(b""), Err(ProtobufError::Empty)));
    assert!(matches!(decode(b"k8s\0"), Err(ProtobufError::NoBody)));
    assert!(matches!(decode(b"k8s\0\x0a\xff"), Err(ProtobufError::Short)));
    let unknown = decode(&envelope("example.com/v1", "Thing", b"")).unwrap();
    assert_eq!(unknown, json!({"apiVersion": "example.com/v1", "kind": "Thing"}));
}

#[test]
fn what_is_written_is_read_again() {
    let objects = [
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "a", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b", "c": ""},
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}, "time": "2026-01-02T03:04:05Z"}],
            },
            "spec": {
                "containers": [{
                    "name": "c", "image": "i", "stdin": true,
                    "resources": {"limits": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": -1},
                    "readinessProbe": {"tcpSocket": {"port": 80}},
                }],
                "securityContext": {"supplementalGroups": [0, 7], "runAsUser": 0},
                "tolerations": [{"key": "k", "tolerationSeconds": 5}],
                "volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}],
            },
        }),
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "aGk="}, "type": "Opaque"}),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "spec": {"renewTime": "2026-01-02T03:04:05.000006Z", "leaseDurationSeconds": 15},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevisionList", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "r"}, "data": {"spec": [1, null]}, "revision": 3}],
        }),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
                "type": "object", "minimum": 1.5, "default": {"a": 1}, "enum": [1, "b"],
                "additionalProperties": {"type": "string"},
                "properties": {"list": {"type": "array", "items": {"type": "integer"}}},
            }}}]},
        }),
        json!({
            "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "v1",
            "resources": [{"name": "pods", "verbs": ["get", "list"], "namespaced": true}],
        }),
    ];
    for object in objects {
        assert_eq!(decode(&encode(&object).unwrap()).unwrap(), object);
    }
    assert_eq!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Thing"})), None);
    // Invalid base64.
    assert_eq!(encode(&json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "%"}})), None);
}
