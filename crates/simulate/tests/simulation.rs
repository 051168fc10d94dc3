//! Temporary.
use std::time::Instant;
use steersman_cluster::{Cluster, Part};
#[test]
fn parts() {
    let time = |out: Option<Part>| {
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        rt.block_on(async {
            let t = Instant::now();
            let mut b = Cluster::builder().seed(1);
            if let Some(p) = out { b = b.without(p); }
            let c = b.start().await.unwrap();
            let s = t.elapsed();
            c.settled().await;
            println!("{out:?} {s:?} {:?} rev {}", t.elapsed(), c.server().store().latest());
        });
    };
    time(None); time(None);time(None);
    for p in Part::ALL { time(Some(p)); }
}
