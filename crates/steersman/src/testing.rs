//! The test door: an operator in the process, on the embedded cluster.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, NamespaceResourceScope},
    runtime::watcher,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
pub use steersman_cluster::Cluster;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    error::{Error, Result},
    kind::{Kind, Object},
    operator::Operator,
};

/// How long [`TestEnv::wait`] waits at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// An embedded cluster and the operators that run on it. Everything ends when it is dropped.
pub struct TestEnv {
    cluster: Cluster,
    running: Vec<Running>,
}

/// An operator: dropping the sender stops it.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

impl TestEnv {
    /// Starts a cluster with everything at its default.
    ///
    /// # Errors
    /// Fails if the cluster can't be started.
    pub async fn start() -> Result<Self> {
        Ok(Self::on(Cluster::start().await.map_err(Error::other)?))
    }

    /// Uses a cluster that is described otherwise.
    #[must_use]
    pub fn on(cluster: Cluster) -> Self {
        Self { cluster, running: Vec::new() }
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client of the administrator.
    #[must_use]
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// The objects of a kind in the namespace `default`.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client())
    }

    /// Installs a CRD and waits until it is served.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
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
        Ok(())
    }

    /// Runs an operator until [`TestEnv::stop`] or the end.
    pub fn run(&mut self, operator: Operator) {
        let (stop, stopped) = oneshot::channel::<()>();
        let client = self.client();
        let task = tokio::spawn(operator.run_until(client, async move {
            // Dropping the sender stops the operator as well.
            let _ = stopped.await;
        }));
        self.running.push(Running { stop: Some(stop), task });
    }

    /// Stops the operators as a signal would, and returns what they ended with.
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

    /// Creates an object in the namespace `default`.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub async fn create<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        Ok(self.api::<K>().create(&PostParams::default(), object).await?)
    }

    /// Changes an object in the namespace `default` by a merge patch.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub async fn patch<K>(&self, name: &str, patch: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        Ok(self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Deletes an object in the namespace `default`.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an object in the namespace `default` is as a function wants it. The function is asked for each state,
    /// and with `None` while there is no such object; nothing sleeps.
    ///
    /// # Errors
    /// Fails with the last state after half a minute.
    pub async fn wait<K>(&self, name: &str, is: impl Fn(Option<&K>) -> bool) -> Result<Option<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + 'static,
    {
        self.wait_in(self.api::<K>(), name, is).await
    }

    /// As [`TestEnv::wait`], for objects anywhere.
    ///
    /// # Errors
    /// Fails with the last state after half a minute.
    pub async fn wait_in<K>(
        &self,
        api: Api<K>,
        name: &str,
        is: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>>
    where
        K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
    {
        let mut last = None;
        let states = watcher::watch_object(api, name);
        pin_mut!(states);
        let waiting = async {
            while let Some(state) = states.next().await {
                let Ok(state) = state else { continue };
                let found = is(state.as_ref());
                last = state;
                if found {
                    return true;
                }
            }
            false
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(true) => Ok(last),
            _ => Err(Error::other(format!("waited {PATIENCE:?} in vain for {name}; it is {last:#?}"))),
        }
    }

    /// Waits until the cluster is quiet: no object changes for a while.
    pub async fn quiet(&self) {
        let store = self.cluster.server().store();
        let mut revision = store.revision();
        loop {
            self.cluster.settled().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = store.revision();
            if now == revision {
                return;
            }
            revision = now;
        }
    }

    /// The revision of the cluster's store: it grows with every write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.cluster.server().store().revision()
    }
}

/// Reads an object from JSON: in tests it is the shortest way to write one down.
///
/// # Panics
/// Panics if the JSON is not such an object.
#[must_use]
pub fn object<K: DeserializeOwned>(json: Value) -> K {
    #[expect(clippy::panic, reason = "a test ends here")]
    serde_json::from_value(json).unwrap_or_else(|error| panic!("not such an object: {error}"))
}

/// An object of a kind that is known at run time.
///
/// # Panics
/// As [`object`].
#[must_use]
pub fn dynamic(json: Value) -> DynamicObject {
    object(json)
}

/// Asks an operator's webhook (`mutate` or `validate`) about an object, without a server: a creation if there is no old
/// state, a deletion if there is no new one. Returns the object as it would be stored.
///
/// # Errors
/// With the webhook's words if it denies.
pub fn review<K: Object>(
    operator: &Operator,
    verb: &str,
    old: Option<&K>,
    new: Option<&K>,
) -> std::result::Result<K, String> {
    let resource = Kind::of::<K>().resource().clone();
    let path = format!(
        "/{verb}-{}-{}-{}",
        resource.group.replace('.', "-"),
        resource.version,
        resource.kind.to_lowercase()
    );
    let operation = match (old, new) {
        (None, _) => "CREATE",
        (Some(_), Some(_)) => "UPDATE",
        (Some(_), None) => "DELETE",
    };
    let request = json!({"uid": "test", "operation": operation, "object": new, "oldObject": old});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer =
        operator.webhooks().answer(&path, &review).ok_or_else(|| format!("there is no webhook {path}"))?;
    let response = &answer["response"];
    if response["allowed"] != true {
        return Err(response["status"]["message"].as_str().unwrap_or_default().to_owned());
    }
    let mut object = json!(new.or(old));
    if let Some(patch) = response["patch"].as_str() {
        apply_patch(&mut object, patch)?;
    }
    serde_json::from_value(object).map_err(|error| error.to_string())
}

/// Applies what the webhooks send: additions and removals of fields.
fn apply_patch(object: &mut Value, patch: &str) -> std::result::Result<(), String> {
    use base64::Engine as _;
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).map_err(|error| error.to_string())?;
    let steps: Vec<Value> = serde_json::from_slice(&patch).map_err(|error| error.to_string())?;
    for step in steps {
        let path = step["path"].as_str().unwrap_or_default();
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let name = name.replace("~1", "/").replace("~0", "~");
        let fields = object.pointer_mut(parent).and_then(Value::as_object_mut);
        let fields = fields.ok_or_else(|| format!("there is no {parent} to patch"))?;
        match step.get("value") {
            Some(value) => drop(fields.insert(name, value.clone())),
            None => drop(fields.remove(&name)),
        }
    }
    Ok(())
}

/// Asks an operator to convert an object to another version, without a server.
///
/// # Errors
/// With the operator's words if it can't.
pub fn convert<A: Object, B: Object>(operator: &Operator, object: &A) -> std::result::Result<B, String> {
    let desired = B::api_version(&());
    let request = json!({"uid": "test", "desiredAPIVersion": desired, "objects": [object]});
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let answer = operator.webhooks().answer("/convert", &review).ok_or("nothing is converted")?;
    let response = &answer["response"];
    if response["result"]["status"] != "Success" {
        return Err(response["result"]["message"].as_str().unwrap_or_default().to_owned());
    }
    serde_json::from_value(response["convertedObjects"][0].clone()).map_err(|error| error.to_string())
}

/// Compares a file with what the operator's command `manifests` prints, so that the two can't drift apart. With
/// `UPDATE_MANIFESTS=1` in the environment it writes the file instead.
///
/// # Errors
/// Fails if the file is another one.
pub fn manifests_match(operator: &Operator, path: impl AsRef<std::path::Path>) -> Result<()> {
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
