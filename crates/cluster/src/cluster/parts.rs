//! Assembly of a cluster.

use std::sync::Arc;

use futures::FutureExt as _;
use steersman_api::{
    environment::{Environment, SteppedEnvironment},
    user::User,
};
use steersman_apiserver::{AccessLog, Server};
use tokio::runtime::Handle;

use super::{Cluster, Inner};
use crate::{
    activity::Activity,
    api_services::ApiServers,
    control_loop::{self, LoopHandle, SavedLoop},
    listener::Listener,
    logs::SimulatedContainers,
    metrics::MetricsServer,
    options::Options,
    pki::Authority,
    services::Services,
    user_service::UserService,
    webhooks::{WebhookPolicy, Webhooks},
};

/// The parts that a cluster is assembled from.
pub(crate) struct Parts {
    pub(crate) builder: steersman_apiserver::Builder,
    pub(crate) clock: Arc<SteppedEnvironment>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) token: String,
    pub(crate) services: Services,
    pub(crate) api_servers: ApiServers,
    pub(crate) webhooks: WebhookPolicy,
    /// Whether the metrics API is served without metrics-server being installed.
    pub(crate) metrics: bool,
    pub(crate) records_access: bool,
    /// Set if workloads are simulated.
    pub(crate) options: Option<Arc<Options>>,
    /// The state that the control loop continues from.
    pub(crate) saved: Option<Arc<SavedLoop>>,
}

impl Parts {
    /// Builds the server, and its log of authorization decisions if they are recorded.
    pub(crate) fn build_server(&mut self) -> (Server, Option<Arc<AccessLog>>) {
        let mut builder = std::mem::take(&mut self.builder);
        let accesses = self.records_access.then(|| Arc::new(AccessLog::default()));
        if let Some(log) = &accesses {
            builder = builder.recorder(Arc::clone(log));
        }
        let server = builder
            .webhook_client(Webhooks::new(self.services.clone(), self.webhooks))
            .api_service_client(self.api_servers.clone())
            .environment(Arc::clone(&self.clock))
            .token(self.token.clone(), User::admin())
            .without_credentials(User::anonymous())
            .connector(SimulatedContainers)
            .build();
        let has_workloads = self.options.is_some();
        if self.metrics || has_workloads {
            let clock: Arc<dyn Environment> = Arc::<SteppedEnvironment>::clone(&self.clock);
            let metrics = MetricsServer::new(server.store().clone(), clock, self.metrics, has_workloads);
            self.api_servers.serve_metrics(metrics);
        }
        (server, accesses)
    }

    /// Starts the background tasks of the server and its workloads.
    pub(crate) fn start(
        self,
        runtime: &Handle,
        server: Server,
        accesses: Option<Arc<AccessLog>>,
        listener: Option<Listener>,
    ) -> Cluster {
        let mut tasks = vec![
            runtime.spawn(server.clone().expire_events()),
            runtime.spawn(server.clone().check_api_services()),
        ];
        let (activity, address) = (Activity::new(), listener.as_ref().map(|listener| listener.address));
        if let Some(listener) = listener {
            tasks.push(runtime.spawn(listener.serve(server.service(), activity.clone())));
        }
        let workloads = self.options.map(|options| {
            let handle = LoopHandle::new();
            let watcher = control_loop::Actor::ControllerManager.user();
            let config = control_loop::LoopConfig {
                server: UserService::unrestricted(server.service(), watcher),
                options: Arc::clone(&options),
                clock: Arc::clone(&self.clock),
                saved: self.saved,
            };
            tasks.push(runtime.spawn(control_loop::run(config, server.clone(), handle.clone()).boxed()));
            (options, handle)
        });
        Cluster {
            inner: Arc::new(Inner {
                server,
                environment: Arc::<SteppedEnvironment>::clone(&self.clock),
                clock: self.clock,
                authority: self.authority,
                token: self.token,
                services: self.services,
                api_servers: self.api_servers,
                webhooks: self.webhooks,
                metrics: self.metrics,
                accesses,
                address,
                activity,
                workloads,
                tasks,
            }),
        }
    }
}
