//! Adds webhooks for a kind of a project.

use std::path::Path;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::init::put_project;
use crate::layout::values;
use crate::project::{Plugin, Project, Resource};
use crate::rust;
use crate::templates::{Template, render, template};

/// The webhooks to add for a kind.
#[derive(Clone, Debug, Default)]
pub struct WebhookOptions {
    /// The API group of the kind, without the project's domain. Default: that of the only matching kind.
    pub group: Option<String>,
    /// The API version of the kind. Default: that of the only matching kind.
    pub version: Option<String>,
    /// The kind. Default: the only matching kind.
    pub kind: Option<String>,
    /// Whether to add a defaulting (mutating) webhook. Default: no.
    pub defaulting: bool,
    /// Whether to add a validating webhook. Default: no.
    pub validation: bool,
    /// Whether to add a conversion webhook, with this version as the hub. Default: no.
    pub conversion: bool,
    /// The spoke versions to convert. Default: all other versions of the kind.
    pub spokes: Vec<String>,
    /// Whether to replace files of existing webhooks. Default: no.
    pub force: bool,
}

/// Adds webhooks for a kind of the project in a directory.
///
/// # Errors
/// Fails if the kind does not exist, the project is not a Rust project, or a file cannot be written.
pub fn create_webhook(root: &Path, options: &WebhookOptions) -> Result<Vec<Written>> {
    let mut project = Project::load(root)?;
    if project.plugin()? != Plugin::Rust {
        return Err(Error::usage(
            "webhooks are only supported in Rust projects",
            "the definition's schema fills in defaults and refuses objects; --plugins rust makes a project with code",
        ));
    }
    if !options.defaulting && !options.validation && !options.conversion {
        return Err(Error::usage(
            "no webhook requested",
            "--defaulting, --programmatic-validation and --conversion say which",
        ));
    }
    let resource = find(&project, options)?;
    let mut values = values(&project);
    rust::add_kind(&mut values, &project, &resource);
    let mut webhooks = Plan::default();
    let mut scaffold =
        Scaffold { root, plan: &mut webhooks, project: &project, resource: &resource, options };
    let mut parts: Vec<(&str, Value)> = vec![("webhooks.webhookVersion", "v1".into())];
    let kind = format!("{}::{}", rust::api_modules(&project, &resource).join("::"), resource.kind);
    if options.defaulting {
        let module = scaffold.module("defaulting", template!("rust/webhook_default.rs"), &values)?;
        scaffold.build(&format!(".webhook(steersman::Webhook::mutating::<{kind}>({module}::default))"))?;
        parts.push(("webhooks.defaulting", true.into()));
    }
    if options.validation {
        let module = scaffold.module("validation", template!("rust/webhook_validate.rs"), &values)?;
        scaffold.build(&format!(".webhook(steersman::Webhook::validating::<{kind}>({module}::validate))"))?;
        parts.push(("webhooks.validation", true.into()));
    }
    if options.conversion {
        values["Spokes"] = spokes(&project, &resource, options)?;
        let module = scaffold.module("conversion", template!("rust/webhook_convert.rs"), &values)?;
        scaffold.build(&format!(".crd({module}::crd())"))?;
        scaffold.build(&format!(".conversion({module}::conversion())"))?;
        parts.push(("webhooks.conversion", true.into()));
    }
    project.record(&resource, false, &parts);
    put_project(root, &mut webhooks, &project)?;
    webhooks.write(root)
}

/// Finds the kind that the options select.
fn find(project: &Project, options: &WebhookOptions) -> Result<Resource> {
    let fits = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    let mut found = project.resources();
    found.retain(|known| {
        fits(&options.group, &known.short_group)
            && fits(&options.version, &known.version)
            && fits(&options.kind, &known.kind)
    });
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::usage("the project has no such kind", "`steer create api` adds one")),
        _ => {
            let titles: Vec<String> =
                found.iter().map(|one| format!("{}/{} {}", one.group, one.version, one.kind)).collect();
            Err(Error::usage(
                format!("several kinds fit: {}", titles.join(", ")),
                "--group, --version and --kind say which",
            ))
        }
    }
}

/// Returns the spoke versions as template values.
fn spokes(project: &Project, hub: &Resource, options: &WebhookOptions) -> Result<Value> {
    let same =
        |known: &Resource| known.group == hub.group && known.kind == hub.kind && known.version != hub.version;
    let others: Vec<Resource> = project.resources().into_iter().filter(same).collect();
    for wanted in &options.spokes {
        if !others.iter().any(|known| known.version == *wanted) {
            return Err(Error::usage(
                format!("{} has no version {wanted} besides {}", hub.kind, hub.version),
                format!("`steer create api --version {wanted} --kind {}` adds it", hub.kind),
            ));
        }
    }
    let chosen: Vec<Value> = others
        .iter()
        .filter(|known| options.spokes.is_empty() || options.spokes.contains(&known.version))
        .map(|known| {
            let alias = format!("{}{}", known.version.to_ascii_uppercase(), known.kind);
            json!({ "ApiModule": rust::api_modules(project, known).join("::"), "Alias": alias })
        })
        .collect();
    if chosen.is_empty() {
        return Err(Error::usage(
            format!("{} has one version, which needs no conversion", hub.kind),
            format!("`steer create api --kind {}` with another --version adds one", hub.kind),
        ));
    }
    Ok(chosen.into())
}

struct Scaffold<'a> {
    root: &'a Path,
    plan: &'a mut Plan,
    project: &'a Project,
    resource: &'a Resource,
    options: &'a WebhookOptions,
}

impl Scaffold<'_> {
    /// Writes a module of the kind's webhooks and returns its path.
    fn module(&mut self, what: &str, template: Template, values: &Value) -> Result<String> {
        let mut modules = rust::modules(self.project, self.resource, "webhook");
        if let Some(last) = modules.last_mut() {
            *last = format!("{}_{what}", last.trim_end_matches('_'));
        }
        if self.plan.text(self.root, "src/webhook/mod.rs")?.is_none() {
            let text = render(template!("rust/webhook_mod.rs"), values)?;
            self.plan.put(self.root, "src/webhook/mod.rs", text, Existing::Keep)?;
        }
        let existing = if self.options.force { Existing::Replace } else { Existing::Keep };
        rust::put_module(self.root, self.plan, "src", &modules, render(template, values)?, existing)?;
        Ok(modules.join("::"))
    }

    fn build(&mut self, call: &str) -> Result<()> {
        rust::build(self.root, self.plan, call)
    }
}
