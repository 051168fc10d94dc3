//! A process with all that descends from it, and what they take together.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to end.
const GRACE: Duration = Duration::from_secs(20);
/// The kernel tells processor time in hundredths of a second.
const TICKS: f64 = 100.0;

/// A process that ends with its owner.
pub(crate) struct Tree(Child);

/// What the kernel tells of one process.
struct Account {
    parent: u32,
    /// Its own processor time, and that of its children that ended and were waited for.
    seconds: f64,
}

impl Tree {
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let file = std::fs::File::create(log).map_err(|error| error.to_string())?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        child.map(Self).map_err(|error| format!("{command:?}: {error}"))
    }

    /// Processor time of all of them so far, those that ended included, in seconds.
    pub(crate) fn processor(&self) -> Result<f64, String> {
        Ok(self.members()?.iter().map(|(_, account)| account.seconds).sum())
    }

    /// The memory that they hold together, in MiB: what several of them share counts once.
    pub(crate) fn memory(&self) -> Result<f64, String> {
        let proportional = |process: u32| {
            let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        // One that ended meanwhile holds nothing.
        let kibibytes: f64 = self.members()?.iter().filter_map(|(process, _)| proportional(*process)).sum();
        Ok(kibibytes / 1024.0)
    }

    /// How many of them there are.
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
    // What stands before the last bracket is the program's name, which may hold anything.
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
