//! `steer kudo diagnostics`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::json;
use steersman_kudo::{Instance, Operator, OperatorVersion, label};

use super::kudo;
use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::{cluster, namespace};

/// Collect diagnostic data of an instance
#[derive(Args, Debug)]
pub(super) struct DiagnosticsCommand {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Collect(Collect),
}

impl DiagnosticsCommand {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let Commands::Collect(collect) = self.command;
        collect.run(globals, output).await
    }
}

/// Write an instance, its operator, objects and pod logs to a directory
#[derive(Args, Debug)]
#[command(
    after_help = "Secrets are not collected.\n\nExamples:\n  steer kudo diagnostics collect --instance dev\n  steer kudo diagnostics collect --instance dev -O ./diag --log-since 1h"
)]
struct Collect {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Output directory, which must not exist
    #[arg(short = 'O', long, value_name = "DIR", default_value = "diag")]
    output_directory: PathBuf,

    /// Maximum age of collected log lines [default: all]
    #[arg(long, value_name = "DURATION", value_parser = super::super::release::duration)]
    log_since: Option<Duration>,
}

/// Kinds of objects that plans apply, by group, version and plural.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("batch", "v1", "Job", "jobs"),
    ("batch", "v1", "CronJob", "cronjobs"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
];

impl Collect {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let root = &self.output_directory;
        if root.exists() {
            return Err(Failure::new(format!("target directory {} already exists", root.display())));
        }
        let (kudo, client) = (kudo(globals).await?, cluster::client(globals).await?);
        let instance = kudo.instance(&self.instance).await?;
        let version = kudo.version_of(&instance).await?;
        write(root, "version", &json!({ "steer": env!("CARGO_PKG_VERSION") }))?;
        write(root, "settings", &json!({ "namespace": namespace::resolve(globals) }))?;
        let operator_name = &version.spec.operator.name;
        let directory = root.join(format!("operator_{operator_name}"));
        let operators: Vec<Operator> = kudo.list().await?;
        if let Some(operator) = operators.iter().find(|operator| operator.name() == operator_name) {
            write_object(&directory, "operator", operator.name(), operator)?;
        }
        write_object(&directory, &kind::<OperatorVersion>(), version.name(), &version)?;
        let directory = write_object(&directory, &kind::<Instance>(), instance.name(), &instance)?;
        self.objects(&client, instance.namespace(), &directory).await?;
        output.line(format!("collected in {}", root.display()));
        Ok(())
    }

    async fn objects(&self, client: &Client, namespace: &str, directory: &Path) -> Result {
        let params = ListParams::default().labels(&format!("{}={}", label::INSTANCE, self.instance));
        for (group, version, kind, plural) in KINDS {
            let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            let found = match api.list(&params).await {
                Ok(found) => found,
                // One kind that may not be read does not prevent collecting the others.
                Err(error) => {
                    write_text(directory, &format!("{}.err", kind.to_lowercase()), &error.to_string())?;
                    continue;
                }
            };
            for mut object in found {
                object.metadata.managed_fields = None;
                let name = object.metadata.name.clone().unwrap_or_default();
                let place = write_object(directory, &kind.to_lowercase(), &name, &object)?;
                if *kind == "Pod" {
                    self.logs(client, namespace, &name, &object, &place).await?;
                }
            }
        }
        Ok(())
    }

    async fn logs(
        &self,
        client: &Client,
        namespace: &str,
        pod: &str,
        object: &DynamicObject,
        directory: &Path,
    ) -> Result {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let containers = object.data["spec"]["containers"].as_array().into_iter().flatten();
        for name in containers.filter_map(|container| container["name"].as_str()) {
            let since = self.log_since.and_then(|since| i64::try_from(since.as_secs()).ok());
            let params =
                LogParams { container: Some(name.to_owned()), since_seconds: since, ..LogParams::default() };
            match api.logs(pod, &params).await {
                Ok(text) => {
                    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
                    let data = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
                    let data = data.map_err(|error| Failure::new(error.to_string()))?;
                    write_bytes(directory, &format!("{name}.log.gz"), &data)?;
                }
                Err(error) => write_text(directory, &format!("{name}.log.err"), &error.to_string())?,
            }
        }
        Ok(())
    }
}

fn kind<K: kube::Resource<DynamicType = ()>>() -> String {
    K::kind(&()).to_lowercase()
}

/// Writes an object into its own directory, and returns the directory.
fn write_object(parent: &Path, kind: &str, name: &str, object: &impl Serialize) -> Result<PathBuf> {
    // Prevents names of objects from escaping the directory.
    let name = name.replace(['/', '\\'], "_");
    let directory = parent.join(format!("{kind}_{name}"));
    write(&directory, &name, object)?;
    Ok(directory)
}

fn write(directory: &Path, name: &str, value: &impl Serialize) -> Result {
    let text = steersman_yaml::to_string(value).map_err(|error| Failure::new(error.to_string()))?;
    write_text(directory, &format!("{name}.yaml"), &text)
}

fn write_text(directory: &Path, name: &str, text: &str) -> Result {
    write_bytes(directory, name, text.as_bytes())
}

fn write_bytes(directory: &Path, name: &str, data: &[u8]) -> Result {
    let path = directory.join(name);
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, data));
    written.map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}
