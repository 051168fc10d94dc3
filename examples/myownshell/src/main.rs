//! The operator's program.

// A single thread suffices, as the operator mostly waits for the API server, and avoids the cost of
// synchronization.
#[tokio::main(flavor = "current_thread")]
async fn main() -> steersman::Result<()> {
    myownshell_operator::operator().main().await
}
