//! Compares the embedded API server with a selection of what the real one answered, which needs no Go.

use steersman_k8s_oracle::suite;
use steersman_k8s_oracle::target::Target;

/// How many cases are under way at once: each mostly waits.
const JOBS: usize = 48;

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_recorded() {
    let report = suite::replay(Target::in_process, JOBS).await;
    let total = report.total();
    print!("{}", report.summary());
    assert!(total.tried > 0, "there are recorded cases");
    assert_eq!(total.different, 0, "{}", report.text);
}
