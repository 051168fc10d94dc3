//! Compares the chart engine with a selection of what Helm's packages answered, which needs no Go.

use steersman_oracles::{areas, suite};

#[test]
fn answers_are_as_recorded() {
    // Deep documents and templates are among the cases; the limits are ours to keep, not the test runner's stack.
    let run = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        for area in areas::all() {
            let replayed = suite::replay(&area);
            let count = replayed.unwrap_or_else(|text| panic!("{}:\n{text}", area.name));
            println!("recorded {} tried={count}", area.name);
            assert!(count > 0, "{} has no recorded cases", area.name);
        }
    });
    run.expect("a thread").join().expect("all areas are as recorded");
}
