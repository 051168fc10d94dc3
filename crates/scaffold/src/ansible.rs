//! Projects of Ansible operators, which run roles and playbooks.

use std::path::Path;

use serde_json::{Value, json};

use crate::api::ApiOptions;
use crate::error::{Error, Result};
use crate::files::{Existing, Plan};
use crate::helm::{list, put_needs, watch, write_crd, write_user_roles};
use crate::layout::{ROLE, values};
use crate::project::{Project, Resource};
use crate::role::Needs;
use crate::schema::open_object;
use crate::templates::{Template, render, template};

/// The files of a project that differ from those of chart projects.
pub(crate) const FILES: &[(&str, Template)] = &[
    (".gitignore", template!("ansible/gitignore")),
    ("Dockerfile", template!("ansible/Dockerfile")),
    ("Makefile", template!("ansible/Makefile")),
    ("requirements.yml", template!("ansible/requirements.yml")),
    ("watches.yaml", template!("ansible/watches.yaml")),
    // Git keeps no empty directories, and the Dockerfile copies these.
    ("playbooks/.placeholder", ("ansible/placeholder", "")),
    ("roles/.placeholder", ("ansible/placeholder", "")),
    ("config/manager/manager.yaml", template!("ansible/manager.yaml")),
    (ROLE, template!("ansible/rbac_role.yaml")),
];

/// The files of a role, under roles/<kind>/.
const ROLE_FILES: &[(&str, Template)] = &[
    ("README.md", template!("ansible/role/README.md")),
    ("defaults/main.yml", template!("ansible/role/defaults.yml")),
    ("files/.placeholder", ("ansible/placeholder", "")),
    ("handlers/main.yml", template!("ansible/role/handlers.yml")),
    ("meta/main.yml", template!("ansible/role/meta.yml")),
    ("tasks/main.yml", template!("ansible/role/tasks.yml")),
    ("templates/.placeholder", ("ansible/placeholder", "")),
    ("vars/main.yml", template!("ansible/role/vars.yml")),
];

/// The test case of a kind, under tests/e2e/<kind>/, in place of operator-sdk's Molecule scenario.
const TEST_FILES: &[(&str, Template)] = &[
    ("00-install.yaml", template!("ansible/e2e_object.yaml")),
    ("00-assert.yaml", template!("ansible/e2e_assert.yaml")),
    ("01-delete.yaml", template!("ansible/e2e_delete.yaml")),
    ("01-errors.yaml", template!("ansible/e2e_errors.yaml")),
];

const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

pub(crate) fn create_api(
    root: &Path,
    plan: &mut Plan,
    project: &mut Project,
    options: &ApiOptions,
    resource: &Resource,
) -> Result<()> {
    if options.image.is_some() {
        return Err(Error::usage(
            "--image is not supported in Ansible projects",
            "the tasks of the role name the images of an Ansible project",
        ));
    }
    let existing = if options.force { Existing::Replace } else { Existing::Keep };
    let kind = resource.kind.to_ascii_lowercase();
    let mut values = values(project);
    values["Group"] = resource.group.as_str().into();
    values["Version"] = resource.version.as_str().into();
    values["Kind"] = resource.kind.as_str().into();
    values["KindLower"] = kind.as_str().into();
    values["HasRole"] = options.generate_role.into();

    let put = |plan: &mut Plan, path: String, template: Template| {
        plan.put(root, path, render(template, &values)?, existing)
    };
    let mut parts: Vec<(&str, Value)> = Vec::new();
    if options.resource {
        write_definition(root, plan, options, resource, existing)?;
        let sample = resource.sample_file();
        put(plan, format!("config/samples/{sample}"), template!("ansible/sample.yaml"))?;
        list(root, plan, "config/samples/kustomization.yaml", &sample, "manifestskustomizesamples")?;
        write_user_roles(root, plan, project, resource)?;
        parts.push(("api.crdVersion", "v1".into()));
    }
    if options.generate_role {
        for (file, template) in ROLE_FILES {
            put(plan, format!("roles/{kind}/{file}"), *template)?;
        }
    }
    if options.generate_playbook {
        put(plan, format!("playbooks/{kind}.yml"), template!("ansible/playbook.yml"))?;
    }
    if options.controller {
        let run = match (options.generate_playbook, options.generate_role) {
            (true, _) => format!("playbook: playbooks/{kind}.yml"),
            (false, true) => format!("role: {kind}"),
            (false, false) => "# Name a role or a playbook here: role: NAME, or playbook: PATH".to_owned(),
        };
        // Marks strings from objects as unsafe, so that Ansible never evaluates them as templates.
        watch(root, plan, resource, &format!("{run}\n  markUnsafe: true"))?;
        write_rules(root, plan, project, options, resource)?;
    }
    if options.controller && options.namespaced && (options.generate_role || options.generate_playbook) {
        for (file, template) in TEST_FILES {
            put(plan, format!("tests/e2e/{kind}/{file}"), *template)?;
        }
    }
    project.record(resource, options.namespaced, &parts);
    Ok(())
}

/// Writes a definition that accepts any field: the spec's fields become the variables of a play.
fn write_definition(
    root: &Path,
    plan: &mut Plan,
    options: &ApiOptions,
    resource: &Resource,
    existing: Existing,
) -> Result<()> {
    let kind = &resource.kind;
    let condition = |kind: &str| format!(".status.conditions[?(@.type==\"{kind}\")]");
    let columns = json!([
        { "name": "Successful", "type": "string", "jsonPath": format!("{}.status", condition("Successful")) },
        { "name": "Running", "type": "string", "jsonPath": format!("{}.reason", condition("Running")) },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
    ]);
    let spec = open_object(&format!("Spec defines the desired state of {kind}: the variables of its play."));
    let definition = crate::crd::definition(resource, options.namespaced, spec, columns);
    write_crd(root, plan, resource, &definition, existing)
}

fn write_rules(
    root: &Path,
    plan: &mut Plan,
    project: &Project,
    options: &ApiOptions,
    resource: &Resource,
) -> Result<()> {
    let mut needs = Needs::default();
    let permissions = if options.namespaced { &mut needs.inside } else { &mut needs.outside };
    for part in ["", "/status", "/finalizers"] {
        permissions.allow(&resource.group, &format!("{}{part}", resource.plural), &[], &VERBS);
    }
    put_needs(root, plan, project, resource, needs, options.force)
}

/// Plans the RBAC rules of a project's kinds for a directory other than the project's.
pub(crate) fn plan_rbac(root: &Path, target: &Path, plan: &mut Plan, project: &Project) -> Result<()> {
    for resource in project.resources() {
        let namespaced = crate::generate::is_namespaced(root, &resource)?;
        let options = ApiOptions { namespaced, ..ApiOptions::default() };
        write_rules(target, plan, project, &options, &resource)?;
    }
    Ok(())
}
