//! `steer update`, `steer rbac learn`, `steer scorecard`, and projects for Ansible.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::outcome;
use crate::support::project::{OPERATOR_SDK, Place, copy, minimart, root};

fn chart_project() -> Place {
    let place = Place::new("shop-operator");
    place
        .run(&["init", "--plugins", "helm", "--domain", "example.com", "--helm-chart", &minimart()])
        .success();
    place
}

/// Changes a file and its merge base, as if an older scaffold had written it.
fn age(place: &Place, path: &str, from: &str, to: &str) {
    for (path, indent) in [(path, ""), (".scaffold.yaml", "    ")] {
        let text = place.read(path);
        let (from, to) = (format!("{indent}{from}\n"), format!("{indent}{to}\n"));
        assert!(text.contains(&from), "{path} has no {from}");
        place.write(path, &text.replacen(&from, &to, 1));
    }
}

fn edit(place: &Place, path: &str, from: &str, to: &str) {
    let text = place.read(path);
    assert!(text.contains(from), "{path} has no {from}");
    place.write(path, &text.replacen(from, to, 1));
}

#[test]
fn edits_stay_and_a_newer_scaffold_comes_in() {
    let place = chart_project();
    assert!(place.run(&["update"]).success().contains("nothing to do"));
    let newest = place.read("config/manager/manager.yaml");
    age(&place, "config/manager/manager.yaml", "            memory: 128Mi", "            memory: 99Mi");
    age(&place, "Makefile", "STEER ?= steer", "STEER ?= old-steer");
    edit(&place, "Makefile", "VERSION ?= 0.0.1", "VERSION ?= 7.0.0");
    edit(&place, "Makefile", "\n##@ Build\n", "\n.PHONY: mine\nmine:\n\techo mine\n\n##@ Build\n");

    // A dry run shows everything and writes nothing.
    let files = place.files();
    let said = place.run(&["update", "--dry-run"]).success();
    assert!(said.contains("--- a/Makefile\n+++ b/Makefile\n"), "{said}");
    assert!(said.contains("-STEER ?= old-steer\n+STEER ?= steer\n"), "{said}");
    assert!(place.files() == files);

    let said = place.run(&["update"]).success();
    assert!(
        said.contains("updated  Makefile\n") && said.contains("updated  config/manager/manager.yaml\n"),
        "{said}"
    );
    let makefile = place.read("Makefile");
    for line in ["\nSTEER ?= steer\n", "\nVERSION ?= 7.0.0\n", "\n.PHONY: mine\n"] {
        assert!(makefile.contains(line), "{line}{makefile}");
    }
    assert_eq!(place.read("config/manager/manager.yaml"), newest);
    let files = place.files();
    assert!(place.run(&["update"]).success().contains("nothing to do"));
    assert!(place.files() == files, "the second time changed something");
}

#[test]
fn conflicts_are_left_as_git_leaves_them() {
    let place = chart_project();
    age(&place, "Makefile", "STEER ?= steer", "STEER ?= old-steer");
    edit(&place, "Makefile", "STEER ?= old-steer\n", "STEER ?= my-steer\n");
    let failed = place.run(&["update"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stdout.contains("conflict Makefile\n"), "{}", failed.stdout);
    assert!(failed.stderr.contains("conflicts in 1 file: Makefile"), "{}", failed.stderr);
    let marked = format!(
        "<<<<<<< yours\nSTEER ?= my-steer\n=======\nSTEER ?= steer\n>>>>>>> scaffold {}\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(place.read("Makefile").contains(&marked), "{}", place.read("Makefile"));

    // Files with unresolved conflicts are not merged again.
    let files = place.files();
    let failed = place.run(&["update"]).failure();
    assert!(failed.contains("unresolved conflicts in Makefile"), "{failed}");
    assert!(place.files() == files);
    edit(&place, "Makefile", &marked, "STEER ?= my-steer\n");
    assert!(place.run(&["update"]).success().contains("nothing to do"));
}

#[test]
fn what_was_removed_stays_removed() {
    let place = chart_project();
    std::fs::remove_file(place.directory.join("config/prometheus/monitor.yaml")).unwrap();
    assert!(place.run(&["update"]).success().contains("nothing to do"));
    age(&place, "Makefile", "STEER ?= steer", "STEER ?= old-steer");
    place.run(&["update"]).success();
    assert!(!place.directory.join("config/prometheus/monitor.yaml").exists());
    // Adding a kind and changing the project's configuration do not count as edits.
    place.run(&["create", "api", "--group", "web", "--version", "v1", "--kind", "Site"]).success();
    place.run(&["edit", "--namespaced"]).success();
    assert!(place.run(&["update"]).success().contains("nothing to do"));
}

/// The remaining files of an operator-sdk project.
const MORE_OF_OPERATOR_SDK: &[(&str, &str)] = &[
    (
        "Dockerfile",
        "FROM quay.io/operator-framework/helm-operator:v1.42.3\n\nENV HOME=/opt/helm\nCOPY watches.yaml ${HOME}/watches.yaml\n\
         COPY helm-charts  ${HOME}/helm-charts\nWORKDIR ${HOME}\n",
    ),
    (
        "config/default/kustomization.yaml",
        "namespace: web-servers\nnamePrefix: nginx-operator-\nresources:\n- ../crd\n- ../rbac\n- ../manager\n- metrics_service.yaml\n\
         patches:\n- path: manager_metrics_patch.yaml\n  target:\n    kind: Deployment\n",
    ),
    (
        "config/default/manager_metrics_patch.yaml",
        "- op: add\n  path: /spec/template/spec/containers/0/args/0\n  value: --metrics-bind-address=:8443\n",
    ),
    ("config/manager/kustomization.yaml", "resources:\n- manager.yaml\n"),
    (
        "config/manager/manager.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: system\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  \
         name: controller-manager\n  namespace: system\nspec:\n  selector:\n    matchLabels:\n      control-plane: controller-manager\n  \
         replicas: 1\n  template:\n    metadata:\n      labels:\n        control-plane: controller-manager\n    spec:\n      containers:\n      \
         - args:\n        - --leader-elect\n        - --leader-election-id=nginx-operator\n        - --health-probe-bind-address=:8081\n        \
         image: controller:latest\n        name: manager\n        resources:\n          limits:\n            memory: 777Mi\n      \
         serviceAccountName: controller-manager\n",
    ),
];

fn operator_sdk_project() -> Place {
    let place = Place::new("nginx-operator");
    for (path, text) in OPERATOR_SDK.iter().chain(MORE_OF_OPERATOR_SDK) {
        place.write(path, text);
    }
    copy(&root().join("examples/nginx/helm-charts/nginx"), &place.directory.join("helm-charts/nginx"));
    place
}

#[test]
fn a_project_of_operator_sdk_is_brought_to_the_scaffold_and_runs() {
    let place = operator_sdk_project();
    let before = place.files();
    let said = place.run(&["update"]).success();
    assert!(said.contains("created  Makefile\n") && said.contains("updated  Dockerfile\n"), "{said}");
    for (path, content) in &before {
        let is_theirs = ["helm-charts/", "watches.yaml", "config/samples/demo", "config/crd/bases/"];
        if is_theirs.iter().any(|start| path.to_string_lossy().starts_with(start)) {
            assert!(place.files().get(path) == Some(content), "{} changed", path.display());
        }
    }
    let project = place.yaml("PROJECT");
    assert_eq!(project["layout"], json!(["helm.sdk.operatorframework.io/v1"]));
    assert_eq!(project["cliVersion"], "1.42.3");
    assert_eq!(project["plugins"]["scaffold.steersman.dev/v1"]["version"], env!("CARGO_PKG_VERSION"));
    // The user's settings are carried over.
    assert!(
        place
            .read("config/default/kustomization.yaml")
            .starts_with("# Adds namespace to all resources.\nnamespace: web-servers\n")
    );
    let manager = place.read("config/manager/manager.yaml");
    assert!(
        manager.contains("            memory: 777Mi\n") && manager.contains("--metrics-bind-address=:8443"),
        "{manager}"
    );
    let role = place.read("config/rbac/role.yaml");
    assert!(
        role.contains("# We need to manage Helm release secrets\n") && role.contains("- events.k8s.io\n"),
        "{role}"
    );
    let files = place.files();
    assert!(place.run(&["update"]).success().contains("nothing to do"));
    assert!(place.files() == files);

    // The manifests render completely, and the operator runs under its role, which now allows everything that it does.
    let objects = place.run(&["generate", "kustomize"]).success();
    assert!(
        objects.contains("namespace: web-servers\n") && objects.contains("metrics-auth-role"),
        "{objects}"
    );
    let said = place.run(&["dev", ".", "--until-ready", "-o", "json"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(!said.stdout.contains("\"denied\""), "{}", said.stdout);
}

#[test]
fn what_a_person_made_of_operator_sdks_files_is_kept() {
    let place = operator_sdk_project();
    edit(&place, "Dockerfile", "WORKDIR ${HOME}\n", "RUN dnf install -y jq\nWORKDIR ${HOME}\n");
    edit(&place, "config/rbac/service_account.yaml", "apiVersion: v1\n", "# Ours.\napiVersion: v1\n");
    let failed = place.run(&["update"]).failure();
    assert!(failed.contains("conflicts in 1 file: Dockerfile"), "{failed}");
    let dockerfile = place.read("Dockerfile");
    assert!(
        dockerfile.contains("<<<<<<< yours\n") && dockerfile.contains("RUN dnf install -y jq\n"),
        "{dockerfile}"
    );
    assert!(place.read("config/rbac/service_account.yaml").starts_with("# Ours.\n"));
}

#[test]
fn a_role_is_learnt_from_a_run() {
    let place = chart_project();
    let wide = place.read("config/rbac/role.yaml");
    assert!(wide.contains("horizontalpodautoscalers"), "{wide}");
    let said = place.run(&["rbac", "learn"]).success();
    assert!(said.contains("-  - horizontalpodautoscalers\n"), "{said}");
    let role = place.read("config/rbac/role.yaml");
    assert!(!role.contains("horizontalpodautoscalers") && !role.contains("- '*'"), "{role}");
    let rules = place.yaml("config/rbac/role.yaml")["rules"].clone();
    let deployments =
        rules.as_array().unwrap().iter().find(|rule| rule.to_string().contains("\"deployments\"")).unwrap();
    assert!(deployments["verbs"].as_array().unwrap().contains(&json!("delete")), "{rules}");
    // The learnt role suffices for the same run, and the generators keep it.
    let said = place.run(&["dev", ".", "--until-ready", "-o", "json"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(!said.stdout.contains("\"denied\""), "{}", said.stdout);
    assert!(place.run(&["generate", "rbac"]).success().contains("nothing to do"));

    // An edit is not overwritten without --force.
    edit(&place, "config/rbac/role.yaml", "  - delete\n", "  - delete\n  - deletecollection\n");
    let edited = place.read("config/rbac/role.yaml");
    let failed = place.run(&["rbac", "learn"]);
    assert_eq!(failed.code, 1);
    assert!(
        failed.stderr.contains("config/rbac/role.yaml was edited by hand: not replaced"),
        "{}",
        failed.stderr
    );
    assert!(failed.stdout.contains("-  - deletecollection\n"), "{}", failed.stdout);
    assert_eq!(place.read("config/rbac/role.yaml"), edited);
    place.run(&["rbac", "learn", "--force"]).success();
    assert_eq!(place.read("config/rbac/role.yaml"), role);
}

#[test]
fn a_role_is_learnt_from_an_audit_log() {
    let place = chart_project();
    let event = |user: &str, verb: &str, resource: &str| {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "verb": verb, "user": {"username": user},
            "objectRef": {"resource": resource, "namespace": "shop", "name": "x"}, "responseStatus": {"code": 200},
        })
    };
    let own = "system:serviceaccount:shop-operator-system:shop-operator-controller-manager";
    let log = format!("{}\n{}\n", event(own, "get", "configmaps"), event("admin", "delete", "nodes"));
    place.write("audit.log", &log);
    place.run(&["rbac", "learn", "--audit-log", "audit.log"]).success();
    let rules = place.yaml("config/rbac/role.yaml")["rules"].to_string();
    assert!(
        rules.contains("configmaps") && !rules.contains("nodes") && !rules.contains("deployments"),
        "{rules}"
    );
    let failed = place.run(&["rbac", "learn", "--audit-log", "audit.log", "--user", "nobody"]).failure();
    assert!(failed.contains("the operator made no requests"), "{failed}");
    place.write("audit.log", "no log\n");
    let failed = place.run(&["rbac", "learn", "--audit-log", "audit.log"]).failure();
    assert!(failed.contains("audit.log: line 1: "), "{failed}");
}

#[test]
fn a_bundle_is_scored() {
    let place = Place::new("site-operator");
    let init = [
        "init",
        "--plugins",
        "helm",
        "--domain",
        "example.com",
        "--group",
        "web",
        "--version",
        "v1",
        "--kind",
        "Site",
    ];
    place.run(&init).success();
    place.run(&["generate", "bundle"]).success();
    let listed = place.run(&["scorecard", "--list"]).success();
    assert_eq!(listed.matches("Entrypoint: [scorecard-test ").count(), 6, "{listed}");
    assert!(!listed.contains("State:"), "{listed}");
    let said = place.run(&["scorecard", "bundle"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.stdout.matches("\tState: pass\n").count(), 6, "{}", said.stdout);
    let said = place.run(&["scorecard", "-l", "suite=basic", "-o", "json"]).success();
    let list: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(list["kind"], "TestList");
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["status"]["results"][0]["state"], "pass");

    // An example that the definition rejects.
    let path = "bundle/manifests/site-operator.clusterserviceversion.yaml";
    edit(&place, path, "\"replicaCount\": 1", "\"replicaCount\": \"many\"");
    let failed = place.run(&["scorecard", "-o", "xunit", "--selector", "test in (basic-check-spec-test)"]);
    assert_eq!(failed.code, 1);
    assert!(
        failed.stdout.contains("failures=\"1\"") && failed.stdout.contains("spec.replicaCount"),
        "{}",
        failed.stdout
    );
    let failed = place.run(&["scorecard", "nowhere"]).failure();
    assert!(failed.contains("steer generate bundle"), "{failed}");
}

fn ansible_project(flags: &[&str]) -> Place {
    let place = Place::new("cache-operator");
    place
        .run(&["init", "--plugins", "ansible.sdk.operatorframework.io/v1", "--domain", "example.com"])
        .success();
    let api = ["create", "api", "--group", "cache", "--version", "v1alpha1", "--kind", "Memcached"];
    place.run(&[&api[..], flags].concat()).success();
    place
}

#[test]
fn an_ansible_project_is_laid_out_as_operator_sdk_does() {
    let place = ansible_project(&["--generate-role"]);
    assert_eq!(place.yaml("PROJECT")["layout"], json!(["ansible.sdk.operatorframework.io/v1"]));
    for path in ["tasks", "defaults", "handlers", "meta", "vars"] {
        place.yaml(&format!("roles/memcached/{path}/main.yml"));
    }
    for path in ["roles/memcached/files", "roles/memcached/templates", "playbooks"] {
        assert!(place.directory.join(path).is_dir(), "{path}");
    }
    assert_eq!(
        place.yaml("watches.yaml"),
        json!([{"group": "cache.example.com", "version": "v1alpha1", "kind": "Memcached", "role": "memcached", "markUnsafe": true}])
    );
    let crd = place.yaml("config/crd/bases/cache.example.com_memcacheds.yaml");
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(place.yaml("requirements.yml")["collections"][0]["name"], "kubernetes.core");
    let manager = place.read("config/manager/manager.yaml");
    assert!(manager.contains("ANSIBLE_GATHERING") && manager.contains("memory: 768Mi"), "{manager}");
    let role = place.read("config/rbac/role.yaml");
    assert!(role.contains("- memcacheds/finalizers\n") && role.contains("- pods/exec\n"), "{role}");
    assert!(place.directory.join("tests/e2e/memcached/00-assert.yaml").exists());
    place.run(&["generate", "kustomize"]).success();
    place.run(&["generate", "bundle"]).success();
    place.run(&["bundle", "validate"]).success();

    let both = ansible_project(&["--generate-role", "--generate-playbook"]);
    assert_eq!(both.yaml("watches.yaml")[0]["playbook"], "playbooks/memcached.yml");
    assert!(both.yaml("watches.yaml")[0]["role"].is_null());
    let playbook = both.yaml("playbooks/memcached.yml");
    assert_eq!(playbook[0]["tasks"][0]["ansible.builtin.import_role"]["name"], "../roles/memcached");

    // Repeating it changes nothing, and the flags only apply to Ansible projects.
    let files = both.files();
    let api = ["create", "api", "--group", "cache", "--version", "v1alpha1", "--kind", "Memcached"];
    both.run(&[&api[..], &["--generate-role", "--generate-playbook"]].concat()).success();
    assert!(both.run(&["update"]).success().contains("nothing to do"));
    assert!(both.files() == files);
    let failed = chart_project().run(&[&api[..], &["--generate-role"]].concat()).failure();
    assert!(failed.contains("for Ansible projects"), "{failed}");
}

/// The scaffolded project runs, with its role and with its playbook, and its own suite passes.
#[test]
#[ignore = "needs Ansible: make test-ansible"]
fn an_ansible_project_that_was_scaffolded_runs() {
    let with_python = |place: &Place, arguments: &[&str]| {
        let mut command = place.steer.command(arguments);
        command.envs(std::env::var_os("VIRTUAL_ENV").map(|value| ("VIRTUAL_ENV", value)));
        outcome(command.current_dir(&place.directory).stdin(Stdio::null()))
    };
    for flags in [&["--generate-role"][..], &["--generate-role", "--generate-playbook"]] {
        let place = ansible_project(flags);
        place.write(
            "roles/memcached/tasks/main.yml",
            "---\n- name: Keep the ConfigMap\n  kubernetes.core.k8s:\n    definition:\n      apiVersion: v1\n      kind: Secret\n      \
             metadata:\n        name: \"{{ ansible_operator_meta.name }}\"\n        namespace: \"{{ ansible_operator_meta.namespace }}\"\n",
        );
        let said = with_python(&place, &["dev", ".", "--until-ready", "-o", "json"]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        assert!(!said.stdout.contains("\"denied\""), "{}", said.stdout);
        let said = with_python(&place, &["e2e", "--timeout", "60"]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        let learned = with_python(&place, &["rbac", "learn"]);
        assert_eq!(learned.code, 0, "{}{}", learned.stdout, learned.stderr);
        let role = place.read("config/rbac/role.yaml");
        assert!(role.contains("- secrets\n") && !role.contains("- pods/exec\n"), "{role}");
    }
}
