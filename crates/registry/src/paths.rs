//! The paths of Helm's files, so that `helm repo add` and `helm registry login` take effect here too.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The paths of Helm's configuration and cache files, and of this crate's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The file that `helm repo add` writes. Default: `HELM_REPOSITORY_CONFIG`, or `repositories.yaml` in Helm's configuration directory.
    pub repository_config: PathBuf,
    /// The directory with the indexes that `helm repo update` fetched. Default: `HELM_REPOSITORY_CACHE`, or `repository` in Helm's cache directory.
    pub repository_cache: PathBuf,
    /// The file that `helm registry login` writes. Default: `HELM_REGISTRY_CONFIG`, or `registry/config.json` in Helm's configuration directory.
    pub registry_config: PathBuf,
    /// Docker's configuration. Default: `config.json` in `DOCKER_CONFIG`, or in `.docker` in the home directory. `None` without a home directory.
    pub docker_config: Option<PathBuf>,
    /// The directory of the content-addressed cache. Default: `STEERSMAN_CACHE`, or `steersman` in the user's cache directory.
    /// `None` disables the cache.
    pub content_cache: Option<PathBuf>,
}

impl Paths {
    /// Returns the paths that the process' environment specifies.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| env::var_os(name))
    }

    /// Returns the paths that an environment specifies; `lookup` returns a variable's value.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        // Helm treats an empty base directory variable as unset, but an empty file variable as an empty path.
        let base = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = base(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
        let cache_base = base("XDG_CACHE_HOME").or_else(|| default_cache(&lookup, home.as_ref()));
        let config_base = base("XDG_CONFIG_HOME").or_else(|| default_config(&lookup, home.as_ref()));

        let helm_cache =
            base("HELM_CACHE_HOME").unwrap_or_else(|| cache_base.clone().unwrap_or_default().join("helm"));
        let helm_config =
            base("HELM_CONFIG_HOME").unwrap_or_else(|| config_base.unwrap_or_default().join("helm"));
        let file = |name: &str, default: PathBuf| lookup(name).map_or(default, PathBuf::from);

        Self {
            repository_config: file("HELM_REPOSITORY_CONFIG", helm_config.join("repositories.yaml")),
            repository_cache: file("HELM_REPOSITORY_CACHE", helm_cache.join("repository")),
            registry_config: file("HELM_REGISTRY_CONFIG", helm_config.join("registry").join("config.json")),
            docker_config: base("DOCKER_CONFIG")
                .or_else(|| home.map(|home| home.join(".docker")))
                .map(|directory| directory.join("config.json")),
            content_cache: base("STEERSMAN_CACHE").or_else(|| cache_base.map(|base| base.join("steersman"))),
        }
    }

    /// Returns the path of the cached index of an added repository.
    pub fn cached_index(&self, name: &str) -> PathBuf {
        self.repository_cache.join(format!("{name}-index.yaml"))
    }
}

fn default_cache(lookup: &impl Fn(&str) -> Option<OsString>, home: Option<&PathBuf>) -> Option<PathBuf> {
    if cfg!(windows) {
        lookup("TEMP").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library").join("Caches"))
    } else {
        home.map(|home| home.join(".cache"))
    }
}

fn default_config(lookup: &impl Fn(&str) -> Option<OsString>, home: Option<&PathBuf>) -> Option<PathBuf> {
    if cfg!(windows) {
        lookup("APPDATA").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library").join("Preferences"))
    } else {
        home.map(|home| home.join(".config"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn paths(environment: &[(&str, &str)]) -> Paths {
        Paths::from_lookup(|name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_home_directory_is_the_last_resort() {
        let paths = paths(&[("HOME", "/home/ada")]);
        assert_eq!(paths.repository_config, PathBuf::from("/home/ada/.config/helm/repositories.yaml"));
        assert_eq!(paths.registry_config, PathBuf::from("/home/ada/.config/helm/registry/config.json"));
        assert_eq!(
            paths.cached_index("main"),
            PathBuf::from("/home/ada/.cache/helm/repository/main-index.yaml")
        );
        assert_eq!(paths.docker_config, Some(PathBuf::from("/home/ada/.docker/config.json")));
        assert_eq!(paths.content_cache, Some(PathBuf::from("/home/ada/.cache/steersman")));
    }

    #[test]
    fn xdg_directories_come_before_home_and_helm_directories_before_both() {
        let xdg = [("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/c"), ("XDG_CONFIG_HOME", "/k")];
        assert_eq!(paths(&xdg).repository_config, PathBuf::from("/k/helm/repositories.yaml"));
        assert_eq!(paths(&xdg).repository_cache, PathBuf::from("/c/helm/repository"));

        let helm = [("XDG_CACHE_HOME", "/c"), ("HELM_CACHE_HOME", "/hc"), ("HELM_CONFIG_HOME", "/hk")];
        assert_eq!(paths(&helm).repository_config, PathBuf::from("/hk/repositories.yaml"));
        assert_eq!(paths(&helm).repository_cache, PathBuf::from("/hc/repository"));
        assert_eq!(paths(&helm).content_cache, Some(PathBuf::from("/c/steersman")));
    }

    #[test]
    fn a_file_named_outright_wins() {
        let paths = paths(&[
            ("HELM_CONFIG_HOME", "/hk"),
            ("HELM_REPOSITORY_CONFIG", "/r.yaml"),
            ("HELM_REPOSITORY_CACHE", "/rc"),
            ("HELM_REGISTRY_CONFIG", "/reg.json"),
            ("DOCKER_CONFIG", "/d"),
            ("STEERSMAN_CACHE", "/s"),
        ]);
        assert_eq!(paths.repository_config, PathBuf::from("/r.yaml"));
        assert_eq!(paths.repository_cache, PathBuf::from("/rc"));
        assert_eq!(paths.registry_config, PathBuf::from("/reg.json"));
        assert_eq!(paths.docker_config, Some(PathBuf::from("/d/config.json")));
        assert_eq!(paths.content_cache, Some(PathBuf::from("/s")));
    }
}
