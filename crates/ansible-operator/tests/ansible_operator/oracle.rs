//! Runs the same plays warm and cold, and compares the resulting conditions and objects. Each mode has
//! a cluster of its own. Needs Python and Ansible: `make oracle-ansible` has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::support::{Lab, condition, status_of};

/// Returns the outcome of each play as a string, and another one of all resulting objects.
async fn run(plays: &[Value], cold: bool) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let templates = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plays/oracle_map.yml.j2");
    std::fs::copy(templates, directory.path().join("oracle_map.yml.j2")).unwrap();
    let mut watches = Vec::new();
    for play in plays {
        let name = play["name"].as_str().unwrap();
        let mut content = play.clone();
        content["hosts"] = json!("localhost");
        content["gather_facts"] = json!(false);
        let path = directory.path().join(format!("{name}.yml"));
        std::fs::write(&path, json!([content]).to_string()).unwrap();
        watches.push((name, path.display().to_string()));
    }
    let borrowed: Vec<(&str, &str)> = watches.iter().map(|(name, path)| (*name, path.as_str())).collect();
    let mut lab = Lab::new(&borrowed).await;
    lab.options.runner.cold = cold;
    lab.run().await;
    let mut results = BTreeMap::new();
    // One at a time: a failed play is retried, and would be counted more than once.
    for (name, _) in &borrowed {
        let started = std::time::Instant::now();
        lab.create(name, "one", json!({ "someKey": [1, { "innerKey": "x" }] })).await;
        let is_over = |object: &Value| {
            let done = condition(object, "Running").is_some_and(|one| one["reason"] == "Successful");
            done || status_of(object, "Failure").as_deref() == Some("True")
        };
        let over = lab.until(name, "one", |object| object.is_some_and(is_over)).await.unwrap();
        if std::env::var_os("SHOW").is_some() {
            println!("{name} took {:?}, cold: {cold}", started.elapsed());
        }
        lab.delete(name, "one").await;
        lab.gone(name, "one").await;
        let mut text = String::new();
        for one in over["status"]["conditions"].as_array().unwrap() {
            let result = &one["ansibleResult"];
            let counts: Vec<String> =
                ["ok", "changed", "skipped", "failures"].iter().map(|key| result[key].to_string()).collect();
            let message = one["message"].as_str().unwrap();
            let _ = writeln!(
                text,
                "{}={} {:?} {counts:?}",
                one["type"],
                one["status"],
                plain(message, directory.path())
            );
        }
        results.insert((*name).to_owned(), text);
    }
    let mut left = String::new();
    for map in lab.api_in::<ConfigMap>("default").list(&ListParams::default()).await.unwrap() {
        // Each cluster has a different certificate authority.
        if map.name_any() == "kube-root-ca.crt" {
            continue;
        }
        let owners = map.owner_references().iter().map(|owner| owner.kind.clone()).collect::<Vec<_>>();
        let _ = writeln!(left, "{} {:?} {owners:?}", map.name_any(), map.data);
    }
    results.insert("what is left".into(), left);
    lab.env.stop().await.unwrap();
    results
}

/// Returns a message without the parts that differ between runs.
fn plain(message: &str, directory: &std::path::Path) -> String {
    let text = message.replace(&directory.display().to_string(), "DIRECTORY");
    // UIDs and temporary names.
    let words = text.split(' ').map(|word| {
        let random =
            word.contains("steersman-ansible-") || word.contains("ansible-tmp-") || word.contains("0x");
        if random { "RANDOM" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible, and minutes: make oracle-ansible"]
async fn warm_and_cold_runs_come_to_the_same() {
    let text = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plays/oracle.yml")).unwrap();
    let plays: Vec<Value> = steersman_yaml::from_slice_as(&text).unwrap();
    let only = std::env::var("ONLY").ok();
    let plays: Vec<Value> =
        plays.into_iter().filter(|play| only.as_deref().is_none_or(|only| play["name"] == only)).collect();
    let warm = run(&plays, false).await;
    let cold = run(&plays, true).await;
    let mut differences = 0;
    for (name, warm) in &warm {
        if warm != &cold[name] {
            differences += 1;
            println!("--- {name}\nwarm:\n{warm}\ncold:\n{}", cold[name]);
        }
        if std::env::var_os("SHOW").is_some() {
            println!("--- {name}\n{warm}");
        }
    }
    println!("{} plays, {differences} differences", plays.len());
    assert_eq!(differences, 0);
}
