//! Creates projects.

use std::path::{Path, PathBuf};

use crate::api::{self, ApiOptions};
use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::project::{FILE, Plugin, Project};
use crate::update::Base;
use crate::{layout, names, rust};

/// The default domain of a project, as in operator-sdk.
pub const DEFAULT_DOMAIN: &str = "my.domain";

/// Maximum number of files listed in the error for a directory that is not empty.
const NAMED: usize = 5;

/// The licence of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum License {
    /// Apache-2.0.
    #[default]
    Apache2,
    /// None.
    None,
}

impl License {
    /// The licence's SPDX identifier; empty for none.
    pub(crate) fn spdx(self) -> &'static str {
        match self {
            Self::Apache2 => "Apache-2.0",
            Self::None => "",
        }
    }
}

/// The options of a new project.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The plugin, which determines the type of operator.
    pub plugin: Plugin,
    /// The project's name. Default: the directory's name in lower case.
    pub project_name: Option<String>,
    /// The domain, which is the suffix of its API groups. Default: [`DEFAULT_DOMAIN`].
    pub domain: String,
    /// The URL or path of its repository. Default: none.
    pub repo: String,
    /// The copyright owner. Default: none.
    pub owner: String,
    /// Its licence. Default: Apache-2.0.
    pub license: License,
    /// Whether the operator watches only its own namespace. Default: no, it watches all.
    pub namespaced: bool,
    /// Whether its kinds may belong to several API groups. Default: no.
    pub multigroup: bool,
    /// Files that may already exist in the directory, such as the chart. Default: none.
    pub beside: Vec<PathBuf>,
}

impl InitOptions {
    /// Returns the default options for a plugin.
    #[must_use]
    pub fn new(plugin: Plugin) -> Self {
        Self {
            plugin,
            project_name: None,
            domain: DEFAULT_DOMAIN.to_owned(),
            repo: String::new(),
            owner: String::new(),
            license: License::default(),
            namespaced: false,
            multigroup: false,
            beside: Vec::new(),
        }
    }
}

/// Creates a project in a directory, with a first kind if one is given. Existing files are kept.
///
/// # Errors
/// Fails if a name is not valid, the directory contains other files or another project, or a file cannot be written.
pub fn init(root: &Path, options: &InitOptions, api: Option<&ApiOptions>) -> Result<Vec<Written>> {
    let name = match &options.project_name {
        Some(name) => name.clone(),
        None => directory_name(root)?,
    };
    names::check_project_name(&name)?;
    if !options.domain.is_empty() {
        names::check_domain(&options.domain)?;
    }
    if options.plugin == Plugin::Rust {
        rust::check_package_name(&name)?;
    }
    let mut is_new = false;
    let mut project = match Project::load(root) {
        Ok(project) => {
            check_same(&project, &name, options)?;
            project
        }
        Err(Error::NotAProject(_)) => {
            check_empty(root, &options.beside)?;
            is_new = true;
            let mut project = Project::new(&name, &options.domain, options.plugin, &options.repo);
            project.record_own("owner", &options.owner);
            project.record_own("license", options.license.spdx());
            project.set_flag("namespaced", options.namespaced);
            project.set_flag("multigroup", options.multigroup);
            project
        }
        Err(error) => return Err(error),
    };
    let mut plan = Plan::default();
    for (path, text) in layout::files(&project)? {
        plan.put(root, path, text, Existing::Keep)?;
    }
    if let Some(api) = api {
        api::plan(root, &mut plan, &mut project, api)?;
    }
    put_project(root, &mut plan, &project)?;
    if is_new {
        Base::default().complete(root, &mut plan, &project)?;
    } else {
        Base::complete_known(root, &mut plan, &project)?;
    }
    plan.write(root)
}

/// Writes PROJECT, unless it is up to date.
pub(crate) fn put_project(root: &Path, plan: &mut Plan, project: &Project) -> Result<()> {
    match Project::load(root) {
        Ok(known) if known == *project => Ok(()),
        Ok(_) | Err(Error::NotAProject(_)) => plan.put(root, FILE, project.to_text()?, Existing::Replace),
        Err(error) => Err(error),
    }
}

fn directory_name(root: &Path) -> Result<String> {
    let path = std::path::absolute(root).map_err(Error::io(root))?;
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    name.ok_or(Error::Missing("--project-name"))
}

fn check_same(project: &Project, name: &str, options: &InitOptions) -> Result<()> {
    let other = |what: &str, known: &str, given: &str| {
        Error::usage(
            format!("the project already exists with {what} {known:?}, not {given:?}"),
            "`steer create api` adds kinds, `steer edit` changes how it works",
        )
    };
    if options.project_name.is_some() && project.name() != name {
        return Err(other("name", project.name(), name));
    }
    if options.domain != DEFAULT_DOMAIN && project.domain() != options.domain {
        return Err(other("domain", project.domain(), &options.domain));
    }
    let plugin = project.plugin()?;
    if plugin != options.plugin {
        return Err(other("plugin", plugin.key(), options.plugin.key()));
    }
    Ok(())
}

/// Checks that the directory is empty, apart from files of version control, editors and licences.
fn check_empty(root: &Path, beside: &[PathBuf]) -> Result<()> {
    let mut files = Vec::new();
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(root)(error)),
    };
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    for entry in entries {
        let entry = entry.map_err(Error::io(root))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_usual = name.starts_with('.')
            || ["LICENSE", "README", "NOTICE"].iter().any(|usual| name.starts_with(usual));
        if !is_usual && !beside.iter().any(|path| same(path, &entry.path())) {
            files.push(name);
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    files.sort();
    let more = files.len().saturating_sub(NAMED);
    files.truncate(NAMED);
    if more > 0 {
        files.push(format!("and {more} more"));
    }
    Err(Error::NotEmpty { directory: root.to_owned(), files })
}
