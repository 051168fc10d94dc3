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
