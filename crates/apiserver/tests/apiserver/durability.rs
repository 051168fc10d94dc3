//! Writes that the journal fails to keep.

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::{Body, Journal, JournalObserver, Record, Server, User};
use tower_service::Service as _;

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A journal that persists records, or fails to, when the test tells it to.
#[derive(Clone, Debug, Default)]
struct Manual {
    observer: Arc<OnceLock<JournalObserver>>,
    latest: Arc<AtomicU64>,
}

impl Journal for Manual {
    fn start(&self, observer: JournalObserver) {
        self.observer.set(observer).unwrap();
    }

    fn append(&self, record: Record) {
        self.latest.store(record.revision, Ordering::SeqCst);
    }
}

impl Manual {
    fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    fn end(&self, keeps: bool) {
        let observer = self.observer.get().unwrap();
        if keeps {
            observer.durable(self.latest());
        } else {
            let _ = observer.failed("the disk is full");
            observer.recovered();
        }
    }
}

async fn ask(server: &Server, request: &str, body: &Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path).extension(User::admin());
    let answer: Answer = server.service().call(request.body(body.to_string()).unwrap());
    let answer = answer.await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test]
async fn what_an_undone_write_took_is_free_again() {
    let journal = Manual::default();
    let server = Server::builder().journal(journal.clone()).build();
    journal.end(true);
    let write = async |request: &str, body: Value, keeps: bool| {
        let before = journal.latest();
        let mut asked = pin!(ask(&server, request, &body));
        loop {
            tokio::select! {
                biased;
                answer = &mut asked => return answer,
                () = tokio::task::yield_now() => if journal.latest() != before {
                    journal.end(keeps);
                },
            }
        }
    };
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"clusterIP": "10.96.0.50", "ports": [{"port": 80}]}});
    let create = format!("POST {services}");
    let (code, refused) = write(&create, service("lost"), false).await;
    assert_eq!(code, 503, "{refused}");
    let (code, kept) = write(&create, service("kept"), true).await;
    assert_eq!((code, &kept["spec"]["clusterIP"]), (201, &json!("10.96.0.50")), "{kept}");
    // A deletion that is undone gives nothing away.
    let (code, refused) = write(&format!("DELETE {services}/kept"), json!({}), false).await;
    assert_eq!(code, 503, "{refused}");
    let (code, refused) = write(&create, service("second"), true).await;
    assert_eq!(code, 422, "{refused}");
    assert!(refused["message"].as_str().unwrap().ends_with("provided IP is already allocated"), "{refused}");
}
