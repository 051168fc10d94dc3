//! The repositories added by `helm repo add`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::index::text;
use crate::{Access, Error, yaml};

/// The content of repositories.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repositories {
    /// The entries, in the order of the file.
    pub entries: Vec<Repository>,
}

/// One added repository.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Repository {
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// Its URL, under which index.yaml is.
    #[serde(deserialize_with = "text")]
    pub url: String,
    #[serde(deserialize_with = "text")]
    username: String,
    #[serde(deserialize_with = "text")]
    password: String,
    #[serde(rename = "certFile", deserialize_with = "text")]
    cert_file: String,
    #[serde(rename = "keyFile", deserialize_with = "text")]
    key_file: String,
    #[serde(rename = "caFile", deserialize_with = "text")]
    ca_file: String,
    insecure_skip_tls_verify: bool,
    pass_credentials_all: bool,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Repository {
    /// Returns the access options of the repository: its own settings take precedence over `given`.
    pub fn access(&self, given: &Access) -> Access {
        let mut access = given.clone();
        if !self.username.is_empty() && !self.password.is_empty() {
            access.username = Some(self.username.clone());
            access.password = Some(self.password.clone());
            access.pass_credentials = self.pass_credentials_all;
        }
        if !self.cert_file.is_empty() || !self.key_file.is_empty() || !self.ca_file.is_empty() {
            let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
            access.cert_file = path(&self.cert_file);
            access.key_file = path(&self.key_file);
            access.ca_file = path(&self.ca_file);
        }
        access.insecure_skip_tls_verify |= self.insecure_skip_tls_verify;
        access
    }

    /// Whether it has settings other than name and URL.
    pub(crate) fn is_special(&self) -> bool {
        self.access(&Access::default()) != Access::default()
    }
}

impl Repositories {
    /// Loads repositories.yaml; a missing file is an empty list.
    pub fn load(path: &Path) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            repositories: Option<Vec<Option<Repository>>>,
        }
        let data = match fs::read(path) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                let message = format!("couldn't load repositories file: {error}");
                return Err(Error::InvalidFile { path: path.display().to_string(), message });
            }
        };
        let file: Option<File> = yaml::parse(&data)
            .map_err(|message| Error::InvalidFile { path: path.display().to_string(), message })?;
        let entries = file.and_then(|file| file.repositories).into_iter().flatten().flatten().collect();
        Ok(Self { entries })
    }

    /// Returns the repository with a name.
    pub fn by_name(&self, name: &str) -> Result<&Repository, Error> {
        let found = self.entries.iter().find(|repository| repository.name == name);
        let repository = found.ok_or_else(|| Error::UnknownRepository(name.to_owned()))?;
        if repository.url.is_empty() {
            return Err(Error::RepositoryWithoutUrl(name.to_owned()));
        }
        Ok(repository)
    }

    /// Returns the repository with a URL.
    pub fn by_url(&self, url: &str) -> Option<&Repository> {
        self.entries.iter().find(|repository| crate::urls::equal(&repository.url, url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_when_it_was_added_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("repositories.yaml");
        let text = "
apiVersion: \"\"
generated: \"0001-01-01T00:00:00Z\"
repositories:
- name: plain
  url: https://charts.example.com
  username: \"\"
- name: closed
  url: https://closed.example.com/charts/
  username: ada
  password: secret
  caFile: /ca.pem
  insecure_skip_tls_verify: true
  pass_credentials_all: false
";
        fs::write(&path, text).unwrap();
        let repositories = Repositories::load(&path).unwrap();
        let given =
            Access { username: Some("me".into()), password: Some("mine".into()), ..Access::default() };
        assert_eq!(repositories.by_name("plain").unwrap().access(&given), given);
        assert!(!repositories.by_name("plain").unwrap().is_special());

        let closed = repositories.by_url("https://closed.example.com/charts").unwrap();
        let access = closed.access(&given);
        assert_eq!(access.basic(), Some(("ada", "secret")));
        assert_eq!(access.ca_file, Some("/ca.pem".into()));
        assert!(access.insecure_skip_tls_verify && !access.pass_credentials);
        assert!(matches!(repositories.by_name("other"), Err(Error::UnknownRepository(_))));
    }

    #[test]
    fn no_file_names_no_repositories() {
        assert_eq!(Repositories::load(Path::new("/nowhere/at/all")).unwrap(), Repositories::default());
    }
}
