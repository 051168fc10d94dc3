//! The client: installs, updates, upgrades and uninstalls instances, starts plans, and waits for them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_chart::System;
use steersman_kudo::{
    ExecutionStatus, Instance, InstanceSpec, Operator, OperatorVersion, Package, PlanExecution, PlanStatus,
    Renderer, admission, annotation, crds, parameters,
};

use crate::admission::{SERVICE, WEBHOOK_PATH, uid};
use crate::apply::MANAGER;
use crate::error::{Error, Result};

/// The timeout for a new kind to be served.
const SERVED: Duration = Duration::from_secs(60);

/// Whether to wait for a plan, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Does not wait.
    No,
    /// Waits at most this long.
    For(Duration),
}

/// A client for one namespace.
#[derive(Clone)]
pub struct Kudo {
    client: Client,
    namespace: String,
}

impl std::fmt::Debug for Kudo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kudo").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Kudo {
    /// Creates a client for a namespace.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into() }
    }

    /// Returns the underlying client.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns an [`Api`] for a kind in the namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Installs the CustomResourceDefinitions, and waits until their kinds are served.
    ///
    /// # Errors
    /// Fails if the API server rejects them, or does not serve them within a minute.
    pub fn init(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            let params = PatchParams::apply(MANAGER).force();
            for crd in crds() {
                let name = crd.metadata.name.clone().unwrap_or_default();
                api.patch(&name, &params, &Patch::Apply(&crd)).await.map_err(Error::kube(name))?;
            }
            // An established definition is served.
            for crd in crds() {
                let name = crd.metadata.name.unwrap_or_default();
                let is_served = |crd: Option<CustomResourceDefinition>| {
                    let status = crd?.status?;
                    let conditions = status.conditions.unwrap_or_default();
                    conditions
                        .iter()
                        .any(|one| one.type_ == "Established" && one.status == "True")
                        .then_some(())
                };
                let found = until(&api, &name, SERVED, is_served).await?;
                found.ok_or_else(|| Error::Refused(format!("{name} is not established after {SERVED:?}")))?;
            }
            Ok(())
        })
    }

    /// Checks that the CustomResourceDefinitions are installed.
    ///
    /// # Errors
    /// Fails with the first one that is missing.
    pub async fn verify(&self) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in crds() {
            let name = crd.metadata.name.unwrap_or_default();
            if api.get_opt(&name).await.map_err(Error::kube(name.clone()))?.is_none() {
                return Err(Error::Refused(format!("CRD {name} is not installed")));
            }
        }
        Ok(())
    }

    /// Registers the admission webhook for instances, at a service in a namespace.
    ///
    /// # Errors
    /// Fails if the API server rejects it.
    pub async fn register_webhook(&self, namespace: &str) -> Result<()> {
        use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
        let configuration = steersman_kudo::webhook_configuration(namespace, SERVICE, WEBHOOK_PATH);
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(&configuration)).await.map_err(Error::kube(name))?;
        Ok(())
    }

    /// Creates the namespace, from the package's manifest if it has one.
    ///
    /// # Errors
    /// Fails if the namespace already exists, as in KUDO, or the manifest does not render.
    pub fn create_namespace<'a>(
        &'a self,
        package: &'a Package,
        instance: &'a str,
        values: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let name = &self.namespace;
            let mut object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            let file = &package.operator.namespace_manifest;
            if !file.is_empty() {
                let Some(template) = package.templates.get(file) else {
                    return Err(Error::Refused(format!("namespaceManifest: templates/{file} not found")));
                };
                let version = package.operator_version(name)?;
                let of = package.instance(name, Some(instance), values.clone());
                let variables = json!({
                    "Name": instance, "Namespace": name, "OperatorName": package.operator.name,
                    "OperatorVersion": package.operator.operator_version, "AppVersion": package.operator.app_version,
                    "Params": parameters::resolve(&version.spec, &of.spec)?,
                });
                let text = Renderer::new(System::default())
                    .render(file, template, &variables)
                    .map_err(Error::Refused)?;
                object = steersman_yaml::from_str(&text)
                    .map_err(|error| Error::Refused(format!("{file}: {error}")))?;
                object["metadata"]["name"] = name.as_str().into();
            }
            object["metadata"]["annotations"]["created-by"] = "kudo-cli".into();
            let namespace: Namespace =
                serde_json::from_value(object).map_err(|error| Error::Refused(format!("{file}: {error}")))?;
            let api: Api<Namespace> = Api::all(self.client.clone());
            api.create(&PostParams::default(), &namespace)
                .await
                .map_err(Error::kube(format!("namespace {name}")))?;
            Ok(())
        })
    }

    /// Creates the Operators and OperatorVersions of packages in the namespace, unless they exist.
    ///
    /// # Errors
    /// Fails if the API server rejects them, or an operator version of that name has different content.
    pub fn install_packages<'a>(&'a self, packages: &'a [Package]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            let mut said = Vec::new();
            for package in packages.iter().rev() {
                let operator = package.operator(&self.namespace);
                if self.create_unless_there(operator.name(), &operator).await? {
                    said.push(format!("operator {}/{} created", self.namespace, operator.name()));
                }
                let version = package.operator_version(&self.namespace)?;
                let done = if self.create_unless_there(version.name(), &version).await? {
                    "created"
                } else {
                    "already installed"
                };
                said.push(format!("operatorversion {}/{} {done}", self.namespace, version.name()));
            }
            Ok(said)
        })
    }

    async fn create_unless_there<K>(&self, name: &str, object: &K) -> Result<bool>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        match self.api::<K>().create(&PostParams::default(), object).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(Error::kube(format!("failed to install {} {name}", K::kind(&())))(error)),
        }
    }

    /// Installs packages, and creates an instance of the first one. Returns messages about what was done.
    ///
    /// # Errors
    /// Fails if the instance already exists, or the API server rejects an object.
    pub async fn install(
        &self,
        packages: &[Package],
        instance: Option<&str>,
        values: BTreeMap<String, String>,
    ) -> Result<Vec<String>> {
        let Some(package) = packages.first() else { return Ok(Vec::new()) };
        let (instance, _) = self.new_instance(package, instance, values).await?;
        let name = instance.name();
        let mut said = self.install_packages(packages).await?;
        let created = self.api::<Instance>().create(&PostParams::default(), &instance).await;
        created.map_err(Error::kube(format!("failed to install instance {}/{name}", self.namespace)))?;
        said.push(format!("instance {}/{name} created", self.namespace));
        Ok(said)
    }

    /// Returns an instance that passes admission, and its operator version.
    pub(crate) fn new_instance<'a>(
        &'a self,
        package: &'a Package,
        instance: Option<&'a str>,
        values: BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<(Instance, OperatorVersion)>> {
        Box::pin(async move {
            check_kubernetes(&self.client, package).await?;
            let instance = package.instance(&self.namespace, instance, values);
            let name = instance.name();
            let version = package.operator_version(&self.namespace)?;
            check_required(&version, &instance)?;
            if self.instance_opt(name).await?.is_some() {
                return Err(Error::Refused(format!(
                    "cannot install instance '{name}' of operator '{}' because an instance of that name already exists in namespace {}",
                    package.operator.name, self.namespace
                )));
            }
            Ok((instance, version))
        })
    }

    /// Upgrades an instance to the version of the first package.
    ///
    /// # Errors
    /// Fails if there is no such instance, the package's version is not newer, or the update is denied. Nothing is written then.
    pub async fn upgrade(
        &self,
        packages: &[Package],
        instance: &str,
        values: BTreeMap<String, String>,
    ) -> Result<Vec<String>> {
        let Some(package) = packages.first() else { return Ok(Vec::new()) };
        let (changed, version) = self.upgraded(package, instance, &values).await?;
        check_required(&version, &changed)?;
        let mut said = self.install_packages(packages).await?;
        let patch = json!({ "spec": {
            "operatorVersion": { "name": package.version_name() }, "parameters": values,
        } });
        self.patch(instance, &patch).await?;
        said.push(format!("instance {}/{instance} updated", self.namespace));
        Ok(said)
    }

    /// Returns the instance after an upgrade, and its new operator version.
    pub(crate) fn upgraded<'a>(
        &'a self,
        package: &'a Package,
        instance: &'a str,
        values: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<(Instance, OperatorVersion)>> {
        Box::pin(async move {
            check_kubernetes(&self.client, package).await?;
            let live = self.instance(instance).await?;
            let old = self.version_of(&live).await?;
            let new = &package.operator.operator_version;
            if !is_newer(new, &old.spec.version) {
                return Err(Error::Refused(format!(
                    "upgraded version {new} is the same or smaller than current version {} -> not upgrading",
                    old.spec.version
                )));
            }
            let version = package.operator_version(&self.namespace)?;
            let changed = check(&live, &old, &version, |spec| {
                spec.operator_version.name = package.version_name();
                spec.parameters.extend(values.clone());
            })?;
            Ok((changed, version))
        })
    }

    /// Changes parameters of an instance.
    ///
    /// # Errors
    /// Fails if there is no such instance, or the update is denied.
    pub async fn update(&self, instance: &str, values: BTreeMap<String, String>) -> Result<()> {
        let live = self.instance(instance).await?;
        let version = self.version_of(&live).await?;
        check(&live, &version, &version, |spec| spec.parameters.extend(values.clone()))?;
        self.patch(instance, &json!({ "spec": { "parameters": values } })).await
    }

    /// Starts a plan, with parameter values for this run only.
    ///
    /// # Errors
    /// Fails if there is no such instance or plan, another plan is running, or a value is invalid.
    pub async fn trigger(&self, instance: &str, plan: &str, values: BTreeMap<String, String>) -> Result<()> {
        self.schedule(instance, plan, values, "").await
    }

    /// Resumes the plan that failed last at the step that failed.
    ///
    /// # Errors
    /// Fails if there is no such instance, its last plan did not fail, or another plan is running.
    pub async fn retry(&self, instance: &str) -> Result<String> {
        let live = self.instance(instance).await?;
        let last = live.status.last_plan();
        let Some(failed) = last.filter(|plan| plan.status == ExecutionStatus::FatalError) else {
            return Err(Error::Refused(format!("the last plan of instance {instance} did not fail")));
        };
        self.schedule(instance, &failed.name, BTreeMap::new(), &failed.uid).await?;
        Ok(failed.name.clone())
    }

    fn schedule<'a>(
        &'a self,
        instance: &'a str,
        plan: &'a str,
        values: BTreeMap<String, String>,
        retried: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let live = self.instance(instance).await?;
            let version = self.version_of(&live).await?;
            let run =
                PlanExecution { plan_name: plan.to_owned(), uid: uid(), status: None, parameters: values };
            check(&live, &version, &version, |spec| spec.plan_execution = run.clone())?;
            let mut patch = json!({ "spec": { "planExecution": run } });
            if !retried.is_empty() {
                patch["metadata"] = json!({ "annotations": { annotation::RETRY: retried } });
            }
            self.patch(instance, &patch).await
        })
    }

    /// Aborts the running plan: it ends with FATAL_ERROR. After aborting `cleanup`, the instance is deleted.
    ///
    /// # Errors
    /// Fails if there is no such instance, or none of its plans is running.
    pub async fn abort(&self, instance: &str) -> Result<String> {
        let live = self.instance(instance).await?;
        let run = &live.spec.plan_execution;
        if run.plan_name.is_empty() {
            return Err(Error::Refused(format!("no plan of instance {instance} is running")));
        }
        let patch = json!({ "metadata": { "annotations": { annotation::ABORT: run.uid } } });
        self.patch(instance, &patch).await?;
        Ok(run.plan_name.clone())
    }

    /// Deletes an instance, after running its cleanup plan.
    ///
    /// # Errors
    /// Fails if there is no such instance.
    pub async fn uninstall(&self, instance: &str, wait: Wait) -> Result<()> {
        self.instance(instance).await?;
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        let api = self.api::<Instance>();
        api.delete(instance, &params).await.map_err(Error::kube(instance))?;
        let Wait::For(limit) = wait else { return Ok(()) };
        let is_gone = |live: Option<Instance>| live.is_none().then_some(());
        let gone = until(&api, instance, limit, is_gone).await?;
        gone.ok_or_else(|| Error::Refused(format!("instance {instance} still exists after {limit:?}")))
    }

    fn patch<'a>(&'a self, instance: &'a str, patch: &'a Value) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let api = self.api::<Instance>();
            let patched = api.patch(instance, &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.map(drop).map_err(Error::kube(format!("instance {}/{instance}", self.namespace)))
        })
    }

    /// Returns an instance, if it exists.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub fn instance_opt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Instance>>> {
        Box::pin(async move {
            self.api::<Instance>().get_opt(name).await.map_err(Error::kube(format!("instance {name}")))
        })
    }

    /// Returns an instance.
    ///
    /// # Errors
    /// Fails if it does not exist.
    pub fn instance<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Instance>> {
        Box::pin(async move {
            self.instance_opt(name).await?.ok_or_else(|| {
                Error::Refused(format!(
                    "instance {name} in namespace {} does not exist in the cluster",
                    self.namespace
                ))
            })
        })
    }

    /// Returns the operator version of an instance.
    ///
    /// # Errors
    /// Fails if it does not exist.
    pub fn version_of<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<OperatorVersion>> {
        Box::pin(async move {
            let name = &instance.spec.operator_version.name;
            let api: Api<OperatorVersion> =
                Api::namespaced(self.client.clone(), instance.operator_version_namespace());
            let found = api.get_opt(name).await.map_err(Error::kube(format!("OperatorVersion {name}")))?;
            found.ok_or_else(|| {
                Error::Refused(format!(
                    "OperatorVersion {name} from instance {}/{} does not exist",
                    self.namespace,
                    instance.name()
                ))
            })
        })
    }

    /// Lists all objects of a kind, sorted by name.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let list = self.api::<K>().list(&ListParams::default()).await;
        Ok(list.map_err(Error::kube(format!("{}s", K::kind(&()))))?.items)
    }

    /// Lists the operators in the namespace.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub async fn operators(&self) -> Result<Vec<Operator>> {
        self.list().await
    }

    /// Waits until no plan of an instance is scheduled, and returns the one that ran last.
    ///
    /// # Errors
    /// Fails if the plan failed permanently, or has not ended in time.
    pub fn wait<'a>(&'a self, instance: &'a str, limit: Duration) -> BoxFuture<'a, Result<PlanStatus>> {
        Box::pin(async move {
            self.instance(instance).await?;
            let is_over = |live: Option<Instance>| match live {
                None => Some(Err(Error::Refused(format!("instance {instance} was deleted")))),
                Some(live) => ended(&live).map(|plan| Ok(plan.clone())),
            };
            let Some(plan) = until(&self.api::<Instance>(), instance, limit, is_over).await?.transpose()?
            else {
                let plan = self.instance(instance).await?.spec.plan_execution.plan_name;
                return Err(Error::Refused(format!(
                    "plan {plan} of instance {instance} did not finish within {} s",
                    limit.as_secs()
                )));
            };
            if plan.status == ExecutionStatus::FatalError {
                return Err(Error::Refused(format!(
                    "plan {} of instance {instance} ended with {}: {}",
                    plan.name,
                    plan.status.as_str(),
                    plan.messages().join("; ")
                )));
            }
            Ok(plan)
        })
    }
}

/// Watches an object until `answer` returns a value; None on timeout.
async fn until<K, T>(
    api: &Api<K>,
    name: &str,
    limit: Duration,
    mut answer: impl FnMut(Option<K>) -> Option<T>,
) -> Result<Option<T>>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    use steersman_watcher::{self as watcher, WatchStreamExt as _};
    let mut objects = std::pin::pin!(watcher::watch_object(api.clone(), name).default_backoff());
    let watching = async {
        while let Some(event) = objects.next().await {
            match event {
                Ok(object) => {
                    if let Some(answer) = answer(object) {
                        return Ok(Some(answer));
                    }
                }
                // A rejected list is final; anything else is retried.
                Err(watcher::Error::InitialListFailed(error)) if is_refusal(&error) => {
                    return Err(Error::kube(name)(error));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    };
    tokio::time::timeout(limit, watching).await.unwrap_or(Ok(None))
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403))
}

/// Returns the plan that ran last, if none is scheduled.
fn ended(instance: &Instance) -> Option<&PlanStatus> {
    if admission::is_undecided(instance) {
        return None;
    }
    let last = instance.status.last_plan()?;
    let run = &instance.spec.plan_execution;
    let is_over = run.plan_name.is_empty() || (run.uid == last.uid && last.status.is_terminal());
    (is_over && last.status.is_terminal()).then_some(last)
}

/// Returns the instance after a change, admitted as a webhook would: a denied change is not sent.
pub(crate) fn check(
    live: &Instance,
    old: &OperatorVersion,
    new: &OperatorVersion,
    change: impl FnOnce(&mut InstanceSpec),
) -> Result<Instance> {
    let mut changed = live.clone();
    change(&mut changed.spec);
    admission::update(live, &mut changed, old, new, uid)?;
    Ok(changed)
}

pub(crate) fn check_required(version: &OperatorVersion, instance: &Instance) -> Result<()> {
    let missing: Vec<&str> = version
        .spec
        .parameters
        .iter()
        .filter(|one| one.is_required() && parameters::value(&instance.spec, one).is_none())
        .map(|one| one.name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!("missing required parameters during installation: {}", missing.join(","))))
}

async fn check_kubernetes(client: &Client, package: &Package) -> Result<()> {
    let wanted = &package.operator.kubernetes_version;
    if wanted.is_empty() {
        return Ok(());
    }
    let version = client.apiserver_version().await.map_err(Error::kube("the cluster's version"))?;
    let found = version.git_version.trim_start_matches('v');
    if is_newer(wanted.trim_start_matches('v'), found) {
        return Err(Error::Refused(format!(
            "expected kubernetes version of {wanted} is not supported with version: {found}"
        )));
    }
    Ok(())
}

/// Whether one version is newer than another: by numbers, with pre-releases before their release.
fn is_newer(one: &str, other: &str) -> bool {
    fn parts(version: &str) -> (Vec<u64>, bool, &str) {
        let version = version.split('+').next().unwrap_or_default();
        let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
        let mut numbers: Vec<u64> = numbers.split('.').map(|part| part.parse().unwrap_or_default()).collect();
        numbers.resize(3, 0);
        (numbers, pre.is_empty(), pre)
    }
    parts(one) > parts(other)
}
