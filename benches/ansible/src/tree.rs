//! A process with all of its descendants, and their resource usage.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The grace period of a process.
const GRACE: Duration = Duration::from_secs(20);
/// The kernel's unit of processor time: hundredths of a second.
const TICKS: f64 = 100.0;

/// A process that is stopped on drop.
pub(crate) struct Tree(Child);

/// The kernel's accounting of one process.
struct Account {
    parent: u32,
    /// Its own processor time, and that of its children that were waited for.
    seconds: f64,
}

impl Tree {
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let file = std::fs::File::create(log).map_err(|error| error.to_string())?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        child.map(Self).map_err(|error| format!("{command:?}: {error}"))
    }

    /// Returns the processor time of all of them so far, including exited ones, in seconds.
    pub(crate) fn processor(&self) -> Result<f64, String> {
        Ok(self.members()?.iter().map(|(_, account)| account.seconds).sum())
    }

    /// Returns their total memory in MiB; memory shared between them counts once.
    pub(crate) fn memory(&self) -> Result<f64, String> {
        let proportional = |process: u32| {
            let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        // A process that has exited in the meantime uses none.
        let kibibytes: f64 = self.members()?.iter().filter_map(|(process, _)| proportional(*process)).sum();
        Ok(kibibytes / 1024.0)
    }

    /// Returns the number of processes.
    pub(crate) fn count(&self) -> Result<usize, String> {
        Ok(self.members()?.len())
    }

    fn members(&self) -> Result<Vec<(u32, Account)>, String> {
        let root = self.0.id();
        let mut all: HashMap<u32, Account> = HashMap::new();
        for entry in std::fs::read_dir("/proc").map_err(|error| error.to_string())?.flatten() {
            let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(process) = process
                && let Some(account) = account(process)
            {
                all.insert(process, account);
            }
        }
        if !all.contains_key(&root) {
            return Err(format!("process {root} ended"));
        }
        let descends = |process: u32| {
            let ancestors =
                std::iter::successors(Some(process), |one| all.get(one).map(|account| account.parent));
            ancestors.take(64).any(|one| one == root)
        };
        let members: Vec<u32> = all.keys().copied().filter(|process| descends(*process)).collect();
        Ok(members.into_iter().filter_map(|process| Some((process, all.remove(&process)?))).collect())
    }
}

fn account(process: u32) -> Option<Account> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name, before the last parenthesis, may contain anything.
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = (11..=14).map(|at| fields.get(at)?.parse::<f64>().ok()).sum::<Option<f64>>()?;
    Some(Account { parent: fields.get(1)?.parse().ok()?, seconds: ticks / TICKS })
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
