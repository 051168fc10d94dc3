//! Many event streams while much changes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use serde_json::json;
use steersman_cluster::User;
use tokio::time::{MissedTickBehavior, interval};

use crate::support::{EDITOR, Place, SHOPS, shop};

/// Streams of one user: as many as the gateway allows.
const OF_ONE_USER: u64 = 100;
const OBJECTS: u64 = 50;

/// A number of the environment, such as `LOAD_CLIENTS`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Resident memory of this process, which is gateway, cluster and clients at once, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and measures: make bench-gateway"]
async fn many_streams_see_every_change_in_order() {
    let clients_wanted = setting("LOAD_CLIENTS", 500);
    let changes_a_second = setting("LOAD_CHANGES_A_SECOND", 200);
    let changes = changes_a_second * setting("LOAD_SECONDS", 60);
    let place = Place::new().await;
    for object in 0..OBJECTS {
        place.post(EDITOR, SHOPS, &shop(&format!("shop-{object}"), 1)).await.expect(201);
    }
    for user in 0..clients_wanted.div_ceil(OF_ONE_USER) {
        let user_token = format!("load-{user}-token");
        place
            .cluster
            .server()
            .add_token(&user_token, User::named(&format!("load-{user}"), ["system:masters"]));
    }
    let begun = Instant::now();
    let path = format!("{SHOPS}?fields=status.number,status.sent");
    let mut clients = Vec::new();
    for client in 0..clients_wanted {
        let mut events = place.events(&format!("load-{}-token", client / OF_ONE_USER), &path, None).await;
        while events.next().await.expect("the stream ended").event != "sync" {}
        clients.push(tokio::spawn(async move {
            let mut numbers: HashMap<String, u64> = HashMap::new();
            let mut delays = Vec::new();
            while (delays.len() as u64) < changes {
                let frame = events.next().await.expect("the stream ended");
                let object = &frame.data["item"]["object"];
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let number = object["status"]["number"].as_u64().unwrap();
                let last = numbers.insert(name, number).unwrap_or_default();
                assert_eq!(number, last + 1, "an event was lost, or came out of order");
                let sent = Duration::from_micros(object["status"]["sent"].as_u64().unwrap());
                delays.push(begun.elapsed().saturating_sub(sent));
            }
            delays
        }));
    }
    let warm = resident();
    let mut tick = interval(Duration::from_secs(1) / u32::try_from(changes_a_second).unwrap());
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let started = Instant::now();
    for change in 0..changes {
        tick.tick().await;
        let (name, number) = (format!("shop-{}", change % OBJECTS), change / OBJECTS + 1);
        let sent = u64::try_from(begun.elapsed().as_micros()).unwrap();
        place.report(&name, &json!({"number": number, "sent": sent})).await;
    }
    let rate = f64::from(u32::try_from(changes).unwrap()) / started.elapsed().as_secs_f64();
    let mut delays = Vec::new();
    for client in clients {
        delays.extend(client.await.unwrap());
    }
    delays.sort_unstable();
    let at = |percent: usize| delays[(delays.len() - 1) * percent / 100];
    let after = resident();
    println!(
        "{clients_wanted} streams, {changes} changes at {rate:.0} a second, {} events: p50 {:?}, p99 {:?}, memory {warm} to {after} MiB",
        delays.len(),
        at(50),
        at(99)
    );
    assert!(at(99) < Duration::from_millis(100), "p99 is {:?}", at(99));
    assert!(after < warm + 256, "memory grew from {warm} to {after} MiB");
}
