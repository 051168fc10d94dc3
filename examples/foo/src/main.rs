//! The operator's program.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    foo_operator::operator().main().await
}
