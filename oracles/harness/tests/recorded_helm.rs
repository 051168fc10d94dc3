//! Compares the chart engine with a selection of what Helm's packages answered, which needs no Go.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use steersman_oracles::suite::Area;
use steersman_oracles::{areas, suite};

#[test]
fn answers_are_as_recorded() {
    let mut areas = areas::all();
    // Those that take least and tell most come first.
    areas.sort_by_key(|area| !area.written);
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            // Deep documents and templates are among the cases; the limits are ours to keep, not the test runner's stack.
            let worker = std::thread::Builder::new().stack_size(64 << 20);
            let run = || {
                while let Some(area) = areas.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(text) = replayed(area) {
                        // One area with differences is enough.
                        next.store(areas.len(), Ordering::Relaxed);
                        differences.lock().expect("no worker panics").push(text);
                    }
                }
            };
            worker.spawn_scoped(scope, run).expect("a thread");
        }
    });
    let differences = differences.into_inner().expect("no worker panics");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn replayed(area: &Area) -> Result<(), String> {
    let count = suite::replay(area).map_err(|text| format!("{}:\n{text}", area.name))?;
    println!("recorded {} tried={count}", area.name);
    if count == 0 { Err(format!("{} has no recorded cases", area.name)) } else { Ok(()) }
}
