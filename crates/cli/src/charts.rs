//! Locates and loads charts and values: from disk, standard input or the network.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use steersman_chart::{Chart, Interrupt, Values};

use crate::args::{ChartArgs, GlobalArgs, ValuesArgs};
use crate::failure::{self, Failure, Result};
use crate::remote;

/// Renders with a timeout, after which `interrupt` aborts the render.
pub(crate) fn within<T>(timeout: Duration, interrupt: &Interrupt, render: impl FnOnce() -> T) -> T {
    let (done, finished) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Err(mpsc::RecvTimeoutError::Timeout) = finished.recv_timeout(timeout) {
                interrupt.raise(format!("exceeded the time limit of {timeout:?}"));
            }
        });
        let rendered = render();
        drop(done);
        rendered
    })
}

/// A located chart.
pub(crate) enum Located {
    /// A directory or archive on disk.
    Local(PathBuf),
    /// A fetched archive.
    Fetched(Vec<u8>),
}

impl Located {
    /// Locates a chart as Helm does: an existing path takes precedence over any other interpretation.
    pub(crate) fn find(name: &str, args: &ChartArgs, globals: &GlobalArgs) -> Result<Self> {
        args.check()?;
        let name = name.trim();
        let path = Path::new(name);
        if path.exists() {
            if let Some(url) = &args.repo {
                failure::warn(&format!("{name} is a chart in this directory, --repo {url} is ignored"));
            }
            let path = std::path::absolute(path).map_err(|error| Failure::new(format!("{name}: {error}")))?;
            return Ok(Self::Local(path));
        }
        if path.is_absolute() || name.starts_with('.') {
            return Err(Failure::new(format!("path {name:?} not found")));
        }
        Ok(Self::Fetched(remote::chart(name, args, globals)?))
    }

    /// Loads the chart.
    pub(crate) fn load(&self) -> Result<Chart> {
        Ok(match self {
            Self::Local(path) => Chart::load(path)?,
            Self::Fetched(data) => Chart::from_archive(data)?,
        })
    }

    /// Loads the chart and checks that it can be installed; `update` fetches missing dependencies.
    pub(crate) fn load_installable(
        &self,
        update: bool,
        args: &ChartArgs,
        globals: &GlobalArgs,
    ) -> Result<Chart> {
        let mut chart = self.load()?;
        chart.check_installable()?;
        if chart.metadata().deprecated {
            failure::warn("This chart is deprecated");
        }
        if let Err(error) = chart.check_dependencies() {
            let Self::Local(path) = self else { return Err(error.into()) };
            if !update {
                let hint = "fetch them with --dependency-update, or once with `steer chart dependency build`";
                return Err(Failure::from(error).help(hint));
            }
            remote::update_dependencies(path, args, globals)?;
            chart =
                self.load().map_err(|failure| failure.within("failed reloading chart after repo update"))?;
        }
        Ok(chart)
    }
}

/// Merges the values of all flags.
pub(crate) fn values(args: &ValuesArgs, globals: &GlobalArgs) -> Result<Values> {
    let mut read = |name: &str| read_file(name, globals);
    Ok(args.options().merge(&mut read)?)
}

/// Reads a file named by a flag: a path, a URL, or `-` for standard input.
fn read_file(name: &str, globals: &GlobalArgs) -> std::result::Result<Vec<u8>, String> {
    if name.trim() == "-" {
        let mut data = Vec::new();
        io::stdin().lock().read_to_end(&mut data).map_err(|error| error.to_string())?;
        return Ok(data);
    }
    if name.starts_with("http://") || name.starts_with("https://") {
        return remote::file(name, globals).map_err(|failure| failure.message().to_owned());
    }
    std::fs::read(name).map_err(|error| format!("open {name}: {}", go_words(&error)))
}

/// Returns Go's wording of an operating system error.
pub(crate) fn go_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "is a directory".into(),
        io::ErrorKind::NotADirectory => "not a directory".into(),
        _ => error.to_string(),
    }
}
