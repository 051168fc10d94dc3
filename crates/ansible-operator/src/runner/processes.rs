//! Finds the processes of an operator by an environment variable, even if they have detached from it.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The variable set in all processes of a fork server or cold run.
pub(crate) const MARK: &str = "STEERSMAN_ANSIBLE_PROCESS";

/// The number of searches: a process may fork a child after it was listed.
const PASSES: usize = 20;

/// Kills every process with a mark that begins with a path. Finds none if the system does not expose environments.
pub(crate) fn kill_marked(prefix: &Path) {
    let wanted = [MARK.as_bytes(), b"=", prefix.as_os_str().as_encoded_bytes(), b"/"].concat();
    for _ in 0..PASSES {
        let found = processes(&wanted);
        if found.is_empty() {
            return;
        }
        for process in found {
            // The process may have exited in the meantime.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn processes(wanted: &[u8]) -> Vec<Pid> {
    let is_marked = |id: i32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(wanted))
    };
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| u32::try_from(*id) != Ok(own) && is_marked(*id)).filter_map(Pid::from_raw).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn marked_processes_end_and_no_others() {
        let start = |mark: &str| {
            let child = Command::new("sleep").arg("60").env(MARK, mark).spawn().unwrap();
            // The parent continues before the system exposes the new program's environment.
            let environ = format!("/proc/{}/environ", child.id());
            while !String::from_utf8_lossy(&std::fs::read(&environ).unwrap()).contains(mark) {
                std::thread::yield_now();
            }
            child
        };
        let (mut one, mut other) = (start("/lab-1/7/2"), start("/lab-1/77/1"));
        kill_marked(Path::new("/lab-1/7"));
        assert_eq!(one.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none(), "another operator's is left alone");
        kill_marked(Path::new("/lab-1"));
        assert_eq!(other.wait().unwrap().signal(), Some(9));
    }
}
