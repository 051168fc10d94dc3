//! `steer diff ansible`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use kube::Client;
use steersman::{Key, Operator};
use steersman_ansible_operator::{
    Defaults, LogEvents, Observer, Progress, Step, Watches, add_watches, list_objects,
};
use tokio::sync::{mpsc, oneshot};

use super::PlayArgs;
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Plays run with --check --diff, and their requests are sent to the cluster as dry runs. Nothing is
written. Modules without check mode, such as command, are skipped by Ansible.

Examples:
  steer diff ansible
  steer diff ansible Memcached/sample -n shop
  steer diff ansible --watches-file ../next/watches.yaml";

/// Show the changes that plays would make for objects of the kinds in watches.yaml
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands) struct DiffAnsible {
    /// Objects to diff, as KIND/NAME [default: all in the namespace of -n, or in all namespaces]
    #[arg(value_name = "KIND/NAME")]
    objects: Vec<String>,

    #[command(flatten)]
    plays: PlayArgs,
}

/// The result of an object's run.
#[derive(Default)]
struct Found {
    lines: Vec<String>,
    changes: usize,
    failure: Option<String>,
    ended: bool,
}

impl DiffAnsible {
    pub(in crate::commands) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let found = crate::runtime::multi_thread()?.block_on(self.look(globals))?;
        let (mut changed, mut failed) = (0, 0);
        for ((kind, object), found) in &found {
            let title = format!("{kind} {object}");
            changed += usize::from(found.changes > 0);
            match (&found.failure, found.changes) {
                (Some(failure), _) => {
                    failed += 1;
                    output.line(format_args!("{title}  the play failed: {failure}"));
                }
                (None, 0) => output.line(format_args!("{title}  stays the same")),
                (None, 1) => output.line(format_args!("{title}  1 task would change something")),
                (None, count) => output.line(format_args!("{title}  {count} tasks would change something")),
            }
            for line in &found.lines {
                output.line(format_args!("  {line}"));
            }
        }
        output.line(format_args!(
            "{} of {} would change. Nothing was written.",
            changed,
            match found.len() {
                1 => "1 object".to_owned(),
                count => format!("{count} objects"),
            }
        ));
        match failed {
            0 => Ok(()),
            1 => Err(Failure::new("1 play fails")),
            count => Err(Failure::new(format!("{count} plays fail"))),
        }
    }

    async fn look(&self, globals: &GlobalArgs) -> Result<BTreeMap<(String, Key), Found>> {
        let mut watches = self.plays.watches()?;
        let client = cluster::client(globals).await?;
        let wanted = self.wanted(&watches, &client, globals).await?;
        let mut found: BTreeMap<(String, Key), Found> = BTreeMap::new();
        if wanted.is_empty() {
            return Ok(found);
        }
        watches.entries.retain(|watch| wanted.iter().any(|(kind, _)| *kind == watch.config.kind));
        let (sender, mut steps) = mpsc::unbounded_channel();
        let defaults = Defaults {
            check: true,
            observer: Some(Observer::new(move |step: Progress| {
                let _ = sender.send(step);
            })),
            only: wanted.iter().map(|(_, key)| key.clone()).collect(),
            log_events: LogEvents::Nothing,
            reconcile_period: std::time::Duration::ZERO,
            ..self.plays.defaults()
        };
        let operator = Operator::new("ansible-operator").namespaces(globals.namespace.clone());
        let operator = add_watches(operator, &watches, &defaults, &client).await;
        let operator = operator.map_err(|error| Failure::new(error.to_string()))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let mut running = tokio::spawn(operator.run_until(client, async {
            let _ = stopped.await;
        }));
        while wanted.iter().any(|object| !found.get(object).is_some_and(|found| found.ended)) {
            let step = tokio::select! {
                step = steps.recv() => step,
                ended = &mut running => {
                    let why = match ended {
                        Ok(Err(error)) => error.to_string(),
                        Ok(Ok(())) => "it was stopped".to_owned(),
                        Err(error) => error.to_string(),
                    };
                    return Err(Failure::new(format!("cannot run the plays: {why}")));
                }
            };
            let Some(Progress { kind, object, step, .. }) = step else { break };
            if wanted.contains(&(kind.clone(), object.clone())) {
                found.entry((kind, object)).or_default().add(step);
            }
        }
        drop(stop);
        let _ = running.await;
        Ok(found)
    }

    /// Returns the selected objects.
    async fn wanted(
        &self,
        watches: &Watches,
        client: &Client,
        globals: &GlobalArgs,
    ) -> Result<BTreeSet<(String, Key)>> {
        let all = list_objects(watches, globals.namespace.as_deref(), client).await;
        let all = all.map_err(|error| Failure::new(error.to_string()))?;
        if self.objects.is_empty() {
            return Ok(all);
        }
        let mut named = BTreeSet::new();
        for text in &self.objects {
            let is_it = |kind: &str, key: &Key| {
                let parts = text.split_once('/');
                parts.is_some_and(|(wanted, name)| wanted.eq_ignore_ascii_case(kind) && name == key.name())
            };
            let found: Vec<_> = all.iter().filter(|(kind, key)| is_it(kind, key)).cloned().collect();
            if found.is_empty() {
                return Err(Failure::new(format!("{text} not found")).help(
                    "name objects as KIND/NAME, with a kind of watches.yaml; -n sets their namespace",
                ));
            }
            named.extend(found);
        }
        Ok(named)
    }
}

impl Found {
    fn add(&mut self, step: Step) {
        match step {
            // Only the first run counts: a failed one is retried.
            _ if self.ended => {}
            Step::Done { name, path, failed, changed, diff, .. } => {
                if !changed && !failed {
                    return;
                }
                self.changes += usize::from(changed);
                let place = path.map_or(String::new(), |path| format!("  ({path})"));
                self.lines.push(format!("{} {name}{place}", if failed { "✗" } else { "~" }));
                let diff = diff.unwrap_or_default();
                self.lines.extend(
                    diff.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("    {line}")),
                );
            }
            Step::Ended { failure, .. } => {
                self.failure = failure;
                self.ended = true;
            }
            _ => {}
        }
    }
}
