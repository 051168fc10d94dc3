//! {{ .ProjectName }}: an operator on [`steersman`].

pub mod api;
pub mod controller;
// +kubebuilder:scaffold:imports

use steersman::Operator;

/// Returns the operator with its controllers and webhooks, from which its manifests and role are generated.
pub fn operator() -> Operator {
    Operator::new("{{ .ProjectName }}")
        .version(env!("CARGO_PKG_VERSION"))
    // +kubebuilder:scaffold:builder
}
