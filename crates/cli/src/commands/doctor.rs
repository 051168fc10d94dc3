//! `steer doctor`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};
use steersman_scaffold::{Plugin, Project, Resource, kustomize};

use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// The minor version of the oldest Kubernetes that operators are tested on.
const OLDEST_MINOR: u32 = 30;
/// Time after which a deletion counts as stuck.
const STUCK: SignedDuration = SignedDuration::from_mins(1);
/// Maximum depth to which schemas are compared.
const MAX_DEPTH: usize = 64;

const EXAMPLES: &str = "\
Each line reports a check, and a failed check comes with the command that fixes it. The exit code is
1 if a check fails. In the directory of a project, its kinds are checked, too.

Examples:
  steer doctor
  steer doctor ./shop -o json
  steer doctor --kube-context production";

/// Diagnose problems of the toolchain, the cluster and a project in it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,

    /// Output format of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Something optional is missing.
    Warning,
    Problem,
}

/// A finding of a check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    message: String,
    /// The command that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.0.push(Finding { check, state: State::Ok, message: message.into(), fix: None });
    }

    fn warn(&mut self, check: &'static str, message: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { check, state: State::Warning, message: message.into(), fix: Some(fix.into()) });
    }

    fn problem(&mut self, check: &'static str, message: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { check, state: State::Problem, message: message.into(), fix: Some(fix.into()) });
    }
}

impl Doctor {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let mut findings = Findings::default();
        let project = match Project::load(&self.project) {
            Ok(project) => Some(project),
            Err(steersman_scaffold::Error::NotAProject(_)) => None,
            Err(error) => return Err(error.into()),
        };
        toolchain(project.as_ref(), &mut findings);
        cluster::run(async {
            if let Some(client) = reach(globals, &mut findings).await {
                permissions(&client, &mut findings).await?;
                namespaces(&client, &mut findings).await?;
                if let Some(project) = &project {
                    let crds = definitions(&self.project, &client, &mut findings).await?;
                    finalizers(&crds, &client, &mut findings).await?;
                    releases(project, &crds, &client, &mut findings).await?;
                }
            }
            Ok(())
        })?;
        self.show(&findings.0, output)?;
        let problems = findings.0.iter().filter(|finding| finding.state == State::Problem).count();
        match problems {
            0 => Ok(()),
            1 => Err(Failure::new("1 problem was found")),
            many => Err(Failure::new(format!("{many} problems were found"))),
        }
    }

    fn show(&self, findings: &[Finding], output: &mut Output) -> Result {
        match self.output {
            Format::Json => output.line(format_args!("{:#}", json!(findings))),
            Format::Yaml => {
                let text =
                    steersman_yaml::to_string(findings).map_err(|error| Failure::new(error.to_string()))?;
                output.push(&text);
            }
            Format::Text => {
                for Finding { check, state, message, fix } in findings {
                    let mark = match state {
                        State::Ok => "✓",
                        State::Warning => "!",
                        State::Problem => "✗",
                    };
                    output.line(format_args!(" {mark} {check:<12} {message}"));
                    if let Some(fix) = fix {
                        output.line(format_args!("   {:<12} fix: {fix}", ""));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns a program's version output, if it is installed.
fn version_of(program: &str, argument: &str) -> Option<String> {
    let run = Command::new(program).arg(argument).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&run.stdout).lines().next().unwrap_or_default().trim().to_owned();
    run.status.success().then_some(text)
}

fn toolchain(project: Option<&Project>, findings: &mut Findings) {
    const CHECK: &str = "toolchain";
    findings.ok(CHECK, format!("steer {}", env!("CARGO_PKG_VERSION")));
    let in_rust = project.is_some_and(|project| project.plugin().is_ok_and(|plugin| plugin == Plugin::Rust));
    if in_rust {
        match version_of("cargo", "--version") {
            Some(version) => findings.ok(CHECK, version),
            None => findings.problem(
                CHECK,
                "cargo is not installed, and this project is in Rust",
                "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh",
            ),
        }
    }
    let engine = ["docker", "podman"].into_iter().find_map(|name| version_of(name, "--version"));
    findings
        .ok(CHECK, engine.unwrap_or_else(|| "no container engine: `steer image build` makes images".into()));
}

/// Returns a client, if a cluster responds.
async fn reach(globals: &GlobalArgs, findings: &mut Findings) -> Option<Client> {
    const CHECK: &str = "cluster";
    const MEND: &str = "steer cluster & export KUBECONFIG=.steer/kubeconfig";
    let client = match cluster::client(globals).await {
        Ok(client) => client,
        Err(failure) => {
            findings.problem("kubeconfig", failure.message().to_owned(), MEND);
            return None;
        }
    };
    match client.apiserver_version().await {
        Ok(version) => {
            let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
            if version.major == "1" && minor.parse().is_ok_and(|minor: u32| minor < OLDEST_MINOR) {
                let message = format!("Kubernetes {} is older than 1.{OLDEST_MINOR}", version.git_version);
                findings.warn(CHECK, message, "upgrade the cluster");
            } else {
                findings.ok(CHECK, format!("Kubernetes {}", version.git_version));
            }
            Some(client)
        }
        Err(error) => {
            let answer = Failure::of_kube(&error);
            let answer = answer.message();
            findings.problem(CHECK, format!("the kubeconfig's cluster does not answer: {answer}"), MEND);
            None
        }
    }
}

/// Checks the permissions that `steer deploy` requires.
async fn permissions(client: &Client, findings: &mut Findings) -> Result {
    const NEEDED: [(&str, &str); 5] = [
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("", "namespaces"),
        ("apps", "deployments"),
    ];
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut denied = Vec::new();
    for (group, resource) in NEEDED {
        for verb in ["create", "patch", "delete"] {
            let attributes = ResourceAttributes {
                group: Some(group.into()),
                resource: Some(resource.into()),
                verb: Some(verb.into()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = api.create(&PostParams::default(), &review).await.map_err(unanswered)?;
            if !answer.status.is_some_and(|status| status.allowed) {
                denied.push(format!("{verb} {resource}"));
            }
        }
    }
    if denied.is_empty() {
        findings.ok("permissions", "you may deploy operators");
    } else {
        findings.warn(
            "permissions",
            format!("you may not deploy operators: not allowed to {}", denied.join(", ")),
            "kubectl create clusterrolebinding NAME --clusterrole=cluster-admin --user=YOU",
        );
    }
    Ok(())
}

fn unanswered(error: kube::Error) -> Failure {
    Failure::of_kube(&error).within("the cluster does not answer")
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Whether an object's deletion takes so long that something must be blocking it.
fn is_stuck(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> bool {
    let since = metadata.deletion_timestamp.as_ref().map(|time| time.0);
    since.is_some_and(|since| Timestamp::now().duration_since(since) > STUCK)
}

async fn namespaces(client: &Client, findings: &mut Findings) -> Result {
    const CHECK: &str = "namespaces";
    let all = match Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await {
        Ok(all) => all,
        Err(error) if is_forbidden(&error) => return Ok(()),
        Err(error) => return Err(unanswered(error)),
    };
    let mut stuck = false;
    for namespace in all.iter().filter(|namespace| is_stuck(&namespace.metadata)) {
        stuck = true;
        let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let reasons: Vec<String> = conditions
            .filter(|condition| condition.status == "True")
            .filter_map(|condition| condition.message.clone())
            .collect();
        let name = namespace.name_any();
        findings.problem(
            CHECK,
            format!("namespace {name} cannot be deleted: {}", reasons.join("; ")),
            format!("kubectl api-resources --verbs=list --namespaced -o name | xargs -n1 kubectl get -n {name} --ignore-not-found"),
        );
    }
    if !stuck {
        findings.ok(CHECK, "none is stuck in deletion");
    }
    Ok(())
}

/// Compares the project's definitions with the cluster's, and returns those that exist.
async fn definitions(
    root: &Path,
    client: &Client,
    findings: &mut Findings,
) -> Result<Vec<CustomResourceDefinition>> {
    const CHECK: &str = "definitions";
    const MEND: &str = "steer deploy --crds-only";
    let wanted = match kustomize(&root.join("config/crd"), &[]) {
        Ok(wanted) => wanted,
        Err(error) => {
            findings.problem(CHECK, error.to_string(), "make manifests");
            return Ok(Vec::new());
        }
    };
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut live = Vec::new();
    for ours in wanted.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let name = ours.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let found = match api.get_opt(name).await {
            Ok(found) => found,
            Err(error) if is_forbidden(&error) => continue,
            Err(error) => return Err(unanswered(error)),
        };
        let Some(found) = found else {
            findings.problem(CHECK, format!("{name} is not in the cluster"), MEND);
            continue;
        };
        let missing = missing_fields(ours, &json!(found));
        if missing.is_empty() {
            findings.ok(CHECK, format!("{name} is as the project has it"));
        } else {
            let message = format!(
                "{name} in the cluster is older than the project's: {} would be dropped silently",
                missing.join(", ")
            );
            findings.problem(CHECK, message, MEND);
        }
        live.push(found);
    }
    Ok(live)
}

/// Returns the fields of the project's definition that the cluster's lacks.
fn missing_fields(ours: &Value, live: &Value) -> Vec<String> {
    let versions = |definition: &Value| {
        definition.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let there = versions(live);
    let mut missing = Vec::new();
    for version in versions(ours) {
        match there.iter().find(|other| other["name"] == version["name"]) {
            Some(other) => {
                let schema =
                    |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
                compare(&schema(&version), &schema(other), "", &mut missing, 0);
            }
            None => missing.push(format!("version {}", version["name"].as_str().unwrap_or_default())),
        }
    }
    missing
}

fn compare(ours: &Value, live: &Value, path: &str, missing: &mut Vec<String>, depth: usize) {
    if depth > MAX_DEPTH || live["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, schema) in ours["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match live["properties"].get(name) {
            Some(other) => compare(schema, other, &path, missing, depth + 1),
            None => missing.push(path),
        }
    }
    if ours["items"].is_object() {
        compare(&ours["items"], &live["items"], &format!("{path}[]"), missing, depth + 1);
    }
}

/// Checks for objects of the project's kinds whose deletion is stuck.
async fn finalizers(crds: &[CustomResourceDefinition], client: &Client, findings: &mut Findings) -> Result {
    const CHECK: &str = "finalizers";
    let mut looked = false;
    let mut stuck = false;
    for crd in crds {
        let Some(objects) = objects_of(crd, client).await? else { continue };
        looked = true;
        for object in objects.iter().filter(|object| is_stuck(&object.metadata)) {
            stuck = true;
            let (name, plural) = (object.name_any(), format!("{}.{}", crd.spec.names.plural, crd.spec.group));
            let place = object.namespace().map_or(String::new(), |namespace| format!(" -n {namespace}"));
            let kept_by = object.finalizers().join(", ");
            findings.problem(
                CHECK,
                format!("{} {name}{place} waits for {kept_by}: does the operator run?", crd.spec.names.kind),
                format!("kubectl patch {plural} {name}{place} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"),
            );
        }
    }
    if looked && !stuck {
        findings.ok(CHECK, "no object of the project's kinds is stuck in deletion");
    }
    Ok(())
}

/// Lists the objects of a definition, if that is allowed.
async fn objects_of(crd: &CustomResourceDefinition, client: &Client) -> Result<Option<Vec<DynamicObject>>> {
    let Some(version) = crd.spec.versions.iter().find(|version| version.served) else { return Ok(None) };
    let resource = ApiResource {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        api_version: format!("{}/{}", crd.spec.group, version.name),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    };
    match Api::<DynamicObject>::all_with(client.clone(), &resource).list(&ListParams::default()).await {
        Ok(list) => Ok(Some(list.items)),
        Err(error) if is_forbidden(&error) => Ok(None),
        Err(error) => Err(unanswered(error)),
    }
}

/// Checks for release records whose object is deleted or whose operation was interrupted.
async fn releases(
    project: &Project,
    crds: &[CustomResourceDefinition],
    client: &Client,
    findings: &mut Findings,
) -> Result {
    const CHECK: &str = "releases";
    let params = ListParams::default().labels("owner=helm");
    let records = match Api::<Secret>::all(client.clone()).list(&params).await {
        Ok(records) => records,
        Err(error) if is_forbidden(&error) => return Ok(()),
        Err(error) => return Err(unanswered(error)),
    };
    let mut uids = Vec::new();
    for crd in crds {
        let objects = objects_of(crd, client).await?.unwrap_or_default();
        uids.extend(objects.into_iter().filter_map(|object| object.metadata.uid));
    }
    let kinds: Vec<Resource> = project.resources();
    let mut is_well = true;
    for record in &records {
        let label = |key: &str| record.labels().get(key).map_or("", String::as_str);
        let (name, namespace) = (label("name"), record.namespace().unwrap_or_default());
        let owner = record.owner_references().iter().find(|owner| {
            kinds.iter().any(|kind| {
                owner.kind == kind.kind && owner.api_version.starts_with(&format!("{}/", kind.group))
            })
        });
        let fix = format!("steer uninstall {name} -n {namespace}");
        if let Some(owner) = owner.filter(|owner| !uids.contains(&owner.uid)) {
            is_well = false;
            let message = format!(
                "release {name} in namespace {namespace} is orphaned: its {} {} no longer exists",
                owner.kind, owner.name
            );
            findings.problem(CHECK, message, fix);
        } else if label("status").starts_with("pending-") {
            let made = record.creation_timestamp().map(|time| time.0);
            if made.is_some_and(|made| Timestamp::now().duration_since(made) > STUCK) {
                is_well = false;
                let message = format!(
                    "release {name} in namespace {namespace} is {}: an operation was interrupted",
                    label("status")
                );
                findings.problem(CHECK, message, format!("steer rollback {name} -n {namespace}"));
            }
        }
    }
    if is_well {
        findings.ok(CHECK, "none is orphaned or left half-way");
    }
    Ok(())
}
