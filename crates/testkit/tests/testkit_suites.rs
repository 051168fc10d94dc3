//! Runs suites in kuttl's format on the embedded cluster: verdicts of every field, reports, and reaction times.
//!
//! `make oracle-kuttl` also runs the suites of this directory with the real kuttl.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steersman_cluster::Cluster;
use steersman_testkit::{
    Changed, Controls, Error, Event, FileAssertion, Observer, OperatorChange, Options, Outcome, Silent,
    TestSuite,
};

fn suites() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites")
}

/// Options for the suites below a directory, the same that the oracle gives to kuttl.
fn options(directory: &Path) -> Options {
    let suite = TestSuite {
        test_dirs: vec![directory.display().to_string()],
        timeout: 60,
        parallel: 64,
        ..TestSuite::default()
    };
    let Value::Object(template_vars) = json!({"color": "blue", "count": 3}) else { unreachable!() };
    Options {
        suite,
        run_labels: BTreeMap::from([("flavor".to_owned(), "plain".to_owned())]),
        template_vars,
        working_directory: directory.to_owned(),
        ..Options::default()
    }
}

async fn run(options: &Options) -> Result<Outcome, Error> {
    let cluster = Cluster::start().await.unwrap();
    steersman_testkit::run(cluster.client(), options, Arc::new(Silent)).await
}

/// Writes a test case into a directory.
fn write(directory: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";

#[tokio::test(flavor = "multi_thread")]
async fn suites_that_pass() {
    let outcome = run(&options(&suites().join("pass"))).await.unwrap();
    let failed: Vec<_> = outcome.cases().filter(|case| !case.is_success()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(outcome.cases().count(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_that_fail() {
    let mut options = options(&suites().join("fail"));
    // One test case leaves an object that cannot be deleted, and cleanup waits for its namespace.
    options.suite.timeout = 5;
    let outcome = run(&options).await.unwrap();
    let passed: Vec<_> = outcome.cases().filter(|case| case.is_success()).map(|case| &case.name).collect();
    assert!(passed.is_empty(), "{passed:?}");
    assert_eq!(outcome.cases().count(), 54);
    let step = |case: &str| {
        let case = outcome.cases().find(|known| known.name == case).unwrap();
        let step = case.failed_step().unwrap();
        (step.name.clone(), step.failures[0].message.clone())
    };
    assert_eq!(step("second-step").0, "step 1-b");
    assert_eq!(step("bad-yaml").0, "setup");
    assert!(
        step("value").1.ends_with(".data.k: value mismatch, expected: w != actual: v"),
        "{}",
        step("value").1
    );
    assert!(
        step("unknown-kind")
            .1
            .contains("retrieving API resource for nowhere.example.com/v1, Kind=Nothing failed")
    );
    assert!(step("command-timeout").1.contains("exceeded 1 sec timeout"));
    let never = suites().join("fail/command/never");
    assert!(!never.exists(), "commands behind one that fails do not run");
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_come_with_conditions_and_events() {
    let directory = tempfile::tempdir().unwrap();
    let web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n";
    let spec = "spec:\n  containers:\n    - {name: c, image: example.com/c:1}\n";
    let want = "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: 2\n---\n";
    write(
        directory.path(),
        &[
            ("t/00-a.yaml", &format!("{web}{spec}")),
            ("t/00-assert.yaml", &format!("{want}{web}status: {{phase: Succeeded}}\n")),
        ],
    );
    let outcome = run(&options(directory.path())).await.unwrap();
    let failures = &outcome.cases().next().unwrap().failed_step().unwrap().failures;
    let difference = failures[0].difference.as_ref().unwrap();
    assert_eq!((difference.object.as_str(), difference.mismatch.path.as_str()), ("Pod/web", "status.phase"));
    assert_eq!((difference.want(), difference.have()), ("Succeeded".to_owned(), "Running".to_owned()));
    assert!(
        difference.conditions.iter().any(|condition| condition.starts_with("Ready=True")),
        "{difference:?}"
    );
    assert!(difference.events.iter().any(|event| event.contains("Pod/web")), "{difference:?}");
}

/// Creates the object that a step waits for once the wait has begun, and records when.
struct Trigger {
    client: kube::Client,
    created: Arc<Mutex<Option<Instant>>>,
}

impl Observer for Trigger {
    fn notify(&self, event: &Event<'_>) {
        if !matches!(event, Event::Log { line, .. } if line.ends_with("created")) {
            return;
        }
        let (client, created) = (self.client.clone(), Arc::clone(&self.created));
        tokio::spawn(async move {
            // Long enough that the first check has failed, and between two checks of a poll every second.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "default"},
            });
            let request = http::Request::post("/api/v1/namespaces/default/configmaps");
            let request =
                request.header("content-type", "application/json").body(object.to_string().into_bytes());
            *created.lock().unwrap() = Some(Instant::now());
            client.request::<Value>(request.unwrap()).await.unwrap();
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn assertions_react_to_watch_events() {
    let directory = tempfile::tempdir().unwrap();
    let late = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: default}\n";
    write(directory.path(), &[("t/00-a.yaml", CONFIG_MAP), ("t/00-assert.yaml", late)]);
    let cluster = Cluster::start().await.unwrap();
    let created = Arc::new(Mutex::new(None));
    let trigger = Trigger { client: cluster.client(), created: Arc::clone(&created) };
    let mut options = options(directory.path());
    options.suite.skip_delete = true;
    let outcome = steersman_testkit::run(cluster.client(), &options, Arc::new(trigger)).await.unwrap();
    let reacted = created.lock().unwrap().unwrap().elapsed();
    assert!(outcome.is_success());
    println!("ended {reacted:?} after the event");
    assert!(reacted < Duration::from_millis(500), "{reacted:?} is as late as a poll");
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_cleaned_up_unless_they_were_there() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &[("t/00-a.yaml", CONFIG_MAP)]);
    let cluster = Cluster::start().await.unwrap();
    let names = async || {
        let request = http::Request::get("/api/v1/namespaces").body(Vec::new()).unwrap();
        let list: Value = cluster.client().request(request).await.unwrap();
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = names().await;
    let mut options = options(directory.path());
    let run = async |options: &Options| {
        steersman_testkit::run(cluster.client(), options, Arc::new(Silent)).await.unwrap()
    };
    let outcome = run(&options).await;
    assert!(outcome.is_success());
    assert!(outcome.cases().next().unwrap().namespace.starts_with("kuttl-"));
    assert_eq!(names().await, before);
    options.suite.namespace = "default".into();
    assert!(run(&options).await.is_success());
    assert_eq!(names().await, before, "one that was there stays");
    options.suite.namespace = "given".into();
    assert!(run(&options).await.is_success());
    assert_eq!(names().await, before, "one that the run made goes");
    options.suite.skip_delete = true;
    assert!(run(&options).await.is_success());
    assert!(names().await.contains(&"given".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_install_and_run_commands_first() {
    let directory = tempfile::tempdir().unwrap();
    let definition = std::fs::read_to_string(suites().join("pass/definition/00-crd.yaml")).unwrap();
    let gadget = "apiVersion: kuttl-check.example.com/v1\nkind: Gadget\nmetadata: {name: g}\n";
    write(
        directory.path(),
        &[
            ("crds/deep/gadget.yml", &format!("{definition}---\n{CONFIG_MAP}")),
            ("manifests/a.yaml", CONFIG_MAP),
            ("suite/t/00-g.yaml", gadget),
            (
                "suite/t/00-assert.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
            ),
            (
                "suite/t/01-run.yaml",
                "apiVersion: kuttl.dev/v1beta1\nkind: TestStep\ncommands:\n  - script: test -f ../../made\n",
            ),
            (
                "kuttl-test.yaml",
                "apiVersion: kuttl.dev/v1beta1\nkind: TestSuite\nmetadata: {name: all}\ntimeout: 5\nparallel: 2\n\
            commands:\n  - script: test $NAMESPACE = default && touch made\n  - command: sleep 60\n    background: true\n",
            ),
        ],
    );
    let mut suite = steersman_testkit::load_suite(&directory.path().join("kuttl-test.yaml")).unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    suite.test_dirs = vec![path("suite")];
    suite.crd_dir = path("crds");
    suite.manifest_dirs = vec![path("manifests")];
    let mut options = Options { suite, working_directory: directory.path().to_owned(), ..Options::default() };
    let outcome = run(&options).await.unwrap();
    assert!(outcome.is_success(), "{outcome:#?}");
    assert_eq!(outcome.name, "all");
    options.suite.commands[0].script = "exit 3".into();
    assert!(matches!(run(&options).await, Err(Error::Command(_))));
    options.suite.ignore_files = Some(vec!["[".into()]);
    assert!(matches!(run(&options).await, Err(Error::IgnorePattern(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_those_of_kuttl() {
    let directory = tempfile::tempdir().unwrap();
    let never = "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: 1\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: <none>}\n";
    write(
        directory.path(),
        &[
            ("suite/good/00-a.yaml", CONFIG_MAP),
            ("suite/good/00-assert.yaml", CONFIG_MAP),
            ("suite/poor/00-a.yaml", CONFIG_MAP),
            ("suite/poor/00-assert.yaml", never),
            ("suite/skipped/00-a.yaml", CONFIG_MAP),
        ],
    );
    let mut options = options(&directory.path().join("suite"));
    options.filter = Some("^(good|poor)$".into());
    options.suite.artifacts_dir = directory.path().join("out").display().to_string();
    options.suite.report_format = "json".into();
    let outcome = run(&options).await;
    let path = steersman_testkit::write_report(&options.suite, &outcome).unwrap().unwrap();
    assert_eq!(path, directory.path().join("out/kuttl-report.json"));
    let report: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!((&report["tests"], &report["failures"]), (&json!(4), &json!(1)));
    let cases = &report["testsuite"][0]["testsuite"];
    assert_eq!((&cases[0]["name"], &cases[1]["name"]), (&json!("good"), &json!("poor")));
    assert_eq!(cases[0]["testcase"][0]["name"], "setup");
    assert_eq!(cases[0]["testcase"][1]["assertions"], 1);
    assert_eq!(cases[1]["testcase"][1]["failure"]["message"], "failed in step 0-a");

    options.suite.report_granularity = "test".into();
    options.suite.report_format = "xml".into();
    options.suite.report_name = "named".into();
    let path = steersman_testkit::write_report(&options.suite, &outcome).unwrap().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("<testsuites name=\"\" tests=\"2\" failures=\"1\""), "{text}");
    assert!(text.contains("<testcase classname=\"suite\" name=\"poor\""), "{text}");
    assert!(text.contains("<failure message=\"failed in step 0-a\""), "{text}");
    assert!(text.contains("&lt;none&gt;") && !text.contains("<none>"), "{text}");
}

/// Records the changes to the operator and the clock.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Controls for Recorder {
    fn change_operator(&self, change: OperatorChange) -> Changed<'_> {
        self.0.lock().unwrap().push(format!("{change:?}"));
        Box::pin(async { Ok(()) })
    }

    fn advance(&self, by: Duration) -> Changed<'_> {
        self.0.lock().unwrap().push(format!("{by:?}"));
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_run_in_order_with_catch_and_finally() {
    let directory = tempfile::tempdir().unwrap();
    let head = "apiVersion: e2e.steersman.dev/v1alpha1\nkind: Step\ntimeout: 60\n";
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: i}, {name: d, image: i}]}}";
    let good = format!(
        "{head}lists: partial\nmetadata: {{name: renamed}}\ntry:\n  - apply: {pod}\n\
         \x20 - wait: {{apiVersion: v1, kind: Pod, name: web, condition: Ready}}\n\
         \x20 - assert: {{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {{containers: [{{name: d}}]}}}}\n\
         \x20 - fault: killOperator\n  - fault: cutWatches\n  - advance: 1h30m\n  - fault: {{killPods: {{app: web}}}}\n\
         \x20 - error: {{apiVersion: v1, kind: Pod, metadata: {{name: web}}}}\n\
         \x20 - script: touch ../order-try\ncatch:\n  - script: touch ../order-catch\nfinally:\n  - command: touch ../order-finally\n"
    );
    let poor = format!(
        "{head}try:\n  - script: exit 3\n  - script: touch ../never\ncatch:\n  - script: touch ../caught\n\
         finally:\n  - script: touch ../finally\n"
    );
    let exact = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: d}]}\n";
    let short = "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: 1\n---\n";
    let applied = format!("{head}try:\n  - apply: {pod}\n");
    write(
        directory.path(),
        &[
            ("good/00-a.yaml", &good),
            ("poor/00-a.yaml", &poor),
            ("exact/00-a.yaml", &applied),
            ("exact/00-assert.yaml", &format!("{short}{exact}")),
            ("partial/00-a.yaml", &applied.replace("try:", "lists: partial\ntry:")),
            ("partial/00-assert.yaml", exact),
            ("typo/00-a.yaml", &format!("{head}tries: []\n")),
        ],
    );
    let cluster = Cluster::start().await.unwrap();
    let recorder = Arc::new(Recorder::default());
    let options = options(directory.path());
    let controls = Some(Arc::clone(&recorder) as Arc<dyn Controls>);
    let outcome =
        steersman_testkit::run_with(cluster.client(), &options, Arc::new(Silent), controls).await.unwrap();
    let failed: Vec<_> =
        outcome.cases().filter(|case| !case.is_success()).map(|case| case.name.as_str()).collect();
    assert_eq!(failed, ["exact", "poor", "typo"], "{outcome:#?}");
    assert_eq!(*recorder.0.lock().unwrap(), ["Kill", "Start", "CutWatches", "5400s"]);
    let has = |name: &str| directory.path().join(name).exists();
    assert!(has("order-try") && has("order-finally") && !has("order-catch"));
    assert!(has("caught") && has("finally") && !has("never"));
    let typo = outcome.cases().find(|case| case.name == "typo").unwrap();
    let message = &typo.failed_step().unwrap().failures[0].message;
    assert!(message.contains("unknown field `tries`"), "{message}");

    let without = steersman_testkit::run(cluster.client(), &options, Arc::new(Silent)).await.unwrap();
    let good = without.cases().find(|case| case.name == "good").unwrap();
    assert!(good.failed_step().unwrap().failures[0].message.contains("controlling the operator"));
}

#[tokio::test(flavor = "multi_thread")]
async fn single_files_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n";
    write(directory.path(), &[("there.yaml", namespace), ("not-there.yaml", CONFIG_MAP)]);
    let cluster = Cluster::start().await.unwrap();
    let failures = async |file: &str, assertion| {
        let files = [directory.path().join(file)];
        let timeout = Duration::from_millis(100);
        steersman_testkit::check_files(cluster.client(), "default", timeout, &files, assertion)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(failures("there.yaml", FileAssertion::Present).await, 0);
    assert_eq!(failures("there.yaml", FileAssertion::Absent).await, 1);
    assert_eq!(failures("not-there.yaml", FileAssertion::Present).await, 1);
    assert_eq!(failures("not-there.yaml", FileAssertion::Absent).await, 0);
}
