//! Real public charts, compared with Helm's output: see the README next to the charts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use steersman_chart::{
    Capabilities, Chart, Error, KubeVersion, OutputOptions, Release, RenderOptions, Rendered, Seeded, Values,
};

/// Number of differences that are printed; the rest is only counted.
const SHOWN: usize = 40;

#[test]
fn real_charts_render_as_helm_renders_them() {
    let Some(root) = charts_directory() else { return };
    let only = std::env::var("STEERSMAN_CHART").unwrap_or_default();
    let mut report = Report::default();
    let mut directories: Vec<PathBuf> =
        std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    directories.sort();
    for directory in directories {
        if directory.join("chart").is_dir() && directory.to_string_lossy().contains(&only) {
            check_chart(&directory, &mut report);
        }
    }
    println!(
        "real charts: {} good cases, {} error cases, {} notes and {} computed values equal; {} differ",
        report.good,
        report.errors,
        report.notes,
        report.computed,
        report.differences.len()
    );
    for difference in report.differences.iter().take(SHOWN) {
        println!("{difference}\n");
    }
    assert!(report.differences.is_empty(), "{} differences from Helm", report.differences.len());
    assert!(report.good > 0, "no cases in {}", root.display());
}

/// Returns `../shared/charts` next to the repository, or the directory in STEERSMAN_SHARED.
fn charts_directory() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared =
        std::env::var_os("STEERSMAN_SHARED").map_or_else(|| repository.join("../shared"), PathBuf::from);
    let charts = shared.join("charts");
    if !charts.is_dir() {
        eprintln!("SKIPPED: {} is not there, so no real chart was compared with Helm", charts.display());
        return None;
    }
    Some(charts)
}

#[derive(Default)]
struct Report {
    good: usize,
    errors: usize,
    notes: usize,
    computed: usize,
    differences: Vec<String>,
}

fn check_chart(directory: &Path, report: &mut Report) {
    let chart = Chart::load(directory.join("chart"));
    let mut expected: Vec<PathBuf> =
        std::fs::read_dir(directory.join("expected")).unwrap().map(|entry| entry.unwrap().path()).collect();
    expected.sort();
    for expected in expected {
        let case = expected.file_stem().unwrap().to_string_lossy().into_owned();
        let label = format!("{}/{case}", directory.file_name().unwrap().to_string_lossy());
        let kind = expected.extension().unwrap().to_string_lossy().into_owned();
        if kind == "mask" {
            continue;
        }
        let rendered = match &chart {
            Ok(chart) => render(chart, directory, &case),
            Err(error) => Err(error.helm_text()),
        };
        let wanted = read(&expected);
        let outcome = match (kind.as_str(), rendered) {
            ("yaml", Ok((output, rendered, computed))) => {
                let mask = mask(&expected.with_extension("mask"));
                let outcome = compare(&wanted, &output, &mask);
                if outcome.is_ok() {
                    report.good += 1;
                }
                check_rest(directory, &case, &label, &rendered.notes, &computed, report);
                outcome
            }
            ("error", Err(error)) => {
                let outcome = compare(&wanted, &format!("{error}\n"), &BTreeSet::new());
                if outcome.is_ok() {
                    report.errors += 1;
                }
                outcome
            }
            (_, Err(error)) => Err(format!("failed: {error}")),
            (_, Ok(_)) => Err(format!("did not fail with {wanted}")),
        };
        if let Err(difference) = outcome {
            report.differences.push(format!("{label}: {difference}"));
        }
    }
}

fn check_rest(
    directory: &Path,
    case: &str,
    label: &str,
    have_notes: &str,
    have_values: &Values,
    report: &mut Report,
) {
    let notes = directory.join(format!("notes/{case}.txt"));
    if notes.exists() {
        match compare(&read(&notes), have_notes, &BTreeSet::new()) {
            Ok(()) => report.notes += 1,
            Err(difference) => report.differences.push(format!("{label} notes: {difference}")),
        }
    }
    let computed = directory.join(format!("computed/{case}.values.yaml"));
    if computed.exists() {
        match compare(&read(&computed), &have_values.to_yaml(), &BTreeSet::new()) {
            Ok(()) => report.computed += 1,
            Err(difference) => report.differences.push(format!("{label} computed values: {difference}")),
        }
    }
}

fn render(chart: &Chart, directory: &Path, case: &str) -> Result<(String, Rendered, Values), String> {
    let run = || -> Result<(String, Rendered, Values), Error> {
        let file = directory.join(format!("values/{case}.yaml"));
        let values =
            if file.exists() { Values::from_yaml(&std::fs::read(file).unwrap())? } else { Values::new() };
        let options = RenderOptions {
            release: Release { name: "rel".into(), namespace: "ns".into(), ..Release::default() },
            capabilities: Capabilities {
                kube_version: KubeVersion::parse("v1.33.0").unwrap(),
                ..Capabilities::default()
            },
            ..RenderOptions::default()
        };
        chart.check_dependencies()?;
        let rendered = chart.render(&values, &options, Seeded::new(1, SystemTime::now()))?;
        let output = rendered.output(&OutputOptions::default(), None)?;
        Ok((output, rendered, chart.compute_values(&values)?))
    };
    run().map_err(|error| error.helm_text())
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

/// Returns the lines that differ between runs of Helm itself, counted from 1.
fn mask(path: &Path) -> BTreeSet<usize> {
    let Ok(text) = std::fs::read_to_string(path) else { return BTreeSet::new() };
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn compare(wanted: &str, have: &str, mask: &BTreeSet<usize>) -> Result<(), String> {
    let (wanted, have): (Vec<&str>, Vec<&str>) = (wanted.split('\n').collect(), have.split('\n').collect());
    for (number, (wanted, have)) in (1..).zip(wanted.iter().zip(&have)) {
        if wanted != have && !mask.contains(&number) {
            return Err(format!("line {number}\n  want {wanted}\n  have {have}"));
        }
    }
    if wanted.len() != have.len() {
        return Err(format!("{} lines wanted, {} there", wanted.len(), have.len()));
    }
    Ok(())
}
