//! Helm tasks: install a chart of the package as a release of the instance.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman::Readiness;
use steersman_chart::{Chart, System, Values};
use steersman_kudo::plan::Outcome;
use steersman_kudo::task::{Failure, TaskPosition, chart};
use steersman_kudo::{Renderer, Task, label, reason};
use steersman_release::{
    Error as ReleaseError, Object, Options, Recover, Redactor, Release, Releases, Status, ValuesPolicy,
    parse, readiness, set_metadata,
};

use crate::error::Error;
use crate::execute::{Attempt, Executor, ReconcileError};
use crate::inventory::is_of_another;

impl Executor<'_> {
    /// Installs or upgrades the release, and waits for its objects. A release that matches the rendered chart is left
    /// unchanged.
    pub(crate) async fn release(&mut self, at: &TaskPosition<'_>, task: &Task) -> Attempt {
        let spec = &task.spec;
        let name = match spec.release_name.as_str() {
            "" => format!("{}-{}", at.run.instance, spec.chart),
            name => name.to_owned(),
        };
        let failed = |why: String| Failure::new(reason::TASK_RENDERING, why);
        let files = at.run.version.charts.get(&spec.chart);
        let files = files.ok_or_else(|| failed(format!("charts/{} not found in the package", spec.chart)))?;
        let chart = chart(files).map_err(|error| failed(format!("charts/{}: {error}", spec.chart)))?;
        let values = self.values(at, task)?;
        let releases = self.releases(at);
        if self.is_dry {
            return self.preview_release(&releases, &name, &chart, &values).await;
        }
        let release = match self.deploy(&releases, &name, &chart, &values).await {
            Ok(release) => release,
            Err(error) => return Err(told(&name, error)),
        };
        // A chart may have kinds that are not watched.
        self.is_polled = true;
        self.release_health(&release).await
    }

    fn values(&self, at: &TaskPosition<'_>, task: &Task) -> Result<Values, Failure> {
        let file = &task.spec.values_file;
        let mut values = Values::new();
        if !file.is_empty() {
            let text = at.render_text(&mut Renderer::new(System::default()), file, &at.variables())?;
            values = Values::from_yaml(text.as_bytes()).map_err(|error| {
                Failure::new(reason::TASK_RENDERING, format!("templates/{file}: {error}"))
            })?;
        }
        Ok(values)
    }

    /// Returns the client of releases, with records and objects owned by the instance.
    fn releases(&self, at: &TaskPosition<'_>) -> Releases {
        let owner = json!(self.owner);
        let namespace = at.run.namespace.to_owned();
        let labels = [
            (label::HERITAGE, "kudo".to_owned()),
            (label::OPERATOR, at.run.version.operator.name.clone()),
            (label::INSTANCE, at.run.instance.to_owned()),
        ];
        let uid = self.owner.uid.clone();
        Releases::with_kinds(self.client.clone(), at.run.namespace, self.kinds.clone())
            // Safe, as only the leader executes plans.
            .recover(Recover::Always)
            // Users with fewer permissions may write release records: they are only used to find objects.
            .verified_by(None, uid.clone())
            .foreign_if(move |live| is_of_another(live, &uid))
            .owned_by(vec![self.owner.clone()])
            .decorated(move |object: &mut Object| {
                let labels = labels.each_ref().map(|(key, value)| (*key, value.as_str()));
                set_metadata(&mut object.content, "labels", &labels);
                let metadata = object.content.get_mut("metadata").and_then(Value::as_object_mut);
                if let Some(metadata) = metadata.filter(|_| object.id.namespace == namespace) {
                    metadata.insert("ownerReferences".into(), json!([owner]));
                }
            })
    }

    async fn deploy(
        &self,
        releases: &Releases,
        name: &str,
        chart: &Chart,
        values: &Values,
    ) -> steersman_release::Result<Release> {
        let options = Options { keep_random: true, values: ValuesPolicy::Reset, ..Options::default() };
        let revisions = releases.revisions(name).await?;
        let deployed = revisions.iter().rfind(|revision| revision.status == Status::Deployed);
        let Some(deployed) = deployed else {
            let options = Options { replace: true, adopt_existing: true, ..options };
            return releases.install(name, chart, values, &options).await;
        };
        let current = releases.get(name, Some(deployed.version)).await?;
        let candidate = releases.candidate(&current, chart, values, &options).await?;
        let is_last = revisions.last() == Some(deployed);
        // A manifest that does not parse is treated as different.
        if is_last && !candidate.objects_differ(&current).unwrap_or(true) {
            return Ok(candidate);
        }
        releases.upgrade(name, chart, values, &options).await
    }

    /// Checks whether the objects of a release are ready.
    async fn release_health(&self, release: &Release) -> Attempt {
        let objects = parse(&release.manifest, &release.namespace, self.kinds).await.map_err(Error::from)?;
        for object in objects {
            let title = object.id.to_string();
            let live = object.api(&self.client).get_opt(&object.id.name).await;
            let Some(live) = live.map_err(Error::kube(title.clone()))? else {
                return Ok(Outcome::Waiting(format!("{title} does not exist yet")));
            };
            let mut live = json!(live);
            live["apiVersion"] = object.kind.resource.api_version.as_str().into();
            live["kind"] = object.kind.resource.kind.as_str().into();
            match readiness(&live, true) {
                Readiness::Ready => {}
                Readiness::Waiting(why) => return Ok(Outcome::Waiting(format!("{title}: {why}"))),
                Readiness::Failed(why) => {
                    return Err(Failure::new(reason::FAILED_TERMINAL_STATE, format!("{title}: {why}")).into());
                }
            }
        }
        Ok(Outcome::Done)
    }

    async fn preview_release(
        &mut self,
        releases: &Releases,
        name: &str,
        chart: &Chart,
        values: &Values,
    ) -> Attempt {
        let diff = releases.diff(name, chart, values, &Options::default()).await;
        let diff = diff.map_err(|error| told(name, error))?;
        let redactor = Arc::new(Redactor::new(&diff.release));
        self.previewed.extend(diff.objects.into_iter().map(|object| (object, Arc::clone(&redactor))));
        Ok(Outcome::Done)
    }
}

/// Converts the error of a release, without its secrets. Failed requests are retried.
fn told(name: &str, error: ReleaseError) -> ReconcileError {
    match error {
        ReleaseError::Failed { message, release, source } => {
            let message = format!("release {name}: {}", Redactor::new(&release).redact(&message));
            match *source {
                ReleaseError::Kube { .. } | ReleaseError::Object { .. } => {
                    ReconcileError::Transient(Error::Refused(message))
                }
                _ => ReconcileError::Fatal(Failure::new(reason::HELM_TASK, message)),
            }
        }
        error @ (ReleaseError::Kube { .. }
        | ReleaseError::Object { .. }
        | ReleaseError::InProgress { .. }) => {
            ReconcileError::Transient(Error::Refused(format!("release {name}: {error}")))
        }
        error => ReconcileError::Fatal(Failure::new(reason::HELM_TASK, format!("release {name}: {error}"))),
    }
}
