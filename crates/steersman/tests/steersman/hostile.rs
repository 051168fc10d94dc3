//! Protection of an operator against users with fewer permissions, broken code and unlucky timing.

mod faults;
mod manifests;
mod reads;
mod sets;
mod surface;

use k8s_openapi::api::events::v1::Event;
use kube::{CustomResourceExt as _, api::ListParams};
use steersman::{Result, testing::TestEnv};

use crate::common::Widget;

async fn env() -> Result<TestEnv> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    Ok(env)
}

/// Returns the notes of all events with a reason.
async fn notes(env: &TestEnv, reason: &str) -> Result<Vec<String>> {
    let events = env.api::<Event>().list(&ListParams::default()).await?.items;
    let of_reason = events.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    Ok(of_reason.filter_map(|event| event.note).collect())
}
