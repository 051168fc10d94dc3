//! Outgoing webhooks, received by a test server.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use steersman_gateway::Webhook;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::support::{EDITOR, Got, Place, SHOPS, serve, shop};

const SECRET: &str = "a secret that is long enough";

fn ready(status: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status, "reason": "Test", "message": "as it is"}]})
}

fn document(got: &Got) -> Value {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{}.{}.", got.header("webhook-id"), got.header("webhook-timestamp")).as_bytes());
    mac.update(&got.body);
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    assert_eq!(got.header("webhook-signature"), format!("v1,{signature}"));
    serde_json::from_slice(&got.body).unwrap()
}

async fn next(receiver: &mut UnboundedReceiver<Got>) -> Got {
    timeout(Duration::from_secs(20), receiver.recv()).await.expect("no webhook came").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_condition_is_sent_signed_and_again_after_a_failure() {
    let mut answers = [500, 204].into_iter().chain(std::iter::repeat(204));
    let (address, mut receiver) = serve(move || (answers.next().unwrap(), String::new())).await;
    let webhook = Webhook::new(&format!("http://{address}/in"), SECRET).unwrap().kinds(["shops.example.com"]);
    let place = Place::with(|builder| builder.webhook(webhook)).await;
    place.post(EDITOR, SHOPS, &shop("a", 1)).await.expect(201);
    // The initial state is not a change, so the first change is repeated until its event arrives.
    let mut status = ["False", "True"].into_iter().cycle();
    let (first, seen) = loop {
        let status = status.next().unwrap();
        place.report("a", &ready(status)).await;
        if let Ok(got) = timeout(Duration::from_millis(500), receiver.recv()).await {
            break (got.unwrap(), status);
        }
    };
    let told = document(&first);
    assert_eq!(told["type"], "condition.changed");
    assert_eq!(told["data"]["ref"]["kind"], "shops.example.com");
    assert_eq!(told["data"]["ref"]["name"], "a");
    assert_eq!(told["data"]["condition"]["type"], "Ready");
    let again = next(&mut receiver).await;
    assert_eq!(again.header("webhook-id"), first.header("webhook-id"), "the same, tried again");
    assert_eq!(again.body, first.body);

    place.report("a", &json!({"observedGeneration": 1})).await;
    let other = if seen == "True" { "False" } else { "True" };
    place.report("a", &ready(other)).await;
    let got = next(&mut receiver).await;
    assert_ne!(got.header("webhook-id"), first.header("webhook-id"));
    let told = document(&got);
    assert_eq!(told["data"]["before"], seen, "nothing between was sent");
    assert_eq!(told["data"]["condition"]["status"], other);
    assert_eq!(told["data"]["health"]["status"], if other == "True" { "ready" } else { "progressing" });
}
