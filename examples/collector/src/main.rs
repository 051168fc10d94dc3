//! The Collector operator's program.

use std::process::ExitCode;

use steersman::Operator;
use steersman_chart::Chart;

#[tokio::main]
async fn main() -> ExitCode {
    let path = std::env::var("COLLECTOR_CHART").unwrap_or_else(|_| "helm-charts/collector".into());
    let chart = match Chart::load(&path) {
        Ok(chart) => chart,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let operator = Operator::new("collector-operator").version(env!("CARGO_PKG_VERSION"));
    match operator.controller(collector_operator::controller(chart).controller()).main().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
