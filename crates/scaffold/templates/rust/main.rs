//! The operator's binary, with the commands `run`, `manifests`, `crds`, `rbac`, `webhooks`, `doctor`, `dashboard` and `version`.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    {{ .CrateName }}::operator().main().await
}
