//! The operator's program.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    myownshell_operator::operator().main().await
}
