//! Adds and removes clusters in the user's kubeconfig, as kind does.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout for another program's lock on the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the file to add a cluster to.
///
/// That is the given one, else the first of `KUBECONFIG` that exists or its last one, else `~/.kube/config`.
pub(crate) fn file(given: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = given.filter(|path| !path.as_os_str().is_empty()) {
        return Some(path.to_owned());
    }
    let listed: Vec<PathBuf> = std::env::var_os("KUBECONFIG")
        .map(|value| std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    let existing = listed.iter().find(|path| path.exists()).or(listed.last()).cloned();
    existing.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config")))
}

/// Adds the only cluster of a kubeconfig to a file under a name, and makes its context the current one.
pub(crate) fn merge(path: &Path, name: &str, kubeconfig: &Value) -> std::io::Result<()> {
    change(path, |config| add(config, name, kubeconfig))
}

/// Returns a kubeconfig with the only cluster of another one renamed.
pub(crate) fn renamed(name: &str, kubeconfig: &Value) -> Value {
    let mut config = empty();
    add(&mut config, name, kubeconfig);
    config
}

fn empty() -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "preferences": {}})
}

fn add(config: &mut Value, name: &str, kubeconfig: &Value) {
    for (list, part) in [("clusters", "cluster"), ("users", "user")] {
        put(config, list, json!({"name": name, part: kubeconfig[list][0][part]}));
    }
    put(config, "contexts", json!({"name": name, "context": {"cluster": name, "user": name}}));
    config["current-context"] = name.into();
}

/// Removes what [`merge`] added. A file that is then empty is kept, as with kind.
pub(crate) fn remove(path: &Path, name: &str) -> std::io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    change(path, |config| {
        for list in ["clusters", "users", "contexts"] {
            if let Some(entries) = config[list].as_array_mut() {
                entries.retain(|entry| entry["name"] != name);
            }
        }
        if config["current-context"] == name {
            config["current-context"] = "".into();
        }
    })
}

fn put(config: &mut Value, list: &str, entry: Value) {
    if !config[list].is_array() {
        config[list] = json!([]);
    }
    if let Some(entries) = config[list].as_array_mut() {
        entries.retain(|other| other["name"] != entry["name"]);
        entries.push(entry);
    }
}

fn change(path: &Path, edit: impl FnOnce(&mut Value)) -> std::io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)?;
    }
    let _lock = Lock::take(path)?;
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let malformed = |why: String| std::io::Error::new(ErrorKind::InvalidData, why);
    let mut config = match steersman_yaml::from_slice(&text).map_err(|error| malformed(error.to_string()))? {
        Value::Null => empty(),
        config @ Value::Object(_) => config,
        _ => return Err(malformed("not a kubeconfig".into())),
    };
    edit(&mut config);
    let text = steersman_yaml::to_string(&config).map_err(|error| malformed(error.to_string()))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    // For a symbolic link, its target is changed.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    private(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, &target))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&temporary);
        })
}

/// Creates a file that only its owner can read.
pub(crate) fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

/// The lock of kubectl and kind: a file next to the kubeconfig that exists while it is being changed.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> std::io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let why = format!(
                        "timed out waiting for the lock {}: remove it if no other program is writing",
                        lock.display()
                    );
                    return Err(std::io::Error::new(ErrorKind::WouldBlock, why));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_added_to_what_is_there_and_removed_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kube/config");
        let of = |server: &str| {
            json!({
                "clusters": [{"name": "steersman", "cluster": {"server": server}}],
                "users": [{"name": "steersman", "user": {"token": "t"}}],
            })
        };
        merge(&path, "steer-a", &of("https://a")).unwrap();
        merge(&path, "steer-b", &of("https://b")).unwrap();
        merge(&path, "steer-a", &of("https://c")).unwrap();
        let read = || steersman_yaml::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let config = read();
        assert_eq!(config["current-context"], "steer-a");
        assert_eq!(config["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(config["clusters"][1], json!({"name": "steer-a", "cluster": {"server": "https://c"}}));
        remove(&path, "steer-a").unwrap();
        let config = read();
        assert_eq!(config["current-context"], "");
        assert_eq!(
            config["contexts"],
            json!([{"name": "steer-b", "context": {"cluster": "steer-b", "user": "steer-b"}}])
        );
        std::fs::write(&path, "- no\n- kubeconfig\n").unwrap();
        assert!(merge(&path, "steer-a", &of("https://a")).is_err());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
