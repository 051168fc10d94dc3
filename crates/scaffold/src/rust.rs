//! Projects of operators written in Rust with the crate `steersman`.

use std::path::Path;

use serde_json::{Value, json};

use crate::api::ApiOptions;
use crate::error::{Error, Result};
use crate::files::{Existing, Plan};
use crate::helm::{list, write_user_roles};
use crate::layout::values;
use crate::project::{Project, Resource};
use crate::templates::{Template, render, template};

/// The files of a project.
pub(crate) const FILES: &[(&str, Template)] = &[
    (".dockerignore", template!("rust/dockerignore")),
    (".gitignore", template!("rust/gitignore")),
    ("Cargo.toml", template!("rust/manifest.toml")),
    ("Dockerfile", template!("rust/Dockerfile")),
    ("Makefile", template!("rust/Makefile")),
    ("README.md", template!("rust/README.md")),
    ("src/api/mod.rs", template!("rust/api_mod.rs")),
    ("src/controller/mod.rs", template!("rust/controller_mod.rs")),
    ("src/lib.rs", template!("rust/lib.rs")),
    ("src/main.rs", template!("rust/main.rs")),
    ("config/crd/kustomization.yaml", template!("rust/config/crd/kustomization.yaml")),
    ("config/default/kustomization.yaml", template!("rust/config/default/kustomization.yaml")),
    ("config/manager/kustomization.yaml", template!("rust/config/manager/kustomization.yaml")),
    ("config/manager/manager.yaml", template!("rust/config/manager/manager.yaml")),
    ("config/rbac/kustomization.yaml", template!("rust/config/rbac/kustomization.yaml")),
    ("config/webhook/kustomization.yaml", template!("rust/config/webhook/kustomization.yaml")),
    ("config/samples/kustomization.yaml", template!("config/samples/kustomization.yaml")),
    ("config/manifests/kustomization.yaml", template!("config/manifests/kustomization.yaml")),
    ("config/scorecard/bases/config.yaml", template!("config/scorecard/bases/config.yaml")),
    ("config/scorecard/kustomization.yaml", template!("config/scorecard/kustomization.yaml")),
    ("config/scorecard/patches/basic.config.yaml", template!("config/scorecard/patches/basic.config.yaml")),
    ("config/scorecard/patches/olm.config.yaml", template!("config/scorecard/patches/olm.config.yaml")),
];

/// The default image of objects: it does nothing and needs no privileges.
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// Path of the crate `steersman` in the source tree that this program was built from.
const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../steersman");

/// Package names that conflict with the project's dependencies.
const RESERVED_NAMES: [&str; 9] =
    ["alloc", "core", "kube", "schemars", "serde", "std", "steersman", "test", "tokio"];

/// Kinds that conflict with types used in the generated code.
const RESERVED_KINDS: [&str; 16] = [
    "Action",
    "Api",
    "Condition",
    "Conditions",
    "Context",
    "Controller",
    "Conversion",
    "CustomResource",
    "Denied",
    "Deployment",
    "Error",
    "JsonSchema",
    "Operator",
    "Result",
    "Review",
    "Self",
];

const KEYWORDS: [&str; 49] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct",
    "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where",
    "while",
];

/// Checks that the project's name is valid as a package name.
pub(crate) fn check_package_name(name: &str) -> Result<()> {
    let crate_name = name.replace('-', "_");
    if RESERVED_NAMES.contains(&crate_name.as_str())
        || KEYWORDS.contains(&crate_name.as_str())
        || crate_name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(Error::Name {
            flag: "--project-name",
            value: name.to_owned(),
            reason: "it cannot be the name of an operator's Rust package".to_owned(),
        });
    }
    Ok(())
}

/// Adds the template values for a project's files.
pub(crate) fn add_values(values: &mut Value, project: &Project) -> Result<()> {
    let path = Path::new(CRATE).canonicalize().map_err(|_| {
        Error::usage(
            format!("the checkout that steer was built from is missing: {CRATE} not found"),
            "the crates are not published yet: build steer from a checkout that stays",
        )
    })?;
    values["CrateName"] = project.name().replace('-', "_").into();
    values["SteersmanPath"] = json!(path.display().to_string()).to_string().into();
    values["Repo"] = project.repo().into();
    values["RepoQuoted"] = json!(project.repo()).to_string().into();
    Ok(())
}

pub(crate) fn create_api(
    root: &Path,
    plan: &mut Plan,
    project: &mut Project,
    options: &ApiOptions,
    resource: &Resource,
) -> Result<()> {
    if RESERVED_KINDS.contains(&resource.kind.as_str()) {
        return Err(Error::Name {
            flag: "--kind",
            value: resource.kind.clone(),
            reason: "the scaffolded code already uses a type of that name".to_owned(),
        });
    }
    let other_group = project.resources().into_iter().find(|known| known.group != resource.group);
    if let Some(known) = other_group.filter(|_| !project.is_multigroup()) {
        return Err(Error::usage(
            format!("the kinds of this project are of the group {}", known.group),
            "`steer edit --multigroup` lets them be of several",
        ));
    }
    let existing = if options.force { Existing::Replace } else { Existing::Keep };
    let mut values = values(project);
    let image = options.image.as_deref().unwrap_or(IMAGE);
    add_kind(&mut values, project, resource);
    values["KindNamespaced"] = options.namespaced.into();
    values["Image"] = json!(image).to_string().into();

    let mut parts: Vec<(&str, Value)> = Vec::new();
    if options.resource {
        let modules = api_modules(project, resource);
        let text = render(template!("rust/types.rs"), &values)?;
        put_module(root, plan, "src", &modules, text, existing)?;
        let sample = resource.sample_file();
        plan.put(
            root,
            format!("config/samples/{sample}"),
            render(template!("rust/sample.yaml"), &values)?,
            existing,
        )?;
        list(root, plan, "config/samples/kustomization.yaml", &sample, "manifestskustomizesamples")?;
        write_user_roles(root, plan, project, resource)?;
        parts.push(("api.crdVersion", "v1".into()));
    }
    // A kind with several versions has one controller, for the first version.
    let is_first = !project.resources().iter().any(|known| {
        known.group == resource.group && known.kind == resource.kind && known.version != resource.version
    });
    if options.controller && is_first {
        let modules = modules(project, resource, "controller");
        let text = render(template!("rust/controller.rs"), &values)?;
        put_module(root, plan, "src", &modules, text, existing)?;
        build(root, plan, &format!(".controller({}::controller())", modules.join("::")))?;
        let test = format!("tests/{}.rs", file_stem(project, resource));
        plan.put(root, test, render(template!("rust/test.rs"), &values)?, existing)?;
        parts.push(("controller", true.into()));
    }
    project.record(resource, options.namespaced, &parts);
    Ok(())
}

/// Adds the template values for a kind's files.
pub(crate) fn add_kind(values: &mut Value, project: &Project, resource: &Resource) {
    values["CrateName"] = project.name().replace('-', "_").into();
    values["Group"] = resource.group.as_str().into();
    values["Version"] = resource.version.as_str().into();
    values["Kind"] = resource.kind.as_str().into();
    values["KindLower"] = resource.kind.to_ascii_lowercase().into();
    values["Plural"] = resource.plural.as_str().into();
    values["ApiModule"] = api_modules(project, resource).join("::").into();
}

/// Returns the module path of a kind's types.
pub(crate) fn api_modules(project: &Project, resource: &Resource) -> Vec<String> {
    let mut modules = modules(project, resource, "api");
    modules.insert(modules.len() - 1, resource.version.clone());
    modules
}

/// Returns the module path of a kind below one of the project's modules.
pub(crate) fn modules(project: &Project, resource: &Resource, outer: &str) -> Vec<String> {
    let mut modules = vec![outer.to_owned()];
    if project.is_multigroup() {
        modules.push(module_name(&resource.short_group));
    }
    modules.push(module_name(&resource.kind.to_ascii_lowercase()));
    modules
}

/// Returns the prefix of a kind's file names.
fn file_stem(project: &Project, resource: &Resource) -> String {
    modules(project, resource, "").into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

fn module_name(name: &str) -> String {
    let name = name.replace(['.', '-'], "_");
    if KEYWORDS.contains(&name.as_str()) { format!("{name}_") } else { name }
}

/// Writes a module and declares it in its parent modules.
pub(crate) fn put_module(
    root: &Path,
    plan: &mut Plan,
    source: &str,
    modules: &[String],
    text: String,
    existing: Existing,
) -> Result<()> {
    let mut directory = source.to_owned();
    for (index, module) in modules.iter().enumerate() {
        let parent = if index == 0 { format!("{directory}/lib.rs") } else { format!("{directory}/mod.rs") };
        if plan.text(root, &parent)?.is_none() {
            let outer = modules.get(index - 1).map_or("", String::as_str);
            let text = format!("//! The kinds of {outer}.\n\n// +kubebuilder:scaffold:imports\n");
            plan.put(root, parent.as_str(), text, Existing::Keep)?;
        }
        let line = format!("pub mod {module};");
        let declared = plan.text(root, &parent)?.unwrap_or_default();
        if !declared.lines().any(|known| known.trim() == line) {
            plan.insert(root, &parent, "imports", &line)?;
        }
        directory = format!("{directory}/{module}");
    }
    plan.put(root, format!("{directory}.rs"), text, existing)
}

/// Adds a call to the function that builds the operator, unless it is there already.
pub(crate) fn build(root: &Path, plan: &mut Plan, call: &str) -> Result<()> {
    let text = plan.text(root, "src/lib.rs")?.unwrap_or_default();
    if text.contains(call) {
        return Ok(());
    }
    plan.insert(root, "src/lib.rs", "builder", &format!("        {call}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions in the template are those of the workspace.
    #[test]
    fn dependencies_are_those_of_the_workspace() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let workspace = std::fs::read_to_string(path).unwrap();
        let template = include_str!("../templates/rust/manifest.toml");
        let version = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap().to_owned();
            let line = line.replace("version = ", "");
            line.split('"').nth(1).unwrap().to_owned()
        };
        for name in
            ["k8s-openapi", "kube", "schemars", "serde", "serde_json", "tokio", "rust-version", "edition"]
        {
            assert_eq!(version(template, name), version(&workspace, name), "{name}");
        }
    }

    #[test]
    fn modules_are_never_keywords() {
        assert_eq!(module_name("type"), "type_");
        assert_eq!(module_name("batch.tutorial-x"), "batch_tutorial_x");
    }
}
