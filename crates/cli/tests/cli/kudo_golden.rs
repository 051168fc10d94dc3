//! KUDO's own golden files: the same commands with `steer kudo`, compared byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use steersman_chart::System;
use steersman_cluster::Cluster;
use steersman_kudo::package::index::Index;
use steersman_kudo::{Instance, Operator, OperatorVersion, Package, Renderer};
use steersman_kudo_operator::Kudo;

use crate::support::Steer;

/// Golden files that are not compared, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("deploy-kudo", "the manifests of KUDO's own manager"),
    ("invalid-params.golden", "no test of KUDO reads it"),
    ("newop/operator.yaml", "has the version of KUDO's build, which a release does not have"),
];

struct Goldens {
    root: PathBuf,
    equal: usize,
    different: Vec<String>,
}

impl Goldens {
    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn compare(&mut self, golden: &str, given: &str) {
        let wanted = self.read(&format!("{golden}.golden"));
        if wanted == given {
            self.equal += 1;
        } else {
            self.different.push(format!("{golden}\n--- wanted\n{wanted}\n--- given\n{given}"));
        }
    }

    /// Compares objects as values, since the golden file contains comments.
    fn compare_value(&mut self, golden: &str, given: &Value) {
        let mut wanted = steersman_yaml::from_str(&self.read(&format!("{golden}.golden"))).unwrap();
        let mut given = given.clone();
        // Fields that no type has, and lists whose order does not matter.
        if let Some(spec) = wanted["spec"].as_object_mut().filter(|_| given["kind"] == "Instance") {
            spec.remove("name");
            spec["operatorVersion"].as_object_mut().unwrap().remove("type");
        }
        for object in [&mut wanted, &mut given] {
            object["metadata"].as_object_mut().unwrap().remove("namespace");
            if let Some(all) = object["spec"]["parameters"].as_array_mut() {
                all.sort_by_key(|one| one["name"].to_string());
            }
        }
        if wanted == given {
            self.equal += 1;
        } else {
            self.different.push(format!("{golden}\n--- wanted\n{wanted}\n--- given\n{given}"));
        }
    }
}

/// Removes metadata from the output that a cluster sets on every object.
fn scrubbed(text: &str) -> String {
    let is_cluster = |line: &&str| {
        let line = line.trim_start().trim_start_matches('"');
        ["uid", "resourceVersion", "generation"].iter().any(|key| {
            line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':') || rest.starts_with("\":"))
        })
    };
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !is_cluster(line)) {
        let known = line.split_once("creationTimestamp").map(|(before, rest)| {
            let comma = if rest.ends_with(',') { "," } else { "" };
            let quote = if rest.starts_with('"') { "\"" } else { "" };
            format!("{before}creationTimestamp{quote}: null{comma}")
        });
        lines.push(known.unwrap_or_else(|| line.to_owned()));
    }
    lines.join("\n") + "\n"
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            // The module cache is read-only: the content is copied, not the mode.
            std::fs::write(target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

#[test]
#[ignore = "needs KUDO's sources in STEERSMAN_KUDO: make oracle-kudo"]
fn outputs_are_those_of_kudo() {
    let root = std::env::var_os("STEERSMAN_KUDO").expect("STEERSMAN_KUDO names KUDO's sources");
    let root = PathBuf::from(root).join("pkg/kudoctl");
    let mut goldens = Goldens { root: root.clone(), equal: 0, different: Vec::new() };
    let steer = Steer::new();
    let of = |path: &str| root.join(path).to_str().unwrap().to_owned();
    let zk = of("packages/testdata/zk");
    packages(&steer, &mut goldens, &zk, &of);
    repositories(&steer, &mut goldens, &of);
    objects(&mut goldens, &zk);
    tokio::runtime::Runtime::new().unwrap().block_on(cluster(&steer, &mut goldens));
    let mut all = Vec::new();
    find(&root, &mut all);
    for (part, why) in LEFT_OUT {
        let count = all.iter().filter(|path| path.to_string_lossy().contains(part)).count();
        println!("{count} left out: {part}: {why}");
    }
    println!("{} of {} golden files are the same", goldens.equal, all.len());
    assert!(goldens.different.is_empty(), "{}", goldens.different.join("\n\n"));
    let left_out =
        all.iter().filter(|path| LEFT_OUT.iter().any(|(part, _)| path.to_string_lossy().contains(part)));
    assert_eq!(goldens.equal + left_out.count(), all.len());
}

fn find(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().is_dir() {
            find(&entry.path(), found);
        } else if entry.path().extension().is_some_and(|extension| extension == "golden") {
            found.push(entry.path());
        }
    }
}

fn packages(steer: &Steer, goldens: &mut Goldens, zk: &str, of: &impl Fn(&str) -> String) {
    for (golden, words) in [
        ("params-list", &["parameters"][..]),
        ("tasks-list", &["tasks"]),
        ("plans-list", &["plans"]),
        ("plans-with-tasks-list", &["plans", "--with-tasks"]),
    ] {
        let mut command = vec!["kudo", "package", "list", words[0], zk];
        command.extend(&words[1..]);
        goldens.compare(&format!("cmd/testdata/{golden}"), &steer.run(&command).stdout);
    }
    let invalid = of("cmd/testdata/invalidzk");
    for (golden, format) in [
        ("invalid-params.txt", None),
        ("invalid-params.yaml", Some("yaml")),
        ("invalid-params.json", Some("json")),
    ] {
        let mut command = vec!["kudo", "package", "verify", &invalid];
        command.extend(format.into_iter().flat_map(|format| ["-o", format]));
        goldens.compare(&format!("cmd/testdata/{golden}"), &steer.run(&command).stdout);
    }
    steer.run(&["kudo", "package", "new", "newop"]).success();
    let made = std::fs::read_to_string(steer.path("operator/params.yaml")).unwrap();
    goldens.compare("cmd/testdata/newop/params.yaml", &made);
    std::fs::remove_dir_all(steer.path("operator")).unwrap();
    for (golden, file, words) in [
        ("maintainer", "operator.yaml", &["maintainer", "Cat in the hat", "c@hat.com"][..]),
        ("parameter", "params.yaml", &["parameter", "Foo", "--default", "Bar"]),
        ("plan", "operator.yaml", &["plan", "flush", "--step", "flush/push-lever=lower-lever"]),
        ("task", "operator.yaml", &["task", "Foo", "--resource", "bar.yaml"]),
    ] {
        let directory = steer.path("zk");
        copy(Path::new(zk), &directory);
        let mut command = vec!["kudo", "package", "add"];
        command.extend(words);
        steer.run(&command).success();
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        goldens.compare(&format!("cmd/generate/testdata/{golden}"), &text);
        std::fs::remove_dir_all(directory).unwrap();
    }
}

fn repositories(steer: &Steer, goldens: &mut Goldens, of: &impl Fn(&str) -> String) {
    let home = steer.path("kudo-home").to_str().unwrap().to_owned();
    let run = |words: &[&str]| {
        let mut command = vec!["kudo", "--home", home.as_str()];
        command.extend(words);
        steer.run(&command).success()
    };
    run(&["init", "--client-only"]);
    let file = std::fs::read_to_string(steer.path("kudo-home/repository/repositories.yaml")).unwrap();
    goldens.compare("util/repo/testdata/repositories.yaml", &file);
    goldens.compare("cmd/testdata/repo-list", &run(&["repo", "list"]));
    run(&["repo", "add", "foo", "badurl", "--skip-check"]);
    goldens.compare("cmd/testdata/skip-check-add-list", &run(&["repo", "list"]));
    let testdata = format!("file://{}", of("cmd/testdata"));
    run(&["repo", "add", "testdata", &testdata]);
    run(&["repo", "context", "testdata"]);
    goldens.compare("cmd/testdata/search1", &run(&["search", "mysql"]));
    goldens.compare("cmd/testdata/search2", &run(&["search", ""]));
    goldens.compare("cmd/testdata/search3", &run(&["search", "mysql", "--all-versions"]));

    let archives = steer.path("archives");
    std::fs::create_dir_all(&archives).unwrap();
    std::fs::write(archives.join("zk.tgz"), std::fs::read(of("packages/testdata/zk.tgz")).unwrap()).unwrap();
    run(&["repo", "index", archives.to_str().unwrap()]);
    let index = std::fs::read_to_string(archives.join("index.yaml")).unwrap();
    let (index, _) = index.split_once("generated: ").unwrap();
    goldens.compare("cmd/testdata/index.yaml", &format!("{index}generated: \"2019-10-25T00:00:00Z\"\n"));
    let read = |path: &str| Index::parse(std::fs::read_to_string(of(path)).unwrap().as_bytes()).unwrap();
    let mut merged = read("cmd/testdata/index.yaml");
    merged.merge(read("cmd/testdata/merge.yaml"));
    goldens.compare("cmd/testdata/merge-index.yaml", &merged.to_yaml());
    goldens.compare(
        "util/repo/testdata/flink-index.yaml",
        &read("util/repo/testdata/flink-index.yaml.golden").to_yaml(),
    );
}

fn objects(goldens: &mut Goldens, zk: &str) {
    let archive = format!("{zk}.tgz");
    for (path, name, directory) in [(zk, "zk1", "zk-crd-golden1"), (&archive, "zk2", "zk-crd-golden2")] {
        let package = Package::read(Path::new(path)).unwrap();
        let golden = |kind: &str| format!("packages/testdata/{directory}/{kind}");
        goldens.compare_value(&golden("operator"), &json!(package.operator("")));
        goldens.compare_value(&golden("operatorversion"), &json!(package.operator_version("").unwrap()));
        goldens.compare_value(&golden("instance"), &json!(package.instance("", Some(name), BTreeMap::new())));
    }
    let template = goldens.read("packages/install/testdata/namespace.yaml");
    let variables = json!({ "Name": "InstanceName", "AppVersion": "1.0", "Params": { "foo": "bar-param" } });
    let rendered = Renderer::new(System::default()).render("namespace.yaml", &template, &variables).unwrap();
    goldens.compare("packages/install/testdata/rendered-namespace.yaml", &rendered);
}

async fn cluster(steer: &Steer, goldens: &mut Goldens) {
    let address = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
    let cluster = Cluster::builder().listen(address).workloads(false).start().await.unwrap();
    let client = cluster.client();
    Kudo::new(client.clone(), "default").init().await.unwrap();
    let kubeconfig = steer.write("kubeconfig", cluster.kubeconfig().unwrap());
    let kubeconfig = kubeconfig.to_str().unwrap();
    let run = |words: &[&str]| {
        let mut command = vec!["kudo", "--kubeconfig", kubeconfig];
        command.extend(words);
        scrubbed(&steer.run(&command).success())
    };
    let mut operator = Operator::new("default", "some-operator");
    operator.spec.description = "A fancy Operator".into();
    operator.spec.kudo_version = "0.16.0".into();
    let mut version = OperatorVersion::new("default", "some-operator-0.1.0");
    version.spec.version = "0.1.0".into();
    version.spec.operator = serde_json::from_value(
        json!({ "apiVersion": "kudo.dev/v1beta1", "kind": "Operator", "name": "some-operator" }),
    )
    .unwrap();
    let mut instance = Instance::new("default", "test");
    instance.metadata.labels = Some([("operator".to_owned(), "test".to_owned())].into());
    instance.spec.operator_version.name = "some-operator-0.1.0".into();
    let params = PostParams::default();
    Api::default_namespaced(client.clone()).create(&params, &operator).await.unwrap();
    Api::default_namespaced(client.clone()).create(&params, &version).await.unwrap();
    let instances: Api<Instance> = Api::default_namespaced(client.clone());
    instances.create(&params, &instance).await.unwrap();
    for kind in ["all", "instances", "operators", "operatorversions"] {
        goldens.compare(&format!("cmd/get/testdata/get-{kind}.txt"), &run(&["get", kind]));
        for format in ["yaml", "json"] {
            goldens.compare(
                &format!("cmd/get/testdata/get-{kind}.{format}"),
                &run(&["get", kind, "-o", format]),
            );
        }
    }

    let mut version = OperatorVersion::new("default", "test-1.0");
    for plan in ["deploy", "validate", "zzzinvalid"] {
        let phases = json!({ "phases": [{ "name": plan, "steps": [{ "name": plan, "tasks": [] }] }] });
        version.spec.plans.insert(plan.to_owned(), serde_json::from_value(phases).unwrap());
    }
    Api::default_namespaced(client.clone()).create(&params, &version).await.unwrap();
    let mut live = instances.get("test").await.unwrap();
    live.spec.operator_version.name = "test-1.0".into();
    let mut live = instances.replace("test", &params, &live).await.unwrap();
    live.status = serde_json::from_value(json!({ "planStatus": { "deploy": {
        "name": "deploy", "status": "FATAL_ERROR", "lastUpdatedTimestamp": "2019-10-17T01:01:01Z",
        "phases": [{ "name": "deploy", "status": "FATAL_ERROR", "steps": [
            { "name": "deploy", "status": "FATAL_ERROR", "message": "error detail" },
        ] }],
    } } }))
    .unwrap();
    instances.replace_status("test", &params, &live).await.unwrap();
    let status = |format: &[&str]| {
        let mut words = vec!["plan", "status", "--instance", "test"];
        words.extend(format);
        run(&words)
    };
    goldens.compare("cmd/plan/testdata/planstatus.txt", &status(&[]));
    goldens.compare("cmd/plan/testdata/planstatus.yaml", &status(&["-o", "yaml"]));
    goldens.compare("cmd/plan/testdata/planstatus.json", &status(&["-o", "json"]));
}
