//! `steer dev`.

pub(super) mod events;
pub(super) mod project;
mod screen;
mod view;

use std::io::{IsTerminal as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use steersman::Operator;
use steersman_cluster::{Cluster, KUBERNETES_VERSION};
use steersman_helm_operator::{Defaults, add_watches};

use self::project::Project;
use self::screen::Screen;
use self::view::View;
use crate::args::GlobalArgs;
use crate::commands::cluster::{Claim, DEFAULT_KUBECONFIG, interrupted};
use crate::failure::{Failure, Result};

const ABOUT: &str = "\
Run a project on an embedded cluster, live

Starts a cluster in this process, installs the project's definitions and role, runs its operator with that role, applies
its samples, and shows what becomes of them, here and in the portal, which has the REST API of `steer serve`. Nothing else has to be installed, and Ctrl-C leaves nothing behind.";

const EXAMPLES: &str = "\
Examples:
  steer dev examples/minimart
  steer dev . --kubeconfig ./kubeconfig          for kubectl in another terminal
  steer dev . --until-ready                      ends when all samples are ready: for scripts
  steer dev . --until-ready -o json";

/// How often the view is brought up to date.
const LOOK: Duration = Duration::from_millis(200);

/// Run a project on an embedded cluster, live
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// Directory with watches.yaml and config/
    #[arg(default_value = ".")]
    project: PathBuf,

    /// Port to listen on [default: one that is free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// End when all samples are ready
    #[arg(long, visible_alias = "once")]
    until_ready: bool,

    /// With --until-ready, fail after this long
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = super::release::duration)]
    timeout: Duration,

    /// Keep the cluster's data in .steer/cluster, and start from it
    #[arg(long)]
    keep: bool,

    /// Do not apply the samples
    #[arg(long)]
    no_samples: bool,

    /// How to show what happens [default: a live view on a terminal, else a line for each change]
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A view that is drawn again and again.
    Live,
    /// A line for each change.
    Plain,
    /// A JSON object for each change.
    Json,
}

impl Dev {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        crate::runtime::multi_thread()?.block_on(self.serve(globals))
    }

    async fn serve(self, globals: &GlobalArgs) -> Result {
        let format =
            self.output.unwrap_or(if std::io::stdout().is_terminal() { Format::Live } else { Format::Plain });
        let project = Project::load(&self.project)?;
        let say = |text: &str| {
            if format != Format::Json {
                let _ = writeln!(anstream::stdout(), " ✓ {text}");
            }
        };

        let path = globals.kubeconfig.clone().unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
        let shown = path.display().to_string();
        let claim = Claim::new(path)?;
        let begun = Instant::now();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or_default()));
        let mut builder = Cluster::builder().listen(address).record_access(true);
        if self.keep {
            builder = builder.data_directory(".steer/cluster");
        }
        let cluster = builder.start().await.map_err(|error| Failure::new(error.to_string()))?;
        let spent = begun.elapsed().as_millis();
        let file = claim.write(&cluster)?;
        say(&format!(
            "embedded cluster    Kubernetes {KUBERNETES_VERSION} API in {spent} ms      KUBECONFIG={shown}"
        ));

        let client = cluster.client();
        for name in project.install_definitions(&client).await? {
            say(&format!("{name} established"));
        }
        let account = project.install_role(&client).await?;
        let operator_client = match &account {
            Some(account) => cluster.client_as(account.user()),
            None => client.clone(),
        };
        let failed = |error: steersman_helm_operator::Error| Failure::new(error.to_string());
        let mut operator = Operator::new("helm-operator");
        if project.is_namespaced {
            operator = operator.namespaces([project::NAMESPACE]);
        }
        let defaults = Defaults { max_concurrent_reconciles: 16, ..Defaults::default() };
        let operator =
            add_watches(operator, &project.watches, &defaults, &operator_client).await.map_err(failed)?;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(operator.run_until(operator_client, async {
            // Dropping the sender stops the operator as well.
            let _ = stopped.await;
        }));
        match &account {
            Some(account) => {
                say(&format!("operator running as {} ({} permissions)", account.name, account.permissions));
            }
            None => say("operator running as administrator: there is no role in config/rbac"),
        }
        let mut samples = Vec::new();
        if !self.no_samples {
            samples = project.apply_samples(&client).await?;
            for sample in &samples {
                say(&format!("{} applied", sample.file));
            }
        }

        if !self.until_ready {
            let gateway = super::serve::beside(&cluster, project.samples()?).await?;
            say(&format!("portal              {}      (this link signs you in once)", gateway.link));
            tokio::spawn(gateway.serve());
        }

        let user = account.as_ref().map(|account| account.user().name);
        let view = View::new(client, project.watches.clone(), cluster.clone(), user).await?;
        let mut screen = Screen::new(format);
        let watched = self.watch(&view, &mut screen, begun, samples.len());
        let ended = tokio::select! {
            ended = watched => ended,
            signal = interrupted() => signal.map_err(|error| Failure::new(format!("cannot wait for signals: {error}"))),
        };
        drop(stop);
        let operator = running.await.map_err(|error| Failure::new(format!("the operator ended: {error}")))?;
        drop(file);
        ended.and(operator.map_err(|error| Failure::new(error.to_string())))
    }

    /// Shows the view until everything is ready, or for ever.
    async fn watch(&self, view: &View, screen: &mut Screen, begun: Instant, samples: usize) -> Result {
        loop {
            let scene = view.look().await?;
            screen.show(&scene);
            let objects = &scene.objects;
            let ready = objects.len() >= samples && objects.iter().all(|object| object.ready);
            if self.until_ready && ready {
                screen.finish(&scene, begun.elapsed());
                return Ok(());
            }
            if ready {
                screen.hint(&scene);
            }
            if self.until_ready && begun.elapsed() >= self.timeout {
                let waiting: Vec<String> = objects
                    .iter()
                    .filter(|object| !object.ready)
                    .map(|object| format!("{}: {}", object.title, object.state))
                    .collect();
                return Err(Failure::new(format!(
                    "not ready after {} s: {}",
                    self.timeout.as_secs(),
                    waiting.join("; ")
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
