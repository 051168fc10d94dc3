//! WebSockets on which only the server sends data.

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::AnswerBody;

/// Maximum size of a client's message. Messages are read only to detect pings and the close.
const MAX_RECEIVED: usize = 64 << 10;

/// A client's WebSocket handshake.
///
/// It is validated as Go's `golang.org/x/net/websocket` does: `Origin` is required, and at most one subprotocol is allowed,
/// which is accepted whatever its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    key: String,
    protocol: Option<HeaderValue>,
}

impl Handshake {
    /// Returns the handshake of an upgrade request, or the status that refuses it.
    ///
    /// Returns `None` if the request is not a WebSocket upgrade.
    pub fn of<B>(request: &Request<B>) -> Option<Result<Self, StatusCode>> {
        let headers = request.headers();
        is_upgrade(headers).then(|| Self::read(headers))
    }

    fn read(headers: &HeaderMap) -> Result<Self, StatusCode> {
        let text =
            |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::trim);
        let key = text(header::SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
        let (Some(key), Some("13")) = (key, text(header::SEC_WEBSOCKET_VERSION)) else {
            return Err(StatusCode::BAD_REQUEST);
        };
        if text(header::ORIGIN).is_none_or(str::is_empty) {
            return Err(StatusCode::FORBIDDEN);
        }
        let protocol = match text(header::SEC_WEBSOCKET_PROTOCOL) {
            None | Some("") => None,
            Some(several) if several.contains(',') => return Err(StatusCode::BAD_REQUEST),
            Some(one) => Some(HeaderValue::from_str(one).map_err(|_| StatusCode::BAD_REQUEST)?),
        };
        Ok(Self { key: key.to_owned(), protocol })
    }

    /// Returns the response that opens the WebSocket.
    ///
    /// Each frame of the body is sent as a text message, and the end of the body closes the WebSocket.
    pub fn accept<B>(self, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = self.protocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// Whether a request is a WebSocket upgrade.
fn is_upgrade(headers: &HeaderMap) -> bool {
    let lists = |name, wanted: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    lists(header::CONNECTION, "upgrade") && lists(header::UPGRADE, "websocket")
}

/// Sends a body over an upgraded connection, until either side closes.
pub(crate) async fn send(upgrade: OnUpgrade, mut body: AnswerBody) {
    let Ok(connection) = upgrade.await else { return };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_RECEIVED))
        .max_frame_size(Some(MAX_RECEIVED))
        .write_buffer_size(0);
    let mut socket =
        WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, Some(config)).await;
    loop {
        tokio::select! {
            text = body.frame().map(|frame| frame.and_then(text)) => {
                let Some(text) = text else { break };
                if socket.send(Message::Text(text)).await.is_err() {
                    return;
                }
            }
            // Reading replies to pings; other messages are ignored.
            received = socket.next() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            }
        }
    }
    let normal = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
    // If the client closed, tungstenite has already queued the reply. The client may also be gone, so errors are ignored.
    let _ = socket.flush().await;
    let _ = socket.close(Some(normal)).await;
    let _ = socket.get_mut().shutdown().await;
}

/// Returns the text in a frame of a body, or `None` if the body failed.
fn text<E>(frame: Result<Frame<Bytes>, E>) -> Option<Utf8Bytes> {
    Utf8Bytes::try_from(frame.ok()?.into_data().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake(more: &[(&'static str, &'static str)]) -> Option<Result<Handshake, StatusCode>> {
        let mut request = Request::new(());
        for (name, value) in more {
            request.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        Handshake::of(&request)
    }

    #[test]
    fn handshakes_are_judged_as_go_judges_them() {
        let base = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("origin", "https://localhost"),
        ];
        assert_eq!(handshake(&base[1..]), None);
        assert_eq!(handshake(&base[..4]), Some(Err(StatusCode::FORBIDDEN)));
        assert_eq!(handshake(&base[..3]), Some(Err(StatusCode::BAD_REQUEST)));
        let answer = handshake(&base).unwrap().unwrap().accept(());
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!answer.headers().contains_key("sec-websocket-protocol"));
        let with = |protocols| handshake(&[&base[..], &[("sec-websocket-protocol", protocols)]].concat());
        let answer = with("base64.binary.k8s.io").unwrap().unwrap().accept(());
        assert_eq!(answer.headers()["sec-websocket-protocol"], "base64.binary.k8s.io");
        assert_eq!(with("a, b"), Some(Err(StatusCode::BAD_REQUEST)));
    }
}
