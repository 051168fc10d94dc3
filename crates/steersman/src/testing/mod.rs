//! Test environment: an operator in the process, on an embedded cluster.
//!
//! With [`KUBECONFIG`] set, [`TestEnv::start`] uses the cluster that it names instead, so that one suite runs on both.
//! Each environment then has a namespace of its own, and its operators watch only that one. Suites whose tests install
//! and remove CRDs need `--test-threads 1` there.

mod backend;
mod review;
mod traffic;

use std::{fmt::Debug, path::Path};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, ClusterResourceScope, DynamicObject, GroupVersionKind, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
pub use steersman_cluster::Cluster;
use steersman_watcher::watch_object;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

pub use self::review::{convert, review};
use self::{
    backend::{Backend, External},
    traffic::Traffic,
};
use crate::{
    error::{Error, Result},
    kind::{Kind, Object},
    operator::Operator,
    privilege::Requests,
};

/// Environment variable with the kubeconfig of a cluster to run tests on, instead of the embedded one.
pub const KUBECONFIG: &str = "STEERSMAN_TEST_KUBECONFIG";

/// A cluster and the operators that run on it. Everything stops when it is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use serde_json::json;
/// # use steersman::{Action, Context, Controller, Operator, testing::{TestEnv, object}};
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> steersman::Result<Action> {
///     ctx.apply(object::<Secret>(json!({"metadata": {"name": ctx.name()}}))).await?;
///     Ok(Action::await_change())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> steersman::Result<()> {
/// let mut env = TestEnv::start().await?;
/// let controller = Controller::of_existing::<ConfigMap>(reconcile).labels("secret=yes").owns::<Secret>();
/// env.deploy(Operator::new("secrets").controller(controller)).await?;
/// env.create(&object::<ConfigMap>(json!({"metadata": {"name": "one", "labels": {"secret": "yes"}}}))).await?;
/// env.wait("one", |secret: Option<&Secret>| secret.is_some()).await?;
/// # Ok(())
/// # }
/// ```
pub struct TestEnv {
    backend: Backend,
    traffic: Traffic,
    running: Vec<Running>,
    /// The error of the first operator that failed.
    failure: watch::Sender<Option<String>>,
}

/// Scope of a kind that is known at compile time: namespaced or cluster-scoped.
pub trait TestScope: sealed::Sealed {
    /// Returns the API of a kind, in the client's namespace or cluster-scoped.
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client) -> Api<K>;

    /// Whether objects are namespaced.
    const NAMESPACED: bool;
}

impl TestScope for NamespaceResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client) -> Api<K> {
        Api::default_namespaced(client)
    }

    const NAMESPACED: bool = true;
}

impl TestScope for ClusterResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client) -> Api<K> {
        Api::all(client)
    }

    const NAMESPACED: bool = false;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::NamespaceResourceScope {}
    impl Sealed for super::ClusterResourceScope {}
}

/// A running operator: dropping the sender stops it.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

impl TestEnv {
    /// Starts a default embedded cluster, or creates a namespace in the cluster that [`KUBECONFIG`] names.
    ///
    /// # Errors
    /// Fails if the cluster can't be started or reached.
    pub async fn start() -> Result<Self> {
        match std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty()) {
            Some(path) => Self::outside(Path::new(&path)).await,
            None => Ok(Self::on(Cluster::start().await.map_err(Error::other)?)),
        }
    }

    /// Uses an embedded cluster with other settings.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use steersman::testing::TestEnv;
    ///
    /// let cluster = steersman_cluster::Cluster::builder().nodes(3).seed(1).start().await?;
    /// let env = TestEnv::on(cluster);
    /// # let _ = env;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on(cluster: Cluster) -> Self {
        Self::new(Backend::Embedded(cluster))
    }

    /// Uses an external cluster, in a namespace that is created for it and deleted at the end. The kubeconfig's user must
    /// be an administrator.
    ///
    /// # Errors
    /// Fails if the cluster can't be reached.
    pub async fn outside(kubeconfig: impl AsRef<Path>) -> Result<Self> {
        let outside = External::start(kubeconfig.as_ref()).await?;
        Ok(Self::new(Backend::External(Box::new(outside))))
    }

    fn new(backend: Backend) -> Self {
        Self { backend, traffic: Traffic::default(), running: Vec::new(), failure: watch::Sender::new(None) }
    }

    /// Returns the embedded cluster; `None` if it is an external one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.backend {
            Backend::Embedded(cluster) => Some(cluster),
            Backend::External(_) => None,
        }
    }

    /// Returns a client with administrator rights, for the environment's namespace by default. In the embedded cluster
    /// that is `default`.
    #[must_use]
    pub fn client(&self) -> Client {
        self.backend.client()
    }

    /// Returns the API of a kind, in the environment's namespace or cluster-scoped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> steersman::Result<()> {
    /// use k8s_openapi::api::core::v1::{ConfigMap, Node};
    /// use steersman::testing::TestEnv;
    ///
    /// let env = TestEnv::start().await?;
    /// let map = env.api::<ConfigMap>().get_opt("settings").await?;
    /// let nodes = env.api::<Node>().list(&Default::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: TestScope,
    {
        K::Scope::api(self.client())
    }

    /// Installs a CRD and waits until its objects are served.
    ///
    /// # Errors
    /// Fails if the API server refuses it, or does not serve its objects in time.
    pub async fn install(&self, crd: &CustomResourceDefinition) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let params = PatchParams::apply("steersman-testing").force();
        api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await?;
        self.wait_in(api, &crd.name_any(), |crd: Option<&CustomResourceDefinition>| {
            let conditions = crd.and_then(|crd| crd.status.as_ref()?.conditions.as_ref());
            conditions
                .is_some_and(|all| all.iter().any(|one| one.type_ == "Established" && one.status == "True"))
        })
        .await?;
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            let gvk = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
            let objects: Api<DynamicObject> = Api::all_with(self.client(), &resource);
            // A real API server serves the kind only a moment after it says so.
            let start = Instant::now();
            while let Err(kube::Error::Api(status)) = objects.list(&ListParams::default().limit(1)).await
                && status.code == 404
            {
                if start.elapsed() > self.backend.wait_timeout() {
                    return Err(kube::Error::Api(status).into());
                }
                tokio::time::sleep(self.backend.quiet_period() / 10).await;
            }
        }
        Ok(())
    }

    /// Removes a CRD with all of its objects, if it exists, and waits until it is gone.
    ///
    /// # Errors
    /// Fails if the API server refuses.
    pub async fn uninstall(&self, crd: &CustomResourceDefinition) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        if api.get_opt(&crd.name_any()).await?.is_none() {
            return Ok(());
        }
        api.delete(&crd.name_any(), &DeleteParams::default()).await?;
        self.wait_in(api, &crd.name_any(), |crd: Option<&CustomResourceDefinition>| crd.is_none()).await?;
        Ok(())
    }

    /// Runs an operator as in a cluster: with its CRDs installed, and only the permissions of its role. If it serves
    /// webhooks ([`Operator::webhook_address`]), their configurations are installed too, and the webhooks are ready
    /// when this returns. It runs until [`TestEnv::stop`] or until the environment is dropped.
    ///
    /// # Errors
    /// Fails if the API server refuses a CRD, the role or a configuration.
    pub async fn deploy(&mut self, operator: Operator) -> Result<()> {
        let operator = self.confine(operator);
        self.install_operator(&operator).await?;
        let client = self.client_for(&operator)?;
        let declarations = operator.declarations();
        let namespace = client.default_namespace().to_owned();
        let serves = declarations.serves_webhooks;
        if let Backend::External(_) = self.backend {
            // On a real API server a new role takes effect a moment later.
            let start = Instant::now();
            while !operator.doctor(&client).await?.is_empty()
                && start.elapsed() < self.backend.wait_timeout() / 4
            {
                tokio::time::sleep(self.backend.quiet_period() / 10).await;
            }
        }
        let configurations = if serves && declarations.own_certificate {
            declarations.webhook_configurations(&namespace)
        } else {
            Vec::new()
        };
        self.spawn(operator, client);
        for (kind, object) in configurations {
            let api: Api<DynamicObject> = Api::all_with(self.client(), kind.resource());
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            self.wait_in(api, name, |live| {
                live.is_some_and(|live| live.data.to_string().contains("caBundle"))
            })
            .await?;
        }
        Ok(())
    }

    /// Installs what an operator declares, without running it. That is its CRDs, its role and, if it serves webhooks,
    /// their configurations.
    ///
    /// # Errors
    /// Fails if the API server refuses a CRD, the role or a configuration.
    pub async fn install_operator(&self, operator: &Operator) -> Result<()> {
        let client = self.client();
        let namespace = client.default_namespace().to_owned();
        let declarations = operator.declarations();
        let serves = declarations.serves_webhooks;
        if serves {
            for crd in declarations.converting_crds(&namespace)? {
                self.install(&serde_json::from_value(crd).map_err(Error::other)?).await?;
            }
        } else {
            for crd in declarations.crds() {
                self.install(&crd).await?;
            }
        }
        let params = PatchParams::apply("steersman-testing").force();
        let webhooks = if serves { declarations.webhook_manifests(&namespace) } else { Vec::new() };
        for object in declarations.rbac(&namespace).into_iter().chain(webhooks) {
            let object: DynamicObject = serde_json::from_value(object).map_err(Error::other)?;
            let types = object.types.clone().unwrap_or_default();
            let gvk = GroupVersionKind::try_from(&types).map_err(Error::other)?;
            let resource = ApiResource::from_gvk(&gvk);
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await?;
        }
        Ok(())
    }

    /// Returns a client with the permissions of an operator's role only.
    ///
    /// # Errors
    /// Fails if the client of an external cluster can't be created.
    pub fn client_for(&self, operator: &Operator) -> Result<Client> {
        self.backend.client_as(operator.name())
    }

    /// Runs an operator with administrator rights until [`TestEnv::stop`], or until this is dropped. Its CRDs must be
    /// installed already.
    pub fn run(&mut self, operator: Operator) {
        let operator = self.confine(operator);
        let client = self.client();
        self.spawn(operator, client);
    }

    /// Binds an operator to this environment. On the embedded cluster it gets the cluster's clock, unless it has an
    /// environment of its own; on an external one it watches only this namespace, since other tests run their
    /// operators at the same time.
    pub fn confine(&self, operator: Operator) -> Operator {
        let operator = match self.backend.environment() {
            Some(environment) => operator.default_environment(environment),
            None => operator,
        };
        match &self.backend {
            Backend::External(_) if operator.is_cluster_wide() => {
                operator.namespaces([self.client().default_namespace()])
            }
            _ => operator,
        }
    }

    fn spawn(&mut self, operator: Operator, client: Client) {
        let (stop, stopped) = oneshot::channel::<()>();
        let client = self.traffic.wrap(client);
        let failure = self.failure.clone();
        let task = tokio::spawn(async move {
            let stopped = async {
                // Dropping the sender stops the operator as well.
                let _ = stopped.await;
            };
            operator.run_until(client, stopped).await.inspect_err(|error| {
                failure.send_modify(|failure| {
                    failure.get_or_insert_with(|| error.to_string());
                });
            })
        });
        self.running.push(Running { stop: Some(stop), task });
    }

    /// Stops the operators as a signal would, and returns their result.
    ///
    /// # Errors
    /// Fails with the error of the first operator that failed.
    pub async fn stop(&mut self) -> Result<()> {
        for Running { stop, task } in &mut self.running {
            drop(stop.take());
            task.await.map_err(Error::other)??;
        }
        self.running.clear();
        Ok(())
    }

    /// Creates an object, in the environment's namespace or cluster-scoped. On an external cluster it is deleted at
    /// the end.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub async fn create<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
        K::Scope: TestScope,
    {
        let created = self.api::<K>().create(&PostParams::default(), object).await?;
        if let Backend::External(outside) = &self.backend
            && !K::Scope::NAMESPACED
        {
            outside.note_created(ApiResource::erase::<K>(&()), created.name_any());
        }
        Ok(created)
    }

    /// Patches an object by a merge patch, in the environment's namespace or cluster-scoped.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub async fn patch<K>(&self, name: &str, patch: Value) -> Result<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: TestScope,
    {
        Ok(self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Deletes an object, in the environment's namespace or cluster-scoped.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: TestScope,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an object meets a condition, in the environment's namespace or cluster-scoped. The function is called
    /// with each state, and with `None` while the object does not exist; nothing sleeps unless the watch fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> steersman::Result<()> {
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// use steersman::testing::TestEnv;
    ///
    /// let env = TestEnv::start().await?;
    /// env.wait("default", |account: Option<&ServiceAccount>| account.is_some()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails with the last state after 30 seconds, or two minutes on an external cluster.
    pub async fn wait<K>(&self, name: &str, is: impl Fn(Option<&K>) -> bool) -> Result<Option<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
        K::Scope: TestScope,
    {
        self.wait_in(self.api::<K>(), name, is).await
    }

    /// As [`TestEnv::wait`], for objects of any API.
    ///
    /// # Errors
    /// Fails with the last state after 30 seconds, or two minutes on an external cluster.
    pub async fn wait_in<K>(
        &self,
        api: Api<K>,
        name: &str,
        is: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>>
    where
        K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
    {
        let (mut last, mut trouble) = (None, String::new());
        let states = watch_object(api, name);
        pin_mut!(states);
        let waiting = async {
            while let Some(state) = states.next().await {
                let state = match state {
                    Ok(state) => state,
                    Err(error) => {
                        trouble = format!("; the last watch failed: {error}");
                        // The stream reconnects as soon as it is polled.
                        tokio::time::sleep(self.backend.quiet_period()).await;
                        continue;
                    }
                };
                trouble.clear();
                let found = is(state.as_ref());
                last = state;
                if found {
                    return true;
                }
            }
            false
        };
        let timeout = self.backend.wait_timeout();
        let mut failures = self.failure.subscribe();
        let failed = failures.wait_for(Option::is_some);
        tokio::select! {
            biased;
            true = waiting => return Ok(last),
            Ok(failure) = failed => {
                let failure = failure.as_deref().unwrap_or_default();
                return Err(Error::other(format!("an operator failed while waiting for {name}: {failure}")));
            }
            () = tokio::time::sleep(timeout) => {}
        }
        Err(Error::other(format!("timed out after {timeout:?} waiting for {name}; it is {last:#?}{trouble}")))
    }

    /// Waits until nothing passes between the operators and the API server for a while. On the embedded cluster,
    /// nothing may change either.
    ///
    /// # Panics
    /// Panics if that takes more than 30 seconds, or two minutes on an external cluster.
    pub async fn quiet(&self) {
        let timeout = self.backend.wait_timeout();
        let quiet = tokio::time::timeout(timeout, self.wait_until_quiet()).await;
        #[expect(clippy::panic, reason = "a test ends here")]
        quiet.unwrap_or_else(|_| panic!("timed out after {timeout:?}: the operators did not become idle"));
    }

    async fn wait_until_quiet(&self) {
        let mut before = (self.traffic.passed(), self.revision());
        loop {
            if let Backend::Embedded(cluster) = &self.backend {
                cluster.settled().await;
            }
            tokio::time::sleep(self.backend.quiet_period()).await;
            let now = (self.traffic.passed(), self.revision());
            if now == before && now.0.is_some() {
                return;
            }
            before = now;
        }
    }

    /// Number of writes that the operators have sent so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.traffic.writes()
    }

    /// Returns the requests that the operators have made so far, for [`Operator::least_privilege`].
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.traffic.requests()
    }

    /// Revision of the embedded cluster's store, which grows with every write of any client.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        self.cluster().map(|cluster| cluster.server().store().revision())
    }
}

/// Builds an object from JSON, which is the shortest way to write one in a test.
///
/// # Panics
/// Panics if the JSON does not match the type.
#[must_use]
pub fn object<K: DeserializeOwned>(json: Value) -> K {
    #[expect(clippy::panic, reason = "a test ends here")]
    serde_json::from_value(json).unwrap_or_else(|error| panic!("the JSON does not match the type: {error}"))
}

/// Builds an object of a kind that is known at run time.
///
/// # Panics
/// As [`object`].
#[must_use]
pub fn dynamic(json: Value) -> DynamicObject {
    object(json)
}

/// Compares a file with the output of the operator's command `manifests`, to keep the two in step. With
/// `UPDATE_MANIFESTS` set it writes the file instead.
///
/// # Errors
/// Fails if the file differs.
pub fn manifests_match(operator: &Operator, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let expected = operator.manifests("default", "controller:latest")?;
    if std::env::var_os("UPDATE_MANIFESTS").is_some() {
        return std::fs::write(path, expected).map_err(Error::other);
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(Error::other(format!("{} is stale: run the tests with UPDATE_MANIFESTS=1", path.display())))
}
