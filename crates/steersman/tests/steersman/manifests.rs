//! The manifests of an operator.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::core::CustomResourceExt as _;
use serde_json::{Value, json};
use steersman::{
    Action, Context, Controller, Error, Operator, Result, Review, Sharding, Watch, Webhook,
    testing::{manifests_match, review},
};

use crate::common::{Widget, free_port, widget};

fn operator() -> Operator {
    let reconcile = |_: Arc<Widget>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
    Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>())
}

fn with_webhooks() -> Operator {
    let default = |widget: &mut Widget, _: &Review<Widget>| {
        if widget.spec.color.is_empty() {
            widget.spec.color = "white".into();
        }
        Ok(())
    };
    let check = |widget: &Widget, _: &Review<Widget>| {
        if widget.spec.color == "ugly" { Err("is ugly".into()) } else { Ok(()) }
    };
    operator()
        .webhook(Webhook::mutating::<Widget>(default))
        .webhook(Webhook::validating::<Widget>(check))
        .webhook_address(free_port())
}

/// Returns the manifests by kind and name.
fn manifests(operator: &Operator) -> BTreeMap<String, Value> {
    let text = operator.manifests("lab", "image:1").unwrap();
    let documents = text.split("---\n").filter(|text| !text.trim().is_empty());
    let read = |text: &str| -> (String, Value) {
        let object: Value = steersman_yaml::from_str(text).unwrap();
        let word = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, place, name) = (word("/kind"), word("/metadata/namespace"), word("/metadata/name"));
        let key = if place.is_empty() { format!("{kind} {name}") } else { format!("{kind} {place}/{name}") };
        (key, object)
    };
    documents.map(read).collect()
}

/// Returns the rules of a role, one line each.
fn rules(role: &Value) -> Vec<String> {
    let join = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    };
    let line = |rule: &Value| {
        let line =
            format!("{}:{} {}", join(&rule["apiGroups"]), join(&rule["resources"]), join(&rule["verbs"]));
        match join(&rule["resourceNames"]) {
            names if names.is_empty() => line,
            names => format!("{line} of {names}"),
        }
    };
    role["rules"].as_array().into_iter().flatten().map(line).collect()
}

const INSIDE: [&str; 5] = [
    ":configmaps create,delete,get,list,patch,watch",
    "events.k8s.io:events create,patch",
    "test.steersman.dev:widgets get,list,patch,watch",
    "test.steersman.dev:widgets/status patch",
    "test.steersman.dev:widgets/finalizers update",
];

/// For secure metrics, which the manifests enable.
const REVIEWS: [&str; 2] =
    ["authentication.k8s.io:tokenreviews create", "authorization.k8s.io:subjectaccessreviews create"];

#[test]
fn an_operator_comes_with_what_it_needs() {
    let all = manifests(&operator());
    let expected = [
        "ClusterRole test",
        "ClusterRole test-metrics-reader",
        "ClusterRoleBinding test",
        "CustomResourceDefinition widgets.test.steersman.dev",
        "Deployment lab/test",
        "Role lab/test-leader-election",
        "RoleBinding lab/test-leader-election",
        "Service lab/test-metrics",
        "ServiceAccount lab/test",
    ];
    assert_eq!(all.keys().collect::<Vec<_>>(), expected);
    assert_eq!(rules(&all["ClusterRole test"]), [&INSIDE[..], &REVIEWS].concat());
    assert_eq!(
        all["ClusterRole test-metrics-reader"]["rules"],
        json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    );
    assert_eq!(
        rules(&all["Role lab/test-leader-election"]),
        ["coordination.k8s.io:leases create", "coordination.k8s.io:leases get,update of test"]
    );
    let account = json!([{"kind": "ServiceAccount", "name": "test", "namespace": "lab"}]);
    for (binding, role) in [
        ("ClusterRoleBinding test", "test"),
        ("RoleBinding lab/test-leader-election", "test-leader-election"),
    ] {
        assert_eq!((&all[binding]["subjects"], &all[binding]["roleRef"]["name"]), (&account, &json!(role)));
    }
    let deployment = &all["Deployment lab/test"]["spec"];
    let container = &deployment["template"]["spec"]["containers"][0];
    assert_eq!((&deployment["replicas"], &container["image"]), (&json!(1), &json!("image:1")));
    assert_eq!(container["args"], json!(["run", "--leader-elect", "--metrics-bind-address=:8443"]));
    assert_eq!(container["env"].as_array().unwrap().len(), 1);
    assert_eq!(deployment["selector"]["matchLabels"], deployment["template"]["metadata"]["labels"]);
    let service = &all["Service lab/test-metrics"]["spec"];
    assert_eq!(service["selector"], deployment["selector"]["matchLabels"]);
    for object in all.values().filter(|object| object["kind"] != "CustomResourceDefinition") {
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"], "steersman", "{object}");
    }
}

#[test]
fn an_operator_of_some_namespaces_has_its_rights_there() {
    let reconcile = |_: Arc<Widget>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
    let nodes = Controller::of::<Widget>(reconcile)
        .named("nodes")
        .watch(Watch::mapped::<Node>("all", |_| Vec::new()));
    let all = manifests(&operator().namespaces(["one", "two"]).controller(nodes));
    for place in ["one", "two"] {
        assert_eq!(rules(&all[&format!("Role {place}/test")]), INSIDE);
        assert_eq!(all[&format!("RoleBinding {place}/test")]["roleRef"]["kind"], "Role");
    }
    let outside = [&[":nodes get,list,watch"][..], &REVIEWS].concat();
    assert_eq!(rules(&all["ClusterRole test"]), outside, "what is in no namespace");
    let env = &all["Deployment lab/test"]["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[1], json!({"name": "WATCH_NAMESPACE", "value": "one,two"}));
}

#[test]
fn replicas_that_share_have_leases_of_their_own() {
    let all = manifests(&operator().sharding(Sharding::new()));
    assert_eq!(
        rules(&all["Role lab/test-leader-election"]),
        ["coordination.k8s.io:leases create,delete,get,list,patch,update"]
    );
    let deployment = &all["Deployment lab/test"]["spec"];
    assert_eq!(deployment["replicas"], 2);
    assert_eq!(deployment["template"]["spec"]["containers"][0]["args"][1], "--shard");
}

#[test]
fn webhooks_come_with_their_configurations() {
    let all = manifests(&with_webhooks());
    let service = &all["Service lab/test-webhook"]["spec"];
    assert_eq!(service["ports"][0]["targetPort"], 9443);
    assert!(all.contains_key("Secret lab/test-webhook"));
    for (kind, path) in [
        ("MutatingWebhookConfiguration", "/mutate-test-steersman-dev-v1-widget"),
        ("ValidatingWebhookConfiguration", "/validate-test-steersman-dev-v1-widget"),
    ] {
        let configuration = &all[&format!("{kind} test-webhook")];
        let [webhook] = configuration["webhooks"].as_array().unwrap().as_slice() else {
            panic!("{configuration}")
        };
        let reached = json!({"service": {"name": "test-webhook", "namespace": "lab", "path": path}});
        assert_eq!(webhook["clientConfig"], reached);
        assert_eq!(webhook["rules"][0]["resources"], json!(["widgets"]));
        assert_eq!(webhook["rules"][0]["apiGroups"], json!(["test.steersman.dev"]));
        assert!(webhook.get("namespaceSelector").is_none());
    }
    let own = rules(&all["Role lab/test-leader-election"]);
    assert!(own.contains(&":secrets get,update of test-webhook".to_owned()), "{own:?}");
    let outside = rules(&all["ClusterRole test"]);
    let expected = "admissionregistration.k8s.io:mutatingwebhookconfigurations,validatingwebhookconfigurations get,patch of test-webhook";
    assert!(outside.contains(&expected.to_owned()), "{outside:?}");
    // Certificates from elsewhere are not kept in a Secret.
    let all = manifests(&with_webhooks().webhook_certificates("/certificates"));
    assert!(!all.contains_key("Secret lab/test-webhook"));
    assert_eq!(rules(&all["Role lab/test-leader-election"]).len(), 2);
    assert_eq!(rules(&all["ClusterRole test"]), [&INSIDE[..], &REVIEWS].concat());
    // With some namespaces, the webhooks are called for those only.
    let all = manifests(&with_webhooks().namespaces(["one"]).webhook_url("https://127.0.0.1:9443/"));
    let webhook = &all["ValidatingWebhookConfiguration test-webhook"]["webhooks"][0];
    assert_eq!(webhook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["one"]));
    assert_eq!(
        webhook["clientConfig"],
        json!({"url": "https://127.0.0.1:9443/validate-test-steersman-dev-v1-widget"})
    );
}

#[test]
fn only_secure_metrics_take_reviews() {
    let reviews = |operator: Operator| {
        let rules = operator.rules();
        rules.iter().flat_map(|rule| rule.resources.iter().flatten()).any(|name| name == "tokenreviews")
    };
    assert!(!reviews(operator()) && !reviews(operator().secure_metrics(true)));
    assert!(!reviews(operator().metrics_address(free_port())));
    assert!(reviews(operator().metrics_address(free_port()).secure_metrics(true)));
}

#[test]
fn definitions_given_by_hand_win() {
    let mut own = Widget::crd();
    own.metadata.labels = Some([("by".to_owned(), "hand".to_owned())].into());
    let crds = operator().crd(own.clone()).crds();
    assert_eq!(crds, [own]);
    assert_eq!(operator().crds(), [Widget::crd()]);
    let reconcile =
        |_: Arc<Namespace>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
    assert!(Operator::new("x").controller(Controller::of_existing::<Namespace>(reconcile)).crds().is_empty());
}

#[test]
fn a_file_of_manifests_is_compared() -> Result<()> {
    let path = std::env::temp_dir().join(format!("steersman-manifests-{}.yaml", std::process::id()));
    let text = operator().manifests("default", "controller:latest")?;
    std::fs::write(&path, &text).map_err(Error::other)?;
    manifests_match(&operator(), &path)?;
    std::fs::write(&path, text + "# more\n").map_err(Error::other)?;
    let error = manifests_match(&operator(), &path).unwrap_err().to_string();
    assert!(error.ends_with("is stale: run the tests with UPDATE_MANIFESTS=1"), "{error}");
    std::fs::remove_file(&path).map_err(Error::other)
}

#[test]
fn webhooks_can_be_asked_without_a_server() {
    let operator = with_webhooks();
    let white = review(&operator, "mutate", None, Some(&widget("one", ""))).unwrap();
    assert_eq!(white.spec.color, "white");
    let red = review(&operator, "mutate", None, Some(&widget("one", "red"))).unwrap();
    assert_eq!(red.spec.color, "red");
    let refused = review(&operator, "validate", Some(&red), Some(&widget("one", "ugly"))).unwrap_err();
    assert!(refused.contains("is ugly"), "{refused}");
    assert_eq!(review(&operator, "validate", Some(&red), Some(&white)).unwrap().spec, white.spec);
    let missing = review::<ConfigMap>(&operator, "validate", None, Some(&ConfigMap::default())).unwrap_err();
    assert_eq!(missing, "no webhook at /validate--v1-configmap");
}
