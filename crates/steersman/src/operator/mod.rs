//! The operator: its controllers, and what they share.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::Client;
use tokio::task::JoinSet;

use crate::{
    cache::Caches,
    context::{Shared, events::Recorder},
    controller::{Blueprint, Controller, Engine},
    door::{self, Fence, Permit},
    environment::{Environment, SystemEnvironment},
    error::{Error, Result},
};

/// The first minor version of Kubernetes whose API servers stream lists without being told to.
const STREAMING: u32 = 34;

/// An operator, described.
#[must_use]
pub struct Operator {
    name: String,
    controllers: Vec<Blueprint>,
    namespaces: Vec<String>,
    environment: Arc<dyn Environment>,
    grace: Duration,
}

impl Operator {
    /// An operator without controllers. Its name is the field manager of everything that it applies, so it must stay
    /// the same from version to version.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            controllers: Vec::new(),
            namespaces: Vec::new(),
            environment: Arc::new(SystemEnvironment),
            grace: Duration::from_secs(30),
        }
    }

    /// Adds a controller.
    pub fn controller<K>(mut self, controller: Controller<K>) -> Self {
        self.controllers.push(controller.blueprint);
        self
    }

    /// Watches these namespaces alone. Default: all.
    pub fn namespaces<S: Into<String>>(mut self, namespaces: impl IntoIterator<Item = S>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Takes time and randomness from here. Default: [`SystemEnvironment`].
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// How long reconciles under way may take to end when the operator stops. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Runs until `stop` completes. Reconciles under way then have [the grace period](Operator::grace) to end.
    ///
    /// # Errors
    /// Fails if the caches can't be filled.
    pub async fn run_until(self, client: Client, stop: impl Future<Output = ()> + Send) -> Result<()> {
        let name: Arc<str> = self.name.into();
        let fenced = door::fenced(client.clone(), Fence::new(Permit::Always));
        let (events, writer) =
            Recorder::new(fenced.clone(), Arc::clone(&name), Arc::clone(&self.environment));
        let streaming = streams_lists(&client).await;
        let shared = Arc::new(Shared {
            name: Arc::clone(&name),
            client: fenced,
            caches: Caches::new(client, name, self.namespaces, streaming),
            events,
            environment: self.environment,
        });
        let mut names = BTreeSet::new();
        let mut engines = Vec::new();
        for blueprint in self.controllers {
            let (engine, streams) = Engine::new(blueprint);
            if !names.insert(engine.name.to_string()) {
                return Err(Error::DuplicateName(engine.name.to_string()));
            }
            engines.push((engine, streams));
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(writer);
        let mut workers = JoinSet::new();
        let closing: Vec<_> = engines.iter().map(|(engine, _)| Arc::clone(engine)).collect();
        let work = async {
            for engine in &closing {
                engine.sync(&shared).await?;
            }
            for (engine, streams) in engines {
                tracing::info!(controller = %engine.name, kind = %engine.kind, "started");
                workers.spawn(engine.run(Arc::clone(&shared), streams));
            }
            Ok::<_, Error>(())
        };
        tokio::pin!(stop);
        tokio::select! {
            started = work => started?,
            () = &mut stop => return Ok(()),
        }
        stop.await;
        tracing::info!("stopping");
        for engine in &closing {
            engine.queue.close();
        }
        let ended =
            tokio::time::timeout(self.grace, async { while workers.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!(grace = ?self.grace, "reconciles under way were cut off");
        }
        Ok(())
    }
}

/// Whether the API server is new enough to stream lists.
async fn streams_lists(client: &Client) -> bool {
    let Ok(version) = client.apiserver_version().await else { return false };
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    version.major != "1" || digits.parse().is_ok_and(|minor: u32| minor >= STREAMING)
}
