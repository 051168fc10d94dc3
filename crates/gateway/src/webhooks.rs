//! Outgoing webhooks: a signed request for each changed condition of a custom resource.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use crate::{
    Error, Shared, health, identity, instances,
    kinds::{Kind, list},
    tree,
    url::parse_secure,
    watch::{Event, Target, Watch},
};

/// The timeout of a delivery attempt.
const PATIENCE: Duration = Duration::from_secs(15);
/// The delays before the retries of a delivery.
const RETRIES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(30 * 60),
];
/// The maximum number of deliveries queued for a receiver; the oldest are dropped for new ones.
const WAITING: usize = 10_000;
/// The delay after a failed request to the cluster.
const RECONNECT: Duration = Duration::from_secs(2);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A receiver of condition changes: its URL, the signing secret, and the kinds to watch.
///
/// Requests are signed according to the Standard Webhooks specification: `webhook-id`, `webhook-timestamp`,
/// `webhook-signature`.
#[derive(Clone)]
pub struct Webhook {
    url: reqwest::Url,
    secret: Vec<u8>,
    kinds: Vec<String>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("url", &self.url.as_str())
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// Creates a receiver. The secret is `whsec_` followed by base64, or any string of at least 24 bytes.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or is neither HTTPS nor on this machine, or if the secret is too short.
    pub fn new(url: &str, secret: &str) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Webhook(format!("{url}: {reason}"));
        let parsed = parse_secure(url).map_err(wrong)?;
        let secret = secret.trim();
        let bytes = match secret.strip_prefix("whsec_") {
            Some(encoded) => STANDARD
                .decode(encoded)
                .map_err(|_| wrong("the secret is not valid base64 after whsec_".into()))?,
            None => secret.as_bytes().to_vec(),
        };
        if bytes.len() < 24 {
            return Err(wrong(
                "the secret is shorter than 24 bytes; `openssl rand -base64 32` makes one".into(),
            ));
        }
        Ok(Self { url: parsed, secret: bytes, kinds: Vec::new() })
    }

    /// Restricts the webhook to kinds, as `plural.group`. Default: all custom kinds.
    #[must_use]
    pub fn kinds<S: Into<String>>(mut self, kinds: impl IntoIterator<Item = S>) -> Self {
        self.kinds.extend(kinds.into_iter().map(Into::into));
        self
    }

    fn is_about(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|known| known == kind)
    }

    /// Returns the signature of a request, prefixed with `v1,`.
    fn signature(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else { return String::new() };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// A change to be delivered to a receiver.
struct Delivery {
    /// The same in each attempt, so that the receiver can recognize duplicates.
    id: String,
    body: Bytes,
}

/// A receiver and its queue.
struct Receiver {
    webhook: Webhook,
    waiting: Mutex<VecDeque<Delivery>>,
    arrived: Notify,
}

impl Receiver {
    fn put(&self, delivery: Delivery) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == WAITING {
            waiting.pop_front();
            tracing::warn!(
                url = %self.webhook.url,
                "webhook dropped: {WAITING} others are queued for this receiver"
            );
        }
        waiting.push_back(delivery);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Delivers the queue forever, one request after the other so that an object's changes stay in order.
    async fn deliver(self: Arc<Self>, http: reqwest::Client) {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(delivery) => self.send(&http, &delivery).await,
                None => self.arrived.notified().await,
            }
        }
    }

    async fn send(&self, http: &reqwest::Client, delivery: &Delivery) {
        let mut retries = RETRIES.into_iter();
        loop {
            let Err(reason) = self.attempt(http, delivery).await else { return };
            let Some(pause) = retries.next() else {
                tracing::warn!(
                    url = %self.webhook.url,
                    id = delivery.id,
                    reason,
                    "webhook failed: giving up"
                );
                return;
            };
            tracing::debug!(url = %self.webhook.url, id = delivery.id, reason, "webhook failed: retrying");
            sleep(pause).await;
        }
    }

    async fn attempt(&self, http: &reqwest::Client, delivery: &Delivery) -> Result<(), String> {
        let timestamp = Timestamp::now().as_second();
        let sent = http
            .post(self.webhook.url.clone())
            .timeout(PATIENCE)
            .header("content-type", "application/json")
            .header("webhook-id", &delivery.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.webhook.signature(&delivery.id, timestamp, &delivery.body))
            .body(delivery.body.clone())
            .send()
            .await;
        match sent {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("HTTP {}", response.status())),
            Err(error) => Err(error.without_url().to_string()),
        }
    }
}

/// Watches the custom kinds with the gateway's own credentials, and delivers their changes forever.
pub(crate) async fn run(shared: Arc<Shared>, webhooks: Vec<Webhook>) {
    if webhooks.is_empty() {
        return std::future::pending().await;
    }
    let receiver = |webhook| Receiver { webhook, waiting: Mutex::default(), arrived: Notify::new() };
    let receivers: Arc<[Arc<Receiver>]> = webhooks.into_iter().map(|one| Arc::new(receiver(one))).collect();
    let mut tasks = JoinSet::new();
    for receiver in &*receivers {
        tasks.spawn(Arc::clone(receiver).deliver(shared.http.clone()));
    }
    let mut followed: BTreeMap<String, (String, AbortHandle)> = BTreeMap::new();
    let mut is_begun = false;
    loop {
        // Listed before discovery, so that no definition is missed between the two.
        let definitions = instances::all(&shared.own, DEFINITIONS, "").await.map(|(_, version)| version);
        match shared.kinds.now().await {
            Ok(catalog) => {
                let is_wanted = |kind: &Kind| {
                    let is_about = |receiver: &Arc<Receiver>| receiver.webhook.is_about(&kind.name());
                    kind.custom && kind.has_verb("watch") && receivers.iter().any(is_about)
                };
                let wanted: BTreeMap<String, Arc<Kind>> = catalog
                    .iter()
                    .filter(|kind| is_wanted(kind))
                    .map(|kind| (kind.name(), Arc::clone(kind)))
                    .collect();
                followed.retain(|name, (version, task)| {
                    let stays = wanted.get(name).is_some_and(|kind| kind.version == *version);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for (name, kind) in wanted {
                    followed.entry(name).or_insert_with(|| {
                        let version = kind.version.clone();
                        let following = follow(Arc::clone(&shared), kind, Arc::clone(&receivers), is_begun);
                        (version, tasks.spawn(following))
                    });
                }
                is_begun = true;
            }
            Err(problem) => tracing::warn!(problem = problem.detail, "cannot list kinds for webhooks"),
        }
        match definitions {
            Ok(version) => definitions_change(&shared, &version).await,
            Err(_) => sleep(RECONNECT).await,
        }
    }
}

/// Waits until a definition has changed since a resourceVersion, or for a delay if the watch fails.
async fn definitions_change(shared: &Shared, version: &str) {
    let mut watch = Watch::new(&shared.own, &Target::new(DEFINITIONS, ""), version);
    loop {
        match watch.next().await {
            Ok(Event::Bookmark) => {}
            Ok(Event::Changed { .. } | Event::Expired) => return,
            Err(_) => return sleep(RECONNECT).await,
        }
    }
}

/// The status of each condition of an object, by type.
type Conditions = BTreeMap<String, String>;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Delivers the changes of a kind's objects forever. The initial state is not a change, unless the kind is new.
async fn follow(shared: Arc<Shared>, kind: Arc<Kind>, receivers: Arc<[Arc<Receiver>]>, is_new: bool) {
    let path = kind.path(None, None);
    let mut known: Option<HashMap<String, Conditions>> = is_new.then(HashMap::new);
    loop {
        let (objects, version) = match instances::all(&shared.own, &path, "").await {
            Ok(listed) => listed,
            Err(problem) => {
                tracing::debug!(
                    kind = kind.name(),
                    problem = problem.detail,
                    "cannot list a kind's objects for webhooks"
                );
                sleep(RECONNECT).await;
                continue;
            }
        };
        let is_first = known.is_none();
        let before = known.take().unwrap_or_default();
        let mut now = HashMap::new();
        for object in &objects {
            let uid = text(&object["metadata"]["uid"]).to_owned();
            let unknown = Conditions::new();
            let conditions = changes(object, before.get(&uid).unwrap_or(&unknown), |condition, status| {
                if !is_first {
                    send(&shared, &kind, &receivers, object, condition, status);
                }
            });
            now.insert(uid, conditions);
        }
        let now = known.insert(now);
        let mut watch = Watch::new(&shared.own, &Target::new(path.as_str(), ""), &version);
        loop {
            match watch.next().await {
                Ok(Event::Changed { kind: "DELETED", object }) => {
                    now.remove(text(&object["metadata"]["uid"]));
                }
                Ok(Event::Changed { object, .. }) => {
                    let known = now.entry(text(&object["metadata"]["uid"]).to_owned()).or_default();
                    *known = changes(&object, known, |condition, status| {
                        send(&shared, &kind, &receivers, &object, condition, status);
                    });
                }
                Ok(Event::Bookmark) => {}
                Ok(Event::Expired) => break,
                Err(problem) => {
                    tracing::debug!(
                        kind = kind.name(),
                        problem = problem.detail,
                        "cannot watch a kind for webhooks"
                    );
                    sleep(RECONNECT).await;
                    break;
                }
            }
        }
    }
}

/// Returns the conditions of an object. Calls `changed` with each one whose status differs from before, and the former status.
fn changes(object: &Value, before: &Conditions, mut changed: impl FnMut(&Value, Option<&str>)) -> Conditions {
    let mut now = Conditions::new();
    for condition in list(&object["status"]["conditions"]) {
        let (name, status) = (text(&condition["type"]), text(&condition["status"]));
        let last = before.get(name).map(String::as_str);
        if last != Some(status) {
            changed(condition, last);
        }
        now.insert(name.to_owned(), status.to_owned());
    }
    now
}

fn send(
    shared: &Shared,
    kind: &Kind,
    receivers: &[Arc<Receiver>],
    object: &Value,
    condition: &Value,
    before: Option<&str>,
) {
    let document = json!({
        "type": "condition.changed", "timestamp": Timestamp::now().to_string(),
        "data": {
            "cluster": shared.cluster_name, "ref": tree::reference(Some(kind), object), "condition": condition,
            "before": before, "health": health::Health::of(object, true).document(),
        },
    });
    let Ok(id) = identity::random() else { return };
    let body = Bytes::from(document.to_string());
    for receiver in receivers.iter().filter(|receiver| receiver.webhook.is_about(&kind.name())) {
        receiver.put(Delivery { id: format!("msg_{id}"), body: body.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn signatures_are_those_of_the_specification() {
        let webhook = Webhook::new("https://example.com/in", SECRET).unwrap();
        let signature =
            webhook.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b"{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn addresses_and_secrets_that_are_not_safe_are_refused() {
        for url in ["http://example.com/in", "ftp://example.com", "no address", "file:///etc/passwd"] {
            assert!(Webhook::new(url, SECRET).is_err(), "{url}");
        }
        for url in
            ["http://127.0.0.1:9/in", "http://[::1]:9/in", "http://localhost/in", "https://example.com"]
        {
            assert!(Webhook::new(url, SECRET).is_ok(), "{url}");
        }
        for secret in ["", "short", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!"] {
            assert!(Webhook::new("https://example.com", secret).is_err(), "{secret}");
        }
    }

    #[test]
    fn only_another_status_is_a_change() {
        let object = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}, {"type": "Old", "status": "True"}]}});
        let mut told = Vec::new();
        let mut tell = |condition: &Value, before: Option<&str>| {
            told.push(format!("{} {:?} {}", text(&condition["type"]), before, text(&condition["status"])));
        };
        let first = changes(&object("False"), &Conditions::new(), &mut tell);
        let second = changes(&object("False"), &first, &mut tell);
        changes(&object("True"), &second, &mut tell);
        assert_eq!(told, ["Ready None False", "Old None True", "Ready Some(\"False\") True"]);
    }
}
