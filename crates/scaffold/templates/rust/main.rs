//! The operator's program: `run`, `manifests`, `crds`, `rbac`, `dashboard` and `version`.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    {{ .CrateName }}::operator().main().await
}
