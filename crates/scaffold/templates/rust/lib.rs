//! {{ .ProjectName }}: an operator on [`steersman`].

pub mod api;
pub mod controller;
// +kubebuilder:scaffold:imports

use steersman::Operator;

/// The operator: its controllers and webhooks. The program, its manifests and its role all follow from this.
pub fn operator() -> Operator {
    Operator::new("{{ .ProjectName }}")
        .version(env!("CARGO_PKG_VERSION"))
    // +kubebuilder:scaffold:builder
}
