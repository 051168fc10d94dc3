//! The operator's program.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    ptemplate_operator::operator().main().await
}
