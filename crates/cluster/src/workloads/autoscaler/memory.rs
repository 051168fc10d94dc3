//! State of HorizontalPodAutoscalers between evaluations.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt as _;
use steersman_api::selector::LabelSelector;
use tokio::time::Instant;

use super::behavior::History;
use crate::control_loop::ClockChange;

/// Namespace and name.
type Key = (String, String);

/// State of all HorizontalPodAutoscalers between evaluations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Autoscalers(pub(super) BTreeMap<Key, Memory>);

#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) history: History,
    /// Time of the next evaluation. `None`: at once.
    pub(super) next: Option<Instant>,
    /// Whether an evaluation has started and not finished.
    pub(super) is_open: bool,
    /// Whether the last evaluation scaled the target into its bounds.
    pub(super) was_out_of_bounds: bool,
    /// Selector of the pods that it scales.
    pub(super) selector: Option<LabelSelector>,
}

impl Autoscalers {
    /// Returns the same state, with times on another clock.
    pub(crate) fn on_clock(&self, clock: ClockChange) -> Self {
        let carried = self.0.iter().map(|(key, memory)| {
            let next = memory.next.map(|at| clock.carry(at));
            (key.clone(), Memory { next, ..memory.clone() })
        });
        Self(carried.collect())
    }

    pub(super) fn memory(&mut self, scaler: &HorizontalPodAutoscaler) -> &mut Memory {
        let key = (scaler.namespace().unwrap_or_default(), scaler.name_any());
        self.0.entry(key).or_default()
    }

    /// Makes the next reconcile evaluate an autoscaler, regardless of when that is due.
    pub(crate) fn hasten(&mut self, namespace: &str, name: &str) {
        if let Some(memory) = self.0.get_mut(&(namespace.to_owned(), name.to_owned())) {
            memory.next = None;
        }
    }
}
