//! Watches over WebSocket, as fabric8 opens them.

use std::{net::SocketAddr, sync::Arc};

use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use steersman_cluster::Cluster;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, Message, client::IntoClientRequest as _, handshake::client::Response},
};

async fn start() -> Cluster {
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Cluster::builder().workloads(false).listen(address).start().await.unwrap()
}

async fn open(
    cluster: &Cluster,
    path: &str,
    headers: &[(&'static str, &str)],
) -> tungstenite::Result<(WebSocketStream<TlsStream<TcpStream>>, Response)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cluster.root_certificate().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = cluster.address().unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let kubeconfig = cluster.kubeconfig().unwrap();
    let token = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    let mut request = format!("wss://{address}{path}").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    client_async(request, stream).await
}

fn event(message: &Message) -> Value {
    assert!(message.is_text(), "{message:?}");
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

#[tokio::test]
async fn each_event_is_a_text_message() {
    let cluster = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map = |name| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    maps.create(&PostParams::default(), &map("first")).await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps?watch=true";
    let headers = [("origin", "https://localhost"), ("sec-websocket-protocol", "base64.binary.k8s.io")];
    let (mut socket, answer) = open(&cluster, path, &headers).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "base64.binary.k8s.io");
    let first = event(&socket.next().await.unwrap().unwrap());
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("first")));

    socket.send(Message::Ping("still there?".into())).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("still there?".into()));
    maps.create(&PostParams::default(), &map("second")).await.unwrap();
    let second = event(&socket.next().await.unwrap().unwrap());
    assert_eq!(second["object"]["metadata"]["name"], "second");

    socket.close(None).await.unwrap();
    while let Some(message) = socket.next().await {
        message.unwrap();
    }
}

#[tokio::test]
async fn the_end_of_a_watch_closes_the_socket() {
    let cluster = start().await;
    let headers = [("origin", "https://localhost")];
    let path = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1";
    let (mut socket, _) = open(&cluster, path, &headers).await.unwrap();
    let Message::Close(Some(close)) = socket.next().await.unwrap().unwrap() else { panic!("not closed") };
    assert_eq!(u16::from(close.code), 1000);
}

#[tokio::test]
async fn what_is_no_watch_or_no_handshake_is_answered_in_plain_http() {
    let cluster = start().await;
    let origin = ("origin", "https://localhost");
    let watch = "/api/v1/namespaces?watch=true";
    for (path, headers, status) in [
        (watch, &[][..], 403),
        (watch, &[origin, ("sec-websocket-protocol", "a, b")], 400),
        ("/api/v1/namespaces", &[origin], 200),
        ("/api/v1/namespaces?watch=true&resourceVersion=x", &[origin], 500),
    ] {
        match open(&cluster, path, headers).await {
            Err(tungstenite::Error::Http(answer)) => assert_eq!(answer.status(), status, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}
