//! Resolves a command's namespace as kubectl and Helm do.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::GlobalArgs;

const DEFAULT: &str = "default";
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns the namespace of the flag, HELM_NAMESPACE, the kubeconfig's context, the pod, or `default`.
pub(crate) fn resolve(globals: &GlobalArgs) -> String {
    let given = globals.namespace.clone().or_else(|| std::env::var("HELM_NAMESPACE").ok());
    if let Some(given) = given.filter(|name| !name.is_empty()) {
        return given;
    }
    let context = globals.context();
    let files = kubeconfig_files(globals.kubeconfig.as_deref());
    let configs: Vec<_> = files.iter().filter_map(|path| KubeConfig::load(path)).collect();
    of_context(&configs, context.as_deref()).or_else(of_pod).unwrap_or_else(|| DEFAULT.into())
}

fn kubeconfig_files(given: Option<&Path>) -> Vec<PathBuf> {
    if let Some(given) = given.filter(|path| !path.as_os_str().is_empty()) {
        return vec![given.to_owned()];
    }
    match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect(),
    }
}

/// Returns the context's namespace; of several files, the first that specifies it counts.
fn of_context(configs: &[KubeConfig], context: Option<&str>) -> Option<String> {
    let current = configs.iter().map(|config| config.current_context.as_str()).find(|name| !name.is_empty());
    let name = context.or(current)?;
    let found = configs.iter().flat_map(|config| &config.contexts).find(|entry| entry.name == name)?;
    Some(found.context.namespace.clone()).filter(|namespace| !namespace.is_empty())
}

/// Returns the pod's own namespace, inside a pod.
fn of_pod() -> Option<String> {
    let account = Path::new(SERVICE_ACCOUNT);
    std::env::var_os("KUBERNETES_SERVICE_HOST")?;
    if !account.join("token").exists() {
        return None;
    }
    let named = std::env::var("POD_NAMESPACE").ok().filter(|name| !name.is_empty());
    named
        .or_else(|| {
            std::fs::read_to_string(account.join("namespace")).ok().map(|name| name.trim().to_owned())
        })
        .filter(|name| !name.is_empty())
}

/// The part of a kubeconfig that determines the namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct KubeConfig {
    current_context: String,
    contexts: Vec<NamedContext>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    namespace: String,
}

impl KubeConfig {
    /// Loads a kubeconfig; a missing or malformed one is ignored, since rendering needs no cluster.
    fn load(path: &Path) -> Option<Self> {
        let data = std::fs::read(path).ok()?;
        steersman_yaml::from_slice_as(&data).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(current: &str, contexts: &[(&str, &str)]) -> KubeConfig {
        let contexts = contexts
            .iter()
            .map(|(name, namespace)| NamedContext {
                name: (*name).into(),
                context: Context { namespace: (*namespace).into() },
            })
            .collect();
        KubeConfig { current_context: current.into(), contexts }
    }

    #[test]
    fn the_first_file_that_says_something_counts() {
        let configs = [config("", &[("a", "first")]), config("a", &[("a", "second"), ("b", "")])];
        assert_eq!(of_context(&configs, None).as_deref(), Some("first"));
        assert_eq!(of_context(&configs, Some("b")), None);
        assert_eq!(of_context(&configs, Some("c")), None);
        assert_eq!(of_context(&[], None), None);
    }
}
