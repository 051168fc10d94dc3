//! Packages: which are accepted or rejected, and the messages.

use std::path::{Path, PathBuf};

use serde_json::json;
use steersman_kudo::{Error, Package, dependencies, dependencies_hash, map_removed_api, package};

const PLANS: &str = "plans: {deploy: {strategy: serial, phases: [{name: p, strategy: serial, steps: [{name: s, tasks: [t]}]}]}}";

fn problems(operator: &str, params: &str) -> Vec<String> {
    match Package::from_files([("operator.yaml", operator), ("params.yaml", params)]) {
        Ok(_) => Vec::new(),
        Err(Error::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn all_faults_are_told_at_once_with_their_lines() {
    let operator = "\
apiVersion: kudo.dev/v1
name: bad
operatorVersion: 0.1.0
tasks:
- {name: none, kind: Aply}
- {name: empty, kind: Apply}
- {name: lost, kind: Delete, spec: {resources: [lost.yaml]}}
- {name: pipe, kind: Pipe, spec: {pod: pod.yaml, pipe: [{file: a, envFile: b, kind: Pod, key: 'a b'}]}}
plans:
  update:
    phases:
    - name: main
      steps:
      - {name: one, tasks: [missing]}
";
    let found = problems(
        operator,
        "parameters:\n- {name: A, trigger: nowhere}\n- {name: B, type: integer, default: x}\n",
    );
    for wanted in [
        "operator.yaml:1: apiVersion kudo.dev/v1 is not supported",
        "operator.yaml:5: task none: unknown task kind Aply, did you mean Apply?",
        "operator.yaml:6: task empty: Apply has an empty resource list",
        "operator.yaml:7: task lost: templates/lost.yaml not found",
        "either 'file' or 'envFile'",
        "invalid pipe kind",
        "invalid pipe key",
        "there is no deploy plan",
        "operator.yaml:14: step update.main.one: task missing is not defined",
        "params.yaml:2: plan \"nowhere\" used in parameter \"A\" is not defined",
        "params.yaml:3: parameter \"B\" has an invalid default value",
    ] {
        assert!(found.iter().any(|one| one.contains(wanted)), "{wanted} is not in {found:#?}");
    }
}

#[test]
fn missing_files_and_bad_templates_checks_and_charts_are_refused() {
    let found = match Package::from_files([("params.yaml", "parameters: [")]) {
        Err(Error::Invalid(problems)) => problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert!(
        found.iter().any(|one| one.contains("operator.yaml: file not found in the package")),
        "{found:?}"
    );
    assert!(found.iter().any(|one| one.starts_with("params.yaml:")), "{found:?}");
    let operator = format!(
        "name: x\noperatorVersion: 0.1.0\ntasks:\n\
         - {{name: t, kind: Apply, spec: {{resources: [a.yaml], health: [{{kind: Job, ready: '1 +'}}]}}}}\n\
         - {{name: c, kind: Helm, spec: {{chart: broken}}}}\n- {{name: l, kind: Helm, spec: {{chart: lost, valuesFile: v.yaml}}}}\n{PLANS}"
    );
    let files = [
        ("operator.yaml", operator.as_str()),
        ("params.yaml", "parameters: []"),
        ("templates/a.yaml", "a: b\nc: {{ if }}\n"),
        ("charts/broken/Chart.yaml", "name: x\n"),
        ("charts/unused/Chart.yaml", "["),
    ];
    let found = match Package::from_files(files) {
        Err(Error::Invalid(problems)) => problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    for wanted in [
        "templates/a.yaml:2: ",
        "operator.yaml:4: task t: health of Job: \"1 +\"",
        "charts/broken: ",
        "operator.yaml:6: task l: charts/lost not found",
        "task l: templates/v.yaml not found",
    ] {
        assert!(found.iter().any(|one| one.contains(wanted)), "{wanted} is not in {found:#?}");
    }
    assert!(!found.iter().any(|one| one.contains("unused")), "{found:#?}");
}

#[test]
fn packages_that_install_each_other_are_refused() {
    let root = std::env::temp_dir().join(format!("kudo-cycle-{}", std::process::id()));
    for (name, other) in [("a", "b"), ("b", "a")] {
        let directory = root.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let operator = format!(
            "name: {name}\noperatorVersion: 0.1.0\ntasks: [{{name: t, kind: KudoOperator, spec: {{package: ../{other}}}}}]\n{PLANS}"
        );
        std::fs::write(directory.join("operator.yaml"), operator).unwrap();
        std::fs::write(directory.join("params.yaml"), "parameters: []").unwrap();
    }
    let refused = package::with_dependencies(&root.join("a")).unwrap_err().to_string();
    std::fs::remove_dir_all(&root).unwrap();
    assert!(refused.contains("cyclic package dependency"), "{refused}");
}

#[test]
fn an_instance_is_upgraded_to_a_package_without_a_deploy_plan() {
    let directory = std::env::temp_dir().join(format!("kudo-upgrade-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let plans = PLANS.replace("deploy", "upgrade");
    let operator = format!("name: x\noperatorVersion: 2.0.0\ntasks: [{{name: t, kind: Dummy}}]\n{plans}");
    std::fs::write(directory.join("operator.yaml"), operator).unwrap();
    std::fs::write(directory.join("params.yaml"), "parameters: [{name: A, trigger: deploy}]").unwrap();
    let read = package::for_upgrade(&directory).map(|packages| packages[0].version_name());
    let refused = package::with_dependencies(&directory).unwrap_err().to_string();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(read.unwrap(), "x-2.0.0");
    assert!(refused.contains("there is no deploy plan"), "{refused}");
}

#[test]
fn slips_are_warned_of_and_run_as_in_kudo() {
    let operator = format!(
        "name: x\noperatorVersion: 1\nappVersion: 3.10\nstategy: serial\ntasks: [{{name: t, kind: Dummy}}]\n{}",
        PLANS.replace("strategy: serial, steps", "strategy: serail, steps")
    );
    let params = "parameters:\n- {name: N, default: 1000000, type: integer, desription: x}\n- {name: L, type: array}\n";
    let package =
        Package::from_files([("operator.yaml", operator.as_str()), ("params.yaml", params)]).unwrap();
    let warnings: Vec<String> = package.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "operator.yaml:4: unknown key stategy",
            "params.yaml:2: unknown key desription, did you mean description?",
            "operator.yaml:6: phase deploy.p: unknown strategy serail runs in parallel, did you mean serial?",
        ]
    );
    assert_eq!(package.version_name(), "x-3.1-1");
    let version = package.operator_version("default").unwrap();
    assert_eq!(version.spec.parameters[0].default.as_deref(), Some("1000000"));
    assert!(version.spec.parameters[1].default.is_some(), "a list counts as having a default");
    assert!(version.spec.parameters[0].is_required());
}

#[test]
fn removed_versions_are_mapped() {
    let mut ingress = json!({
        "apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "i"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": {"serviceName": "s", "servicePort": 80}}]}}]},
    });
    map_removed_api(&mut ingress).unwrap();
    assert_eq!(ingress["apiVersion"], "networking.k8s.io/v1");
    let path = &ingress["spec"]["rules"][0]["http"]["paths"][0];
    assert_eq!(path["backend"], json!({"service": {"name": "s", "port": {"number": 80}}}));
    assert_eq!(path["pathType"], "ImplementationSpecific");
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "spec": {"version": "v1", "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"a": {}}}}}}},
    });
    map_removed_api(&mut crd).unwrap();
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["name"], "v1");
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["type"], "object");
    assert_eq!(spec["properties"]["a"]["x-kubernetes-preserve-unknown-fields"], true);
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "spec": {"group": "things.k8s.io", "version": "v1", "validation": {"openAPIV3Schema": {"properties": {
            "port": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "size": {"type": "string", "oneOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]},
        }}}},
    });
    map_removed_api(&mut crd).unwrap();
    let properties = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(properties["port"], json!({"x-kubernetes-int-or-string": true}));
    let approved = crd["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str().unwrap();
    assert!(approved.starts_with("unapproved"), "{approved}");
    assert_eq!(properties["size"]["oneOf"], json!([{"pattern": "a"}, {"pattern": "b"}]));
    assert!(map_removed_api(&mut json!({"apiVersion": "v1", "kind": "Service"})).is_none());
}

#[test]
fn the_hash_follows_what_is_mounted_and_nothing_else() {
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": value}, "data": {"a": "1"}});
    let workload = json!({"spec": {"template": {"spec": {
        "volumes": [{"secret": {"secretName": "s"}}, {"configMap": {"name": "c"}}], "imagePullSecrets": [{"name": "p"}],
    }}}});
    let found = dependencies(&workload);
    let names: Vec<(&str, &str)> = found.iter().map(|one| (one.kind, one.name.as_str())).collect();
    assert_eq!(names, [("ConfigMap", "c"), ("Secret", "p"), ("Secret", "s")]);
    let hash = |value: &serde_json::Value| dependencies_hash([Some(value), None, None]);
    assert_eq!(hash(&map("1")), hash(&map("2")), "what changes by itself does not count");
    let mut other = map("1");
    other["data"]["a"] = "2".into();
    assert_ne!(hash(&map("1")), hash(&other));
}

/// Verifies the packages of a checkout of the public operators repository.
#[test]
#[ignore = "needs a checkout of the public operators repository in STEERSMAN_KUDO_OPERATORS"]
fn public_packages_are_read() {
    let Some(root) = std::env::var_os("STEERSMAN_KUDO_OPERATORS") else { return };
    let mut packages = Vec::new();
    find(Path::new(&root), &mut packages);
    let mut failed = 0;
    for path in &packages {
        match Package::read(path) {
            Ok(package) => println!("{}: {} warnings", path.display(), package.warnings.len()),
            Err(error) => {
                failed += 1;
                println!("{}: {error}", path.display());
            }
        }
    }
    println!("{} of {} packages are read", packages.len() - failed, packages.len());
    assert_eq!(failed, 0);
}

fn find(directory: &Path, packages: &mut Vec<PathBuf>) {
    if package::is_package(directory) {
        packages.push(directory.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        find(&entry.path(), packages);
    }
}
