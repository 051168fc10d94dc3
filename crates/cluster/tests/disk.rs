//! A data directory: everything is there again, whenever the process ended.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use steersman_cluster::Cluster;

async fn quiet(directory: &Path) -> Cluster {
    Cluster::builder().workloads(false).data_directory(directory).start().await.unwrap()
}

fn map(name: &str, value: usize) -> ConfigMap {
    // Long enough for a torn write to show.
    let data = (0..8).map(|i| (format!("copy-{i}"), value.to_string().repeat(50))).collect();
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(data),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn a_cluster_starts_from_what_the_last_one_left() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::builder().data_directory(directory.path()).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let kept = maps.create(&PostParams::default(), &map("kept", 1)).await.unwrap();
    maps.create(&PostParams::default(), &map("dropped", 1)).await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let wanted: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &wanted).await.unwrap();
    cluster.settled().await;
    maps.delete("dropped", &DeleteParams::default()).await.unwrap();
    let (revision, certificate) =
        (cluster.server().store().revision(), cluster.root_certificate().to_owned());
    drop((maps, deployments, cluster));

    let cluster = Cluster::builder().data_directory(directory.path()).start().await.unwrap();
    cluster.settled().await;
    assert!(cluster.server().store().revision() >= revision, "numbers are never given twice");
    assert_eq!(cluster.root_certificate(), certificate);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    assert!(maps.get_opt("dropped").await.unwrap().is_none());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    deployments
        .patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 3}})))
        .await
        .unwrap();
    cluster.settled().await;
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn a_directory_belongs_to_one_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let _first = quiet(directory.path()).await;
    let second = Cluster::builder().workloads(false).data_directory(directory.path()).start().await;
    assert!(second.unwrap_err().to_string().contains("cannot keep data in"));
}

const DIRECTORY: &str = "STEERSMAN_TEST_DATA_DIRECTORY";
const ROUND: &str = "STEERSMAN_TEST_ROUND";

/// Not a test of its own: what the killed process does. Several writers create, change and delete, and tell on
/// standard output what was answered.
#[test]
fn killed_writer() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = quiet(Path::new(&directory)).await;
        say("ready");
        let writers =
            (0..8).map(|writer| tokio::spawn(write(cluster.client(), format!("r{round}-w{writer}"))));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

async fn write(client: kube::Client, prefix: String) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for count in 0.. {
        let name = format!("{prefix}-{count}");
        maps.create(&PostParams::default(), &map(&name, 0)).await.unwrap();
        say(&format!("has {name} 0"));
        for value in 1..3 {
            maps.replace(&name, &PostParams::default(), &map(&name, value)).await.unwrap();
            say(&format!("has {name} {value}"));
        }
        if count % 2 == 0 {
            maps.delete(&name, &DeleteParams::default()).await.unwrap();
            say(&format!("lost {name} 0"));
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // In one write, so that a line is there or not.
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Kills a writing process again and again, and finds after each time what it was told.
fn survive(rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut told: BTreeMap<String, Option<usize>> = BTreeMap::new();
    let mut answers = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed_writer", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (ready, waiting) = mpsc::channel();
        let reader = std::thread::spawn(move || -> Vec<String> {
            let tell = |line: &String| {
                if line == "ready" {
                    let _ = ready.send(());
                }
            };
            out.lines().map_while(Result::ok).inspect(tell).collect()
        });
        // Now and then it is killed while it starts, else at a different moment of its writing each time.
        if round % 5 != 4 {
            waiting.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 160));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in reader.join().unwrap() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["has", name, value] => {
                    told.insert((*name).to_owned(), Some(value.parse().unwrap()));
                    answers += 1;
                }
                ["lost", name, _] => {
                    told.insert((*name).to_owned(), None);
                    answers += 1;
                }
                _ => {}
            }
        }
        check(directory.path(), &told, round);
    }
    println!("{rounds} kills, {answers} answered writes, none lost");
    assert!(answers > rounds, "the writers hardly wrote");
}

fn check(directory: &Path, told: &BTreeMap<String, Option<usize>>, round: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let cluster = quiet(directory).await;
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        maps.list(&ListParams::default()).await.unwrap().items
    });
    let mut values = BTreeMap::new();
    for map in found {
        let copies: Vec<String> = map.data.clone().unwrap_or_default().into_values().collect();
        assert_eq!(copies.len(), 8, "round {round}: {} is torn", map.name_any());
        assert!(copies.windows(2).all(|w| w[0] == w[1]), "round {round}: {} is torn", map.name_any());
        let value: usize = copies[0][..1].parse().unwrap();
        values.insert(map.name_any(), value);
    }
    for (name, last) in told {
        match (last, values.get(name)) {
            // What came after the last answer may or may not have happened.
            (Some(last), Some(value)) => assert!(value >= last, "round {round}: {name} went back"),
            (Some(2), None) => {
                let count: usize = name.rsplit('-').next().unwrap().parse().unwrap();
                assert!(count.is_multiple_of(2), "round {round}: {name} is lost");
            }
            (Some(_), None) => panic!("round {round}: {name} is lost"),
            (None, found) => assert!(found.is_none(), "round {round}: {name} is back"),
        }
    }
}

#[test]
fn nothing_answered_is_lost_by_a_kill() {
    survive(5);
}

#[test]
#[ignore = "a hundred kills take a minute"]
fn nothing_answered_is_lost_by_a_hundred_kills() {
    survive(100);
}
