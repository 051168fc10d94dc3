//! Rejections that last for a while: an exhausted quota and a denying admission webhook.

use http::{Request, StatusCode, Uri};
use kube::{Client, client::Body};
use tokio::time::Instant;

use super::{process::Process, sent::Demand};
use crate::{
    fault::Fault,
    query::{Answer, forbidden, verb},
    target::Target,
};

/// Names of the quota and the webhook in error messages.
const QUOTA: &str = "simulation";
const WEBHOOK: &str = "policy.simulation.steersman.dev";

/// Writes that are rejected until a point in time.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    group_resource: String,
    subresource: Option<String>,
    reason: Reason,
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Quota,
    Denied,
}

impl Process {
    /// Starts to reject writes like this one, if the fault requires it.
    pub(super) fn begin_refusal(&self, fault: Option<&Fault>, target: &Target) {
        let reason = match fault {
            Some(Fault::Quota(_)) => Reason::Quota,
            Some(Fault::Denied(_)) => Reason::Denied,
            _ => return,
        };
        let network = &self.0.network;
        network.lock().refusals.push(Refusal {
            group_resource: target.group_resource(),
            subresource: target.subresource.clone(),
            reason,
            until: Instant::now() + network.0.config.timing.delay,
        });
    }

    /// Returns the response to a rejected write, and the reason.
    pub(super) async fn refused(
        &self,
        inner: &Client,
        request: &mut Request<Body>,
        target: &Target,
    ) -> Result<Option<(Answer, String)>, kube::Error> {
        let reasons: Vec<Reason> = {
            let state = self.0.network.lock();
            let now = Instant::now();
            let concerns = |refusal: &&Refusal| {
                now < refusal.until
                    && refusal.group_resource == target.group_resource()
                    && refusal.subresource == target.subresource
            };
            state.refusals.iter().filter(concerns).map(|refusal| refusal.reason).collect()
        };
        if reasons.contains(&Reason::Denied) {
            let message = format!("admission webhook {WEBHOOK:?} denied the request: try again later");
            return Ok(Some((forbidden(&message), "denied by an admission webhook".into())));
        }
        if reasons.is_empty() {
            return Ok(None);
        }
        let creates = match creation(request, target) {
            Creation::No => false,
            Creation::Yes => true,
            Creation::UnlessFound(uri) => {
                let read = Request::get(uri.path()).body(Body::empty()).map_err(kube::Error::HttpError)?;
                inner.send(read).await?.status() == StatusCode::NOT_FOUND
            }
        };
        if !creates {
            return Ok(None);
        }
        let resource = target.group_resource();
        let demand = Demand::of(request, target).await?;
        let name = demand.and_then(|(key, _)| key.rsplit('/').next().map(str::to_owned)).unwrap_or_default();
        let count = format!("count/{resource}=1");
        let message = format!(
            "{resource} {name:?} is forbidden: exceeded quota: {QUOTA}, requested: {count}, used: {count}, limited: {count}"
        );
        Ok(Some((forbidden(&message), "refused by a quota".into())))
    }
}

/// Whether a write creates an object.
enum Creation {
    No,
    Yes,
    /// It does unless a GET of this path finds an object.
    UnlessFound(Uri),
}

/// Whether a write creates an object, which quotas count.
fn creation(request: &Request<Body>, target: &Target) -> Creation {
    match verb(request.method(), request.headers()) {
        _ if target.subresource.is_some() => Creation::No,
        "create" => Creation::Yes,
        "apply" => Creation::UnlessFound(request.uri().clone()),
        _ => Creation::No,
    }
}
