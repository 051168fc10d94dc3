//! Runs a KUDO package as the operator of a project.

use std::net::SocketAddr;
use std::path::PathBuf;

use kube::api::{Patch, PatchParams};
use steersman::Operator;
use steersman_kudo::{OperatorVersion, Package as Content};
use steersman_kudo_operator::{Admission, Kudo, KudoOperator, SERVICE, SimulatedFiles};

use super::operators::{InProcess, OperatorEnvironment};
use super::project::NAMESPACE;
use crate::commands::kudo;
use crate::failure::{Failure, Result};

/// The directory of a KUDO package.
pub(crate) struct Package(PathBuf);

impl Package {
    pub(super) fn load(path: PathBuf) -> Result<Self> {
        Ok(Self(path))
    }

    /// Installs KUDO's definitions and the package, and starts the operator.
    pub(super) async fn start(&self, place: &OperatorEnvironment, metrics: SocketAddr) -> Result<InProcess> {
        let packages = kudo::read(&self.0)?;
        let client = place.cluster.client();
        let admission = Admission::new(client.clone());
        place.cluster.webhooks_by(NAMESPACE, SERVICE, move |request| admission.clone().answer(request));
        let kudo = Kudo::new(client.clone(), NAMESPACE);
        kudo.init().await?;
        kudo.register_webhook(NAMESPACE).await?;
        place.board.say("operators, operatorversions and instances of kudo.dev established");
        let operator = InProcess::start(operator(metrics), client);
        for line in kudo.install(&packages, None, Default::default()).await? {
            place.board.say(&line);
        }
        Ok(operator)
    }

    /// Updates the cluster from the package's files, and restarts the operator if it has ended.
    pub(super) async fn reload(
        &self,
        place: &OperatorEnvironment,
        running: &mut Option<InProcess>,
        metrics: SocketAddr,
    ) -> Result {
        let packages = kudo::read(&self.0)?;
        if running.is_none() {
            *running = Some(InProcess::start(operator(metrics), place.cluster.client()));
            place.board.say("operator restarted");
        }
        replace(place, &packages).await
    }
}

fn operator(metrics: SocketAddr) -> Operator {
    KudoOperator::new().files(SimulatedFiles).operator().metrics_address(metrics)
}

/// Replaces the installed package, and runs the plan that updates its instance.
async fn replace(place: &OperatorEnvironment, packages: &[Content]) -> Result {
    let Some(package) = packages.first() else { return Ok(()) };
    let kudo = Kudo::new(place.cluster.client(), NAMESPACE);
    let params = PatchParams::apply("steer-dev").force();
    for package in packages {
        let version = package.operator_version(NAMESPACE).map_err(Failure::from)?;
        let name = package.version_name();
        kudo.api::<OperatorVersion>().patch(&name, &params, &Patch::Apply(&version)).await?;
    }
    let instance = format!("{}-instance", package.operator.name);
    let plans = &package.operator.plans;
    let plan = ["update", "deploy"].into_iter().find(|name| plans.contains_key(*name)).unwrap_or("deploy");
    kudo.trigger(&instance, plan, Default::default()).await?;
    place.board.say(&format!("{} replaced, plan {plan} started", package.version_name()));
    Ok(())
}
