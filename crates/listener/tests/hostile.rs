//! Clients that are slow, idle or too many.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use steersman_listener::{Limits, Listener};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A body that never ends, like that of a watch: only the head of the response is sent.
fn endless() -> BoxBody<Bytes, Infallible> {
    StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed()
}

/// Serves `/` and `/watch`, whose response never ends, and reads posted bodies.
async fn start(limits: Limits) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener::new(socket).limits(limits);
    tokio::spawn(listener.serve(|_| {
        |request: http::Request<steersman_listener::RequestBody>| async move {
            if request.uri().path() == "/watch" {
                return Response::new(endless());
            }
            let text = match request.into_body().collect().await {
                Ok(body) => format!("{} bytes", body.to_bytes().len()),
                Err(error) => error.to_string(),
            };
            let mut answer: Answer = Response::new(Full::new(Bytes::from(text)).boxed());
            *answer.status_mut() = StatusCode::OK;
            answer
        }
    }));
    address
}

async fn open(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Returns what the server sends until it closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A reset also ends the connection.
    let _ = timeout(SOON, stream.read_to_end(&mut said)).await.expect("the connection stays open");
    String::from_utf8(said).unwrap()
}

async fn ask(address: SocketAddr) -> String {
    rest(open(address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await).await
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let address = start(Limits { header: SHORT, ..Limits::default() }).await;
    for head in ["", "GET / HTTP/1.1\r\nhost:", "GET / HTTP/1.1\r\nhost: x\r\n\r\nGET"] {
        let stream = open(address, head).await;
        let said = rest(stream).await;
        assert_eq!(said.starts_with("HTTP/1.1 200"), head.ends_with("GET"), "{head:?}: {said}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let address = start(Limits { body: SHORT, ..Limits::default() }).await;
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nconnection: close\r\n\r\n";
    let said = rest(open(address, &format!("{head}123")).await).await;
    assert!(said.contains("was not complete after 200ms"), "{said}");
    let said = rest(open(address, &format!("{head}0123456789")).await).await;
    assert!(said.ends_with("10 bytes"), "{said}");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let limits = Limits { handshake: SHORT, ..Limits::default() };
    let listener = Listener::new(socket).tls(Arc::new(config)).limits(limits);
    tokio::spawn(listener.serve(|_| |_| async { Response::new(String::new()) }));
    assert_eq!(rest(open(address, "").await).await, "");
    // The first bytes of a ClientHello, and nothing more.
    assert_eq!(rest(open(address, "\x16\x03\x01").await).await, "");
}

#[tokio::test]
async fn idle_connections_make_room_for_others() {
    let address = start(Limits { connections: 8, ..Limits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(open(address, "").await);
    }
    for _ in 0..3 {
        let said = timeout(SOON, ask(address)).await.expect("no answer");
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
}

#[tokio::test]
async fn busy_connections_stay() {
    let address = start(Limits { connections: 4, ..Limits::default() }).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        let mut stream = open(address, "GET /watch HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut head = [0; 15];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        watches.push(stream);
    }
    let idle: Vec<TcpStream> = {
        let mut idle = Vec::new();
        for _ in 0..50 {
            idle.push(open(address, "").await);
        }
        idle
    };
    assert!(ask(address).await.starts_with("HTTP/1.1 200"));
    for watch in &mut watches {
        let mut rest = Vec::new();
        let end = timeout(SHORT, watch.read_to_end(&mut rest)).await;
        assert!(end.is_err(), "a busy connection was closed: {:?}", String::from_utf8_lossy(&rest));
    }
    drop(idle);
    // If all are busy, another connection waits until one of them ends.
    watches.push(open(address, "GET /watch HTTP/1.1\r\nhost: x\r\n\r\n").await);
    let mut head = [0; 15];
    watches[3].read_exact(&mut head).await.unwrap();
    let released = Arc::new(Notify::new());
    let waiting = tokio::spawn({
        let released = Arc::clone(&released);
        async move {
            let answer = ask(address);
            tokio::pin!(answer);
            tokio::select! {
                said = &mut answer => panic!("answered while all connections are busy: {said}"),
                () = released.notified() => {}
            }
            answer.await
        }
    });
    tokio::time::sleep(SHORT).await;
    released.notify_one();
    tokio::task::yield_now().await;
    watches.pop();
    let said = timeout(SOON, waiting).await.expect("still waiting").unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}
