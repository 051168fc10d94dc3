//! Runs Ansible roles and playbooks as the operator of a project.

use std::path::{Path, PathBuf};

use kube::Client;
use steersman::Operator;
use steersman_ansible_operator::{Defaults, Observer, Progress, Step, Watches, add_watches};

use super::project::Tell;
use crate::failure::{Failure, Result};

/// The roles and playbooks in watches.yaml.
pub(crate) struct Plays(pub(in crate::commands) Box<Watches>);

impl Plays {
    pub(super) fn load(path: &Path) -> Result<Self> {
        let roles_path: Vec<PathBuf> =
            std::env::var_os("ANSIBLE_ROLES_PATH").iter().flat_map(std::env::split_paths).collect();
        let watches = Watches::load(path, &roles_path, |name| std::env::var(name).ok());
        Ok(Self(Box::new(watches.map_err(|error| Failure::new(error.to_string()))?)))
    }

    /// Returns API version and kind of the objects that plays run for.
    pub(super) fn kinds(&self) -> Vec<(String, String)> {
        let configs = self.0.entries.iter().map(|watch| &watch.config);
        configs.map(|config| (config.api_version(), config.kind.clone())).collect()
    }

    /// Adds the controllers of the plays to an operator. `tell` is called as each task starts.
    pub(super) async fn add_to(&self, operator: Operator, client: &Client, tell: Tell) -> Result<Operator> {
        let defaults = Defaults {
            observer: Some(Observer::new(move |progress| tell_progress(&progress, &tell))),
            ..Default::default()
        };
        add_watches(operator, &self.0, &defaults, client).await.map_err(|error| {
            Failure::new(error.to_string()).help("use a Python with ansible-core: set VIRTUAL_ENV or PATH")
        })
    }
}

/// Reports each task of a play, and failures, in a line.
fn tell_progress(progress: &Progress, tell: &Tell) {
    let Progress { kind, object, step, .. } = progress;
    let place = |path: &Option<String>| path.as_ref().map_or(String::new(), |path| format!(" ({path})"));
    match step {
        Step::Task { name, .. } => tell(&format!("{kind}/{}: {name}", object.name())),
        Step::Done { name, path, failed: true, message, .. } => {
            let message = message.as_deref().unwrap_or("it failed");
            tell(&format!("{kind}/{}: {name}{} failed: {message}", object.name(), place(path)));
        }
        _ => {}
    }
}
