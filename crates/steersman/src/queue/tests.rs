//! Order and timing of the queue.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
};

use proptest::prelude::*;

use super::*;

fn key(name: &str) -> Key {
    Key::cluster(name)
}

fn queue() -> Queue {
    Queue::new(Backoff::default(), None)
}

#[tokio::test(start_paused = true)]
async fn changes_overtake_the_list() {
    let queue = queue();
    queue.add(&key("listed"), LISTED);
    queue.add(&key("raised"), LISTED);
    queue.add(&key("changed"), NORMAL);
    queue.add(&key("raised"), NORMAL);
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(queue.next().await.unwrap().key.to_string());
    }
    assert_eq!(order, ["changed", "raised", "listed"]);
    assert_eq!(queue.depth().running, 3);
}

#[tokio::test(start_paused = true)]
async fn low_priority_work_is_never_starved() {
    let queue = queue();
    for number in 0..20 {
        queue.add(&key(&format!("listed-{number:02}")), LISTED);
    }
    let mut turns = Vec::new();
    // There is always a change to process; listed objects still get their share, in their order.
    for turn in 0..160 {
        queue.add(&key(&format!("changed-{turn}")), NORMAL);
        let job = queue.next().await.unwrap();
        if job.key.name().starts_with("listed") {
            turns.push(turn);
            assert_eq!(job.key.name(), format!("listed-{:02}", turns.len() - 1));
        }
        queue.done(&job.key, Done::Rest);
    }
    assert_eq!(turns.len(), 20, "{turns:?}");
    assert!(turns.windows(2).all(|pair| pair[1] - pair[0] == FAIR as usize), "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_queue_does_not_grow() {
    let queue = queue();
    for _ in 0..10_000 {
        queue.add(&key("listed"), LISTED);
        for number in 0..FAIR {
            queue.add(&key(&number.to_string()), NORMAL);
        }
        for _ in 0..FAIR {
            let job = queue.next().await.unwrap();
            queue.done(&job.key, Done::After(Duration::from_secs(36_000)));
        }
    }
    let inner = queue.lock();
    let sizes = [inner.ready.len(), inner.arrivals.len(), inner.later.len()];
    assert!(sizes.iter().all(|size| *size < 200), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_belong_to_the_object_and_not_to_its_name() {
    let queue = queue();
    queue.add(&key("one"), NORMAL);
    for _ in 0..12 {
        let job = queue.next().await.unwrap();
        queue.identify(&job.key, "first");
        queue.done(&job.key, Done::Failed);
    }
    assert_eq!(queue.failures(&key("one")), 12);
    // It is deleted, and recreated under the same name.
    queue.add(&key("one"), NORMAL);
    let job = queue.next().await.unwrap();
    queue.identify(&job.key, "second");
    assert_eq!(queue.failures(&key("one")), 0);
    queue.done(&job.key, Done::Failed);
    let start = Instant::now();
    queue.next().await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn delays_grow_and_a_success_forgets_them() {
    let queue = queue();
    queue.add(&key("one"), NORMAL);
    let mut last = Instant::now();
    for expected in [0, 5, 10, 20, 40, 80] {
        let job = queue.next().await.unwrap();
        let waited = last.elapsed().as_millis();
        assert!((expected..=expected + 1).contains(&waited), "{waited} instead of {expected} ms");
        queue.done(&job.key, Done::Failed);
        last = Instant::now();
    }
    let job = queue.next().await.unwrap();
    queue.done(&job.key, Done::Rest);
    assert_eq!(queue.failures(&key("one")), 0);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_work_brings_the_object_back_once() {
    let queue = queue();
    queue.add(&key("one"), NORMAL);
    let job = queue.next().await.unwrap();
    queue.add(&key("one"), NORMAL);
    queue.add(&key("one"), LISTED);
    queue.done(&job.key, Done::After(Duration::from_secs(60)));
    let start = Instant::now();
    let job = queue.next().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    queue.done(&job.key, Done::Rest);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_a_delay() {
    let queue = queue();
    queue.add(&key("one"), NORMAL);
    let job = queue.next().await.unwrap();
    queue.done(&job.key, Done::After(Duration::from_secs(60)));
    queue.add(&key("one"), NORMAL);
    let start = Instant::now();
    let job = queue.next().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    queue.done(&job.key, Done::Rest);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_spreads_a_burst() {
    let queue = Queue::new(Backoff::default(), Some(RateLimit { per_second: 10.0, burst: 2.0 }));
    for name in ["a", "b", "c", "d"] {
        queue.add(&key(name), NORMAL);
    }
    let start = Instant::now();
    for _ in 0..4 {
        queue.next().await.unwrap();
    }
    let millis = start.elapsed().as_millis();
    assert!((195..=215).contains(&millis), "{millis}");
}

#[tokio::test(start_paused = true)]
async fn closing_lets_every_worker_go() {
    let queue = Arc::new(queue());
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { while queue.next().await.is_some() {} })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        worker.await.unwrap();
    }
}

#[test]
fn delays_double_up_to_their_limit() {
    let millis = Duration::from_millis;
    let backoff = Backoff { base: millis(5), limit: millis(100) };
    let delays = [0, 1, 2, 3, 5, 6, 40, u32::MAX].map(|failures| backoff.after(failures));
    assert_eq!(delays, [5, 5, 10, 20, 80, 100, 100, 100].map(millis));
    let large = Backoff { base: Duration::MAX, limit: millis(100) };
    assert_eq!(large.after(3), millis(100));
}

#[tokio::test(start_paused = true)]
async fn what_waits_works_and_comes_later_is_counted() {
    let queue = queue();
    for (name, priority) in [("a", NORMAL), ("b", NORMAL), ("c", LISTED), ("d", NORMAL + 1), ("e", NORMAL)] {
        queue.add(&key(name), priority);
    }
    let job = queue.next().await.unwrap();
    assert_eq!(job.key, key("d"), "the most urgent one");
    queue.done(&job.key, Done::After(Duration::from_secs(60)));
    tokio::time::advance(Duration::from_secs(2)).await;
    let job = queue.next().await.unwrap();
    assert_eq!((job.key, job.waited), (key("a"), Duration::from_secs(2)));
    tokio::time::advance(Duration::from_secs(3)).await;
    queue.next().await.unwrap();
    tokio::time::advance(Duration::from_secs(4)).await;
    let seconds = Duration::from_secs;
    let expected =
        Depth { ready: 1, listed: 1, running: 2, later: 1, unfinished: seconds(11), longest: seconds(7) };
    assert_eq!(queue.depth(), expected);
    let told = queue.describe();
    let line =
        |name: &str| told.as_array().unwrap().iter().find(|one| one["object"] == name).unwrap().clone();
    assert_eq!(told.as_array().unwrap().len(), 5);
    assert_eq!((&line("a")["state"], &line("a")["seconds"]), (&"running".into(), &7.0.into()));
    assert_eq!((&line("c")["state"], &line("c")["priority"]), (&"ready".into(), &LISTED.into()));
    assert_eq!((&line("d")["state"], &line("d")["seconds"]), (&"later".into(), &51.0.into()));
    assert_eq!((&line("e")["state"], &line("e")["seconds"]), (&"ready".into(), &9.0.into()));
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_work_keeps_the_higher_priority() {
    for (first, second) in [(LISTED, NORMAL), (NORMAL, LISTED)] {
        let queue = queue();
        queue.add(&key("one"), NORMAL);
        let job = queue.next().await.unwrap();
        queue.add(&key("one"), first);
        queue.add(&key("one"), second);
        queue.done(&job.key, Done::Rest);
        assert_eq!((queue.depth().ready, queue.depth().listed), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_has_no_more_than_its_burst_in_reserve() {
    let queue = Queue::new(Backoff::default(), Some(RateLimit { per_second: 1.0, burst: 2.0 }));
    tokio::time::advance(Duration::from_secs(3600)).await;
    for name in ["a", "b", "c"] {
        queue.add(&key(name), NORMAL);
    }
    let start = Instant::now();
    queue.next().await.unwrap();
    queue.next().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    queue.next().await.unwrap();
    assert!((1000..1010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    // A burst below one still lets one object pass at a time.
    let queue = Queue::new(Backoff::default(), Some(RateLimit { per_second: 2.0, burst: 0.0 }));
    queue.add(&key("a"), NORMAL);
    let start = Instant::now();
    queue.next().await.unwrap();
    assert!((500..510).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_worked_on_cannot_be_given_back() {
    let queue = queue();
    queue.done(&key("never"), Done::Failed);
    queue.add(&key("one"), NORMAL);
    queue.done(&key("one"), Done::Rest);
    assert_eq!(queue.depth().ready, 1);
    let job = queue.next().await.unwrap();
    // Practically never.
    queue.done(&job.key, Done::After(Duration::MAX));
    assert_eq!(queue.depth().later, 1);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Change(u8, i32),
    Pause(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u8..6, -100..2).prop_map(|(object, priority)| Step::Change(object, priority)),
        1 => (0_u16..40).prop_map(Step::Pause),
    ]
}

proptest! {
    /// However changes and workers interleave, no object is with two workers. The last processing of each object
    /// begins after its last change.
    #[test]
    fn no_two_workers_and_no_change_lost(
        steps in prop::collection::vec(step(), 1..60),
        work in prop::collection::vec((0_u16..30, 0_u8..4), 1..20),
        workers in 1_usize..6,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = Arc::new(queue());
            let clock = Arc::new(AtomicU64::new(1));
            let busy = Arc::new(Mutex::new(BTreeSet::new()));
            let looked = Arc::new(Mutex::new(HashMap::new()));
            let tasks: Vec<_> = (0..workers).map(|worker| {
                let (queue, clock, busy, looked, work) =
                    (queue.clone(), clock.clone(), busy.clone(), looked.clone(), work.clone());
                tokio::spawn(async move {
                    let mut turn = worker;
                    while let Some(job) = queue.next().await {
                        assert!(busy.lock().unwrap().insert(job.key.clone()), "two workers on {}", job.key);
                        let tick = clock.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        looked.lock().unwrap().insert(job.key.clone(), tick);
                        let (time, end) = work[turn % work.len()];
                        turn += 1;
                        tokio::time::sleep(Duration::from_millis(time.into())).await;
                        busy.lock().unwrap().remove(&job.key);
                        // Failures come to an end, or there would be no quiescence.
                        let done = match end {
                            0 if turn < 100 => Done::Failed,
                            1 if turn < 100 => Done::After(Duration::from_millis(7)),
                            _ => Done::Rest,
                        };
                        queue.done(&job.key, done);
                    }
                })
            }).collect();
            let mut changed = HashMap::new();
            for step in steps {
                match step {
                    Step::Change(object, priority) => {
                        let key = key(&object.to_string());
                        changed.insert(key.clone(), clock.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
                        queue.add(&key, priority);
                    }
                    Step::Pause(time) => tokio::time::sleep(Duration::from_millis(time.into())).await,
                }
            }
            while queue.depth() != Depth::default() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            queue.close();
            for task in tasks {
                task.await.unwrap();
            }
            for (key, change) in changed {
                let look = looked.lock().unwrap()[&key];
                assert!(look > change, "{key} changed at {change} and was last looked at at {look}");
            }
        });
    }
}
