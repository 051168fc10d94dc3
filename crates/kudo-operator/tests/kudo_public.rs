//! The packages of the public operators repository, run on the embedded cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use steersman_cluster::Cluster;
use steersman_kudo::package;
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

/// Deploys a package and uninstalls it. How far it came.
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
    // Tasks name other operators by their versions: these have to be there.
    for path in all {
        let package = package::with_dependencies(path).map_err(|error| error.to_string())?;
        kudo.install_packages(&package).await.map_err(text)?;
    }
    kudo.install(&packages, Some("test"), Default::default()).await.map_err(text)?;
    let ended = kudo.wait("test", Duration::from_secs(1200)).await;
    if let Err(error) = ended {
        let instance = kudo.instance("test").await.map_err(text)?;
        running.abort();
        return Err(format!(
            "{error}\n{}",
            serde_json::to_string(&instance.status.plan_status).unwrap_or_default()
        ));
    }
    kudo.uninstall("test", Wait::For(Duration::from_secs(600))).await.map_err(text)?;
    running.abort();
    Ok("deployed and uninstalled".into())
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
