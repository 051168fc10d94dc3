//! The cluster behind a test environment.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, DynamicObject},
};
use steersman_cluster::{Cluster, User};

use crate::{
    environment::Environment,
    error::{Error, Result},
};

/// Environment of an embedded cluster: its clock, and random numbers that repeat if it is seeded.
#[derive(Debug)]
pub(super) struct ClusterEnvironment {
    cluster: Arc<dyn Environment>,
    generator: Mutex<fastrand::Rng>,
}

impl Environment for ClusterEnvironment {
    fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    fn random(&self) -> u64 {
        self.generator.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }
}

/// The embedded cluster, or an external one.
pub(super) enum Backend {
    Embedded(Cluster),
    External(Box<External>),
}

/// A namespace of its own in an external cluster, deleted at the end.
pub(super) struct External {
    config: Config,
    client: Client,
    /// Cluster-scoped objects that tests created, deleted at the end as well.
    created: Mutex<Vec<(ApiResource, String)>>,
}

impl Backend {
    /// Returns a client with administrator rights.
    pub(super) fn client(&self) -> Client {
        match self {
            Self::Embedded(cluster) => cluster.client(),
            Self::External(outside) => outside.client.clone(),
        }
    }

    /// Returns the operators' source of time and randomness. `None`: the machine's.
    pub(super) fn environment(&self) -> Option<ClusterEnvironment> {
        let Self::Embedded(cluster) = self else { return None };
        let cluster = Arc::clone(cluster.environment());
        let generator = Mutex::new(fastrand::Rng::with_seed(cluster.random()));
        Some(ClusterEnvironment { cluster, generator })
    }

    /// Returns a client of a service account in the environment's namespace.
    pub(super) fn client_as(&self, account: &str) -> Result<Client> {
        match self {
            Self::Embedded(cluster) => Ok(cluster.client_as(User::service_account("default", account))),
            Self::External(outside) => {
                let mut config = outside.config.clone();
                let namespace = &config.default_namespace;
                config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:{account}"));
                config.auth_info.impersonate_groups = Some(vec![
                    "system:serviceaccounts".into(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".into(),
                ]);
                Ok(Client::try_from(config)?)
            }
        }
    }

    /// How long nothing may happen before it counts as quiet. Embedded workloads report when they are done.
    pub(super) fn quiet_period(&self) -> Duration {
        match self {
            Self::Embedded(_) => Duration::from_millis(100),
            Self::External(_) => Duration::from_millis(1500),
        }
    }

    /// Timeout of a wait.
    pub(super) fn wait_timeout(&self) -> Duration {
        match self {
            Self::Embedded(_) => Duration::from_secs(30),
            Self::External(_) => Duration::from_secs(120),
        }
    }
}

impl External {
    /// Creates a namespace in the cluster of a kubeconfig.
    pub(super) async fn start(kubeconfig: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).map_err(|error| Error::Config(error.to_string()))?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(|error| Error::Config(error.to_string()))?;
        let client = Client::try_from(config.clone())?;
        let mut wanted = Namespace::default();
        wanted.metadata.generate_name = Some("steersman-test-".into());
        let made = Api::<Namespace>::all(client).create(&PostParams::default(), &wanted).await?;
        config.default_namespace = made.metadata.name.unwrap_or_default();
        let client = Client::try_from(config.clone())?;
        let outside = Self { config, client, created: Mutex::default() };
        outside.wait_for_default_account().await?;
        Ok(outside)
    }

    /// Records a cluster-scoped object, to be deleted at the end.
    pub(super) fn note_created(&self, resource: ApiResource, name: String) {
        self.created.lock().unwrap_or_else(PoisonError::into_inner).push((resource, name));
    }

    /// Waits until the namespace accepts pods, which need its default service account.
    async fn wait_for_default_account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client.clone());
        for _ in 0..100 {
            if accounts.get_opt("default").await?.is_some() {
                break;
            }
            // A cluster without a controller manager creates no service account, and runs no pods either.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let config = self.config.clone();
        let created = std::mem::take(self.created.get_mut().unwrap_or_else(PoisonError::into_inner));
        // The test's own runtime may be about to end, so this uses another one, on its own thread.
        let cleanup = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let namespace = config.default_namespace.clone();
                let client = Client::try_from(config).ok()?;
                for (resource, name) in created {
                    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
                    let _ = api.delete(&name, &DeleteParams::background()).await;
                }
                let api: Api<Namespace> = Api::all(client);
                api.delete(&namespace, &DeleteParams::background()).await.ok()
            })
        });
        // Leftovers can be recognized by the name of their namespace.
        let _ = cleanup.join();
    }
}
