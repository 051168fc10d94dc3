//! Requests to the API server, one after the other: no path, query, header or body makes it panic or wait for good.
//!
//! A request is a line with method and path, lines with headers, an empty line and a body; `---` stands between requests.

#![no_main]

use std::task::{Context, Poll, Waker};
use std::{future::Future, pin::pin};

use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use steersman_apiserver::{Body, Server};
use tower_service::Service as _;

/// Frames that are read of an answer; that of a watch goes on.
const FRAMES: usize = 16;
/// Requests of one input.
const REQUESTS: usize = 16;

fuzz_target!(|data: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    // Timers of watches want a runtime; nothing is waited for.
    let _inside = runtime.enter();
    let server = Server::default();
    for text in split(data).take(REQUESTS) {
        let Some(request) = read(text) else { continue };
        let answer = pin!(server.service().call(request));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(answer)) => drain(answer),
            // There is no webhook client that could be waited for, and no disk.
            Poll::Pending => panic!("a request waits"),
        }
    }
});

fn split(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let end = text.windows(5).position(|window| window == b"\n---\n");
        rest = end.map(|end| &text[end + 5..]);
        Some(end.map_or(text, |end| &text[..end]))
    })
}

fn read(text: &[u8]) -> Option<Request<Full<bytes::Bytes>>> {
    let (head, body) = match text.windows(2).position(|window| window == b"\n\n") {
        Some(end) => (&text[..end], &text[end + 2..]),
        None => (text, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
    let mut builder = Request::builder().method(words.next()?).uri(words.next()?);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        builder = builder.header(name, value);
    }
    builder.body(Full::new(bytes::Bytes::copy_from_slice(body))).ok()
}

fn drain(answer: Response<Body>) {
    assert!(answer.status().as_u16() < 600);
    let mut body = pin!(answer.into_body());
    for _ in 0..FRAMES {
        match body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(_)) => {}
            Poll::Ready(None) | Poll::Pending => return,
        }
    }
}
