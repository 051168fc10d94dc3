//! Packages that other packages install by KudoOperator tasks.

use std::path::{Path, PathBuf};

use super::{OPERATOR_FILE, Package, files_of};
use crate::error::{Error, Problem};

/// The maximum number of packages that one can depend on.
const MAX_PACKAGES: usize = 64;

/// Reads a package and those that its KudoOperator tasks refer to by path, relative to its directory.
///
/// The tasks are changed to refer to the operators and versions found. The package itself comes first. Tasks that name an
/// operator and its version are left unchanged: that operator version has to exist in the cluster.
///
/// # Errors
/// Fails if a package is invalid, cannot be read, or depends on itself.
pub fn with_dependencies(path: &Path) -> Result<Vec<Package>, Error> {
    all(path, true)
}

/// Reads a package like [`with_dependencies`], to upgrade existing instances. It may lack a `deploy` plan.
///
/// # Errors
/// Fails if a package is invalid, cannot be read, or depends on itself.
pub fn for_upgrade(path: &Path) -> Result<Vec<Package>, Error> {
    all(path, false)
}

fn all(path: &Path, needs_deploy: bool) -> Result<Vec<Package>, Error> {
    let mut packages = Vec::new();
    add(path, needs_deploy, &mut Vec::new(), &mut packages)?;
    packages.reverse();
    Ok(packages)
}

fn add(
    path: &Path,
    needs_deploy: bool,
    above: &mut Vec<PathBuf>,
    packages: &mut Vec<Package>,
) -> Result<Package, Error> {
    let mut package = Package::load(&files_of(path)?, needs_deploy)?;
    let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let invalid = |message: String| {
        let file = path.join(OPERATOR_FILE).display().to_string();
        Error::Invalid(vec![Problem { file, line: None, message }])
    };
    if above.contains(&place) || above.len() >= MAX_PACKAGES {
        let mut way: Vec<String> = above.iter().map(|place| place.display().to_string()).collect();
        way.push(place.display().to_string());
        return Err(invalid(format!("cyclic package dependency: {}", way.join(" -> "))));
    }
    above.push(place);
    for task in package.operator.tasks.iter_mut().filter(|task| task.kind == "KudoOperator") {
        let named = task.spec.package.clone();
        if !(named.starts_with("./") || named.starts_with("../")) {
            if task.spec.operator_version.is_empty() {
                return Err(invalid(format!(
                    "task {}: package {named} is not a path (./ or ../), so operatorVersion is required",
                    task.name
                )));
            }
            continue;
        }
        if path.is_file() {
            return Err(invalid(format!("task {}: {named} is outside of the archive", task.name)));
        }
        let child = add(&path.join(&named), true, above, packages)?;
        task.spec.package.clone_from(&child.operator.name);
        task.spec.operator_version.clone_from(&child.operator.operator_version);
        task.spec.app_version.clone_from(&child.operator.app_version);
    }
    above.pop();
    let is_new = packages.iter().all(|known| known.version_name() != package.version_name());
    if is_new {
        packages.push(package.clone());
    }
    Ok(package)
}
