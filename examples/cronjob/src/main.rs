//! The operator's program.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    cronjob_operator::operator().main().await
}
