//! A template in a chart: whatever it says, it ends, within its limits and without a panic.
//!
//! The input is a values file, a NUL and a template.

#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use steersman_chart::{Chart, File, RenderOptions, Seeded, Values};

const HELPERS: &str = r#"{{ define "h" }}{{ . | toString | trunc 20 }}{{ end }}{{ define "again" }}{{ include "again" . }}{{ end }}"#;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (Some(values), Some(template)) = (parts.next(), parts.next()) else { return };
    let Ok(values) = Values::from_yaml(values) else { return };
    let files = [
        File::new("Chart.yaml", "{apiVersion: v2, name: c, version: 0.1.0}"),
        File::new("files/a.txt", "one\ntwo\n"),
        File::new("templates/_h.tpl", HELPERS),
        File::new("templates/t.yaml", template),
    ];
    if let Ok(chart) = Chart::from_files(files) {
        let environment = Seeded::new(1, SystemTime::UNIX_EPOCH);
        // Errors are answers; their texts must be printable too.
        if let Err(error) = chart.render(&values, &RenderOptions::default(), environment) {
            let _ = (error.helm_text(), error.diagnostic().map(ToOwned::to_owned));
        }
    }
});
