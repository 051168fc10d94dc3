//! Our own small charts, compared with the output of Helm v3.22.0.
//!
//! The command was `helm template rel chart --namespace ns --kube-version v1.33.0 --include-crds`, with `-f
//! values.yaml` where there is one.

use std::path::Path;
use std::time::SystemTime;

use steersman_chart::{
    Capabilities, Chart, Error, KubeVersion, OutputOptions, Release, RenderOptions, Seeded, Values,
};

#[test]
fn small_charts_render_as_helm_renders_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts");
    let mut names: Vec<_> =
        std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut differences = Vec::new();
    for name in &names {
        let directory = root.join(name);
        let have = match render(&directory) {
            Ok(output) => output,
            Err(error) => format!("{}\n", error.helm_text()),
        };
        let wanted = ["expected.yaml", "expected.error"]
            .iter()
            .find_map(|file| std::fs::read_to_string(directory.join(file)).ok())
            .unwrap();
        if have != wanted {
            differences.push(format!("{}\n--- want\n{wanted}--- have\n{have}", name.to_string_lossy()));
        }
    }
    println!("small charts: {} equal, {} differ", names.len() - differences.len(), differences.len());
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

fn render(directory: &Path) -> Result<String, Error> {
    let chart = Chart::load(directory.join("chart"))?;
    chart.check_installable()?;
    chart.check_dependencies()?;
    let file = directory.join("values.yaml");
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
    let rendered = chart.render(&values, &options, Seeded::new(1, SystemTime::UNIX_EPOCH))?;
    rendered.output(&OutputOptions { include_crds: true, ..OutputOptions::default() }, None)
}
