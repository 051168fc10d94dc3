//! The operator's program.

#[tokio::main]
async fn main() -> steersman::Result<()> {
    memcached_operator::operator().main().await
}
