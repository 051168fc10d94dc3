//! The cluster's HTTPS port, with handwritten requests.

use std::{net::SocketAddr, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use steersman_cluster::{Cluster, User};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

async fn ask(cluster: &Cluster, path: &str, token: Option<&str>) -> String {
    ask_with(cluster, path, token, None).await
}

async fn ask_with(
    cluster: &Cluster,
    path: &str,
    token: Option<&str>,
    certificate: Option<(String, String)>,
) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cluster.root_certificate().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    let stream = TcpStream::connect(cluster.address().unwrap()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let credentials = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{credentials}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A close without `close_notify` does not matter here.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn only_the_token_of_the_kubeconfig_opens() {
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let cluster = Cluster::builder().listen(address).start().await.unwrap();
    let config = cluster.kubeconfig().unwrap();
    assert!(config.contains(&format!("server: https://{}", cluster.address().unwrap())));
    let token = config.lines().find_map(|l| l.trim().strip_prefix("token: ")).unwrap();

    let answer = ask(&cluster, "/api/v1/namespaces/default", Some(token)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let answer = ask(&cluster, "/api/v1/namespaces/default", Some("guess")).await;
    assert!(answer.starts_with("HTTP/1.1 401 Unauthorized"), "{answer}");
    assert!(answer.contains(r#""reason":"Unauthorized""#), "{answer}");
    for none in [None, Some("")] {
        let answer = ask(&cluster, "/api/v1/namespaces/default", none).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{answer}");
        assert!(
            answer.contains(r#"User \"system:anonymous\" cannot get resource \"namespaces\""#),
            "{answer}"
        );
    }
    assert!(ask(&cluster, "/version", None).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn a_certificate_says_who_asks() {
    let cluster = Cluster::builder().listen("127.0.0.1:0".parse().unwrap()).start().await.unwrap();
    let jane = cluster.client_certificate("jane", Some("developers")).unwrap();
    let answer = ask_with(&cluster, "/api/v1/namespaces/default", None, Some(jane)).await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{answer}");
    assert!(answer.contains(r#"User \"jane\" cannot get"#), "{answer}");
    let master = cluster.client_certificate("joe", Some("system:masters")).unwrap();
    let answer = ask_with(&cluster, "/api/v1/namespaces/default", None, Some(master)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    // Certificates of another cluster's CA are not accepted: the handshake fails.
    let other = Cluster::start().await.unwrap().client_certificate("joe", Some("system:masters")).unwrap();
    assert_eq!(ask_with(&cluster, "/version", None, Some(other)).await, "");
}

#[tokio::test]
async fn policies_say_which_generation_was_looked_at() {
    use k8s_openapi::api::admissionregistration::v1::{TypeChecking, ValidatingAdmissionPolicy};
    use kube::{
        Api,
        api::{Patch, PatchParams, PostParams},
    };
    use serde_json::json;
    let cluster = Cluster::start().await.unwrap();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}],
    }});
    let policy = serde_json::from_value(policy).unwrap();
    policies.create(&PostParams::default(), &policy).await.unwrap();
    let observed = async || {
        cluster.settled().await;
        let status = policies.get("p").await.unwrap().status.unwrap_or_default();
        assert_eq!(status.type_checking, Some(TypeChecking::default()));
        status.observed_generation
    };
    assert_eq!(observed().await, Some(1));
    let change = json!({"spec": {"failurePolicy": "Ignore"}});
    policies.patch("p", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    assert_eq!(observed().await, Some(2));
}

#[tokio::test]
async fn a_kubeconfig_can_be_of_another_user() {
    let cluster = Cluster::builder().listen("127.0.0.1:0".parse().unwrap()).start().await.unwrap();
    let config = cluster.kubeconfig_as(User::named("jane", [])).unwrap();
    let token = config.lines().find_map(|l| l.trim().strip_prefix("token: ")).unwrap();
    let answer = ask(&cluster, "/api/v1/namespaces/default", Some(token)).await;
    assert!(answer.contains(r#"User \"jane\" cannot get"#), "{answer}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_kubeconfig_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let cluster = Cluster::builder().listen("127.0.0.1:0".parse().unwrap()).start().await.unwrap();
    cluster.write_kubeconfig(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), cluster.kubeconfig().unwrap());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_dropped_cluster_frees_its_port() {
    let cluster = Cluster::builder().listen("127.0.0.1:0".parse().unwrap()).start().await.unwrap();
    let address = cluster.address().unwrap();
    drop(cluster);
    for _ in 0..100 {
        if std::net::TcpListener::bind(address).is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{address} is still taken");
}

#[tokio::test]
async fn approved_requests_get_certificates_that_name_their_users() {
    use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
    use kube::{
        Api,
        api::{Patch, PatchParams, PostParams},
    };
    use serde_json::json;
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let cluster = Cluster::builder().listen(address).start().await.unwrap();
    cluster.settled().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let mut asked = rcgen::CertificateParams::default();
    asked.distinguished_name.push(rcgen::DnType::CommonName, "jane");
    asked.distinguished_name.push(rcgen::DnType::OrganizationName, "developers");
    let asked = asked.serialize_request(&key).unwrap().pem().unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(cluster.client());
    let create = async |name: &str, signer: &str| {
        let request = json!({
            "metadata": {"name": name},
            "spec": {
                "request": ByteString(asked.clone().into_bytes()),
                "signerName": signer,
                "usages": ["digital signature", "client auth"],
            },
        });
        let request = serde_json::from_value(request).unwrap();
        requests.create(&PostParams::default(), &request).await.unwrap();
        cluster.settled().await;
        assert!(requests.get(name).await.unwrap().status.unwrap_or_default().certificate.is_none());
        let condition = json!({"type": "Approved", "status": "True", "reason": "Test", "message": "yes"});
        let approval = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        requests.patch_subresource("approval", name, &PatchParams::default(), &approval).await.unwrap();
        cluster.settled().await;
        requests.get(name).await.unwrap().status.unwrap()
    };
    let status = create("client", "kubernetes.io/kube-apiserver-client").await;
    let certificate = String::from_utf8(status.certificate.unwrap().0).unwrap();
    let answer = ask_with(&cluster, "/api/v1/nodes", None, Some((certificate, key.serialize_pem()))).await;
    assert!(answer.contains(r#"User \"jane\" cannot list resource \"nodes\""#), "{answer}");
    assert!(answer.to_lowercase().contains("\r\naudit-id: "), "{answer}");

    // The signer of kubelet client certificates refuses other subjects.
    let status = create("kubelet", "kubernetes.io/kube-apiserver-client-kubelet").await;
    let failed = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("SignerValidationFailure"));
    assert!(status.certificate.is_none());
}
