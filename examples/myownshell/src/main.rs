//! The operator's program.

// One thread is plenty: it waits for the API server nearly all the time, and saves what threads cost each other.
#[tokio::main(flavor = "current_thread")]
async fn main() -> steersman::Result<()> {
    myownshell_operator::operator().main().await
}
