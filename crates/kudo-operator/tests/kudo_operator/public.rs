//! The packages of the public operators repository, on the embedded cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use steersman_cluster::Cluster;
use steersman_kudo::{Package, package};
use steersman_kudo_operator::{Admission, Kudo, KudoOperator, SERVICE, SimulatedFiles, Wait};

fn find(directory: &Path, packages: &mut Vec<PathBuf>) {
    if package::is_package(directory) {
        packages.push(directory.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        find(&entry.path(), packages);
    }
}

/// Deploys a package, updates a parameter, starts a plan and uninstalls it. Returns how far it got.
async fn run(path: &Path, all: &[PathBuf]) -> Result<String, String> {
    let text = |error: steersman_kudo_operator::Error| error.to_string();
    let packages = package::with_dependencies(path).map_err(|error| error.to_string())?;
    let cluster = Cluster::start().await.map_err(|error| error.to_string())?;
    let admission = Admission::new(cluster.client());
    cluster.webhooks_by("default", SERVICE, move |request| admission.clone().answer(request));
    let kudo = Kudo::new(cluster.client(), "default");
    kudo.init().await.map_err(text)?;
    kudo.register_webhook("default").await.map_err(text)?;
    let operator = KudoOperator::new().files(SimulatedFiles).operator();
    let running = tokio::spawn(operator.run_until(cluster.client(), std::future::pending()));
    // Tasks refer to other operators by version, which have to exist.
    for path in all {
        let package = package::with_dependencies(path).map_err(|error| error.to_string())?;
        kudo.install_packages(&package).await.map_err(text)?;
    }
    kudo.install(&packages, Some("test"), Default::default()).await.map_err(text)?;
    let done = drive(&kudo, &packages[0]).await;
    if let Err(error) = done {
        let instance = kudo.instance("test").await.map_err(text)?;
        running.abort();
        return Err(format!(
            "{error}\n{}",
            serde_json::to_string(&instance.status.plan_status).unwrap_or_default()
        ));
    }
    kudo.uninstall("test", Wait::For(Duration::from_secs(600))).await.map_err(text)?;
    running.abort();
    done
}

/// Runs the deploy plan, that of a changed parameter, and one started by name.
async fn drive(kudo: &Kudo, package: &Package) -> Result<String, String> {
    let text = |error: steersman_kudo_operator::Error| error.to_string();
    let limit = Duration::from_secs(1200);
    let mut ran = vec![kudo.wait("test", limit).await.map_err(text)?.name];
    let version = package.operator_version("default").map_err(|error| error.to_string())?;
    // Setting a default explicitly is a change, too, and one that every package accepts.
    let changed = version.spec.parameters.iter().find(|one| {
        let is_deployed = matches!(one.trigger.as_str(), "" | "deploy" | "update");
        is_deployed && !one.is_immutable() && one.default.as_ref().is_some_and(|default| !default.is_empty())
    });
    if let Some(parameter) = changed {
        let value = parameter.default.clone().unwrap_or_default();
        kudo.update("test", [(parameter.name.clone(), value)].into()).await.map_err(text)?;
        ran.push(format!("{} by {}", kudo.wait("test", limit).await.map_err(text)?.name, parameter.name));
    }
    let usual = ["deploy", "update", "upgrade", "cleanup"];
    // A Dummy task that never completes marks a plan that is not meant to be started.
    let is_endless = |name: &String| {
        version
            .spec
            .task(name)
            .is_some_and(|task| task.kind == "Dummy" && (!task.spec.done || task.spec.want_err))
    };
    let plan = version.spec.plans.iter().find(|(name, plan)| {
        let mut tasks = plan.phases.iter().flat_map(|phase| &phase.steps).flat_map(|step| &step.tasks);
        !usual.contains(&name.as_str()) && !tasks.any(is_endless)
    });
    let plan = plan.map_or("deploy", |(name, _)| name.as_str());
    kudo.trigger("test", plan, Default::default()).await.map_err(text)?;
    ran.push(kudo.wait("test", limit).await.map_err(text)?.name);
    Ok(format!("ran {}, and was uninstalled", ran.join(", ")))
}

#[tokio::test(start_paused = true)]
#[ignore = "needs a checkout of the public operators repository in STEERSMAN_KUDO_OPERATORS"]
async fn public_packages_run_to_complete() {
    let root =
        std::env::var_os("STEERSMAN_KUDO_OPERATORS").expect("STEERSMAN_KUDO_OPERATORS names the checkout");
    let only = std::env::var("STEERSMAN_KUDO_ONLY").unwrap_or_default();
    let mut packages = Vec::new();
    find(Path::new(&root), &mut packages);
    packages.sort();
    let mut all = packages.clone();
    if let Some(more) = std::env::var_os("STEERSMAN_KUDO_MORE") {
        find(Path::new(&more), &mut all);
    }
    let mut complete = 0;
    for path in packages.iter().filter(|path| path.to_string_lossy().contains(&only)) {
        match run(path, &all).await {
            Ok(how) => {
                complete += 1;
                println!("ok   {}: {how}", path.display());
            }
            Err(why) => println!("FAIL {}: {why}", path.display()),
        }
    }
    println!("{complete} of {} packages", packages.len());
}
