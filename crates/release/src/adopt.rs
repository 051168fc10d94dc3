//! Adoption of a release whose records are missing or do not verify, by its objects in the cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use steersman_chart::Rendered;

use crate::error::Result;
use crate::object::{Object, documents, parse_known};
use crate::random;
use crate::record::{Release, Status};
use crate::releases::{Options, Releases};

impl Releases {
    /// Replaces a record that does not verify by a signed one, rendered anew under the same revision. Runs no hooks and
    /// writes no objects.
    ///
    /// # Errors
    /// Fails if an object of the release exists without the release's ownership metadata.
    pub fn adopt<'a>(
        &'a self,
        unverified: &'a Release,
        rendered: Release,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let mut release = rendered;
            release.version = unverified.version;
            release.labels.clone_from(&options.labels);
            let plan = self.plan(&release, &[]).await?;
            self.check_ownership("update", &release, &plan)?;
            release.info.first_deployed = unverified.info.first_deployed;
            release.info.last_deployed = unverified.info.last_deployed;
            release.info.status = Status::Deployed;
            release.info.description = "Adopted: the record was written by another program".into();
            // Without a key the record would never verify, and would be rewritten at each start.
            if self.storage.signs() {
                self.storage.update(&release).await?;
            }
            Ok(release)
        })
    }

    /// Keeps the randomly generated values that the live objects of the release hold.
    pub(crate) async fn keep_live_random(
        &self,
        rendered: &mut Rendered,
        again: &Rendered,
        name: &str,
    ) -> Result<()> {
        let mut manifest = String::new();
        let rendered_documents = documents(&rendered.manifest(false))?;
        for document in rendered_documents {
            let Some(object) = self.parse_one(&document).await? else { continue };
            let Some(live) = self.writer().live(&object).await? else { continue };
            let mut live = json!(live);
            if !self.may_delete(&live, name) {
                continue;
            }
            as_rendered(&mut live, &document);
            manifest.push_str(&format!("---\n{live}\n"));
        }
        let live = Release { manifest, ..Release::default() };
        random::keep(rendered, again, &live)
    }

    async fn parse_one(&self, document: &Value) -> Result<Option<Object>> {
        Ok(parse_known(&document.to_string(), &self.namespace, &self.kinds).await?.pop())
    }
}

/// Makes a live object comparable to its rendered form. It gets the rendered type and namespace, and the values of a
/// Secret also as `stringData`, where a chart may have them.
fn as_rendered(live: &mut Value, rendered: &Value) {
    for field in ["apiVersion", "kind"] {
        live[field] = rendered.get(field).cloned().unwrap_or_default();
    }
    if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
        match rendered.pointer("/metadata/namespace") {
            Some(namespace) => metadata.insert("namespace".into(), namespace.clone()),
            None => metadata.remove("namespace"),
        };
        metadata.remove("managedFields");
    }
    if rendered.get("kind").and_then(Value::as_str) == Some("Secret")
        && let Some(data) = live.get("data").and_then(Value::as_object)
    {
        let text = |value: &Value| String::from_utf8(BASE64.decode(value.as_str()?).ok()?).ok();
        let plain: Map<String, Value> =
            data.iter().filter_map(|(key, value)| Some((key.clone(), text(value)?.into()))).collect();
        live["stringData"] = Value::Object(plain);
    }
}
