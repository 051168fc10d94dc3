//! The simulated workloads, observed through an ordinary client.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{
        ConfigMap, Endpoints, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        ReplicationController, ResourceQuota, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_cluster::{Builder, Cluster};

fn virtual_cluster() -> Builder {
    Cluster::builder().seed(1)
}

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn deployment(name: &str, replicas: i32, image: &str) -> Deployment {
    read(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }))
}

async fn create<K>(client: &Client, object: &K) -> K
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    Api::<K>::default_namespaced(client.clone()).create(&PostParams::default(), object).await.unwrap()
}

fn condition<'a>(deployment: &'a Deployment, type_: &str) -> (&'a str, &'a str) {
    let conditions = deployment.status.as_ref().unwrap().conditions.as_deref().unwrap();
    let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
    (&found.status, found.reason.as_deref().unwrap())
}

#[tokio::test]
async fn a_namespace_has_its_account_and_certificate() {
    let cluster = Cluster::start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let made = read(json!({"metadata": {"name": "shop"}}));
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    cluster.settled().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "shop");
    accounts.get("default").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "shop");
    let data = maps.get("kube-root-ca.crt").await.unwrap().data.unwrap();
    assert_eq!(data["ca.crt"], cluster.root_certificate());
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    maps.get("kube-root-ca.crt").await.unwrap();
    accounts.get("default").await.unwrap();
}

#[tokio::test]
async fn a_deleted_namespace_goes_with_its_content() {
    let cluster = Cluster::start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let made = read(json!({"metadata": {"name": "shop"}}));
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "shop");
    let held: ConfigMap = read(json!({"metadata": {"name": "held", "finalizers": ["example.dev/hold"]}}));
    maps.create(&PostParams::default(), &held).await.unwrap();
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    let conditions = namespaces.get("shop").await.unwrap().status.unwrap().conditions.unwrap();
    let state: BTreeMap<_, _> = conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    assert_eq!(state["NamespaceFinalizersRemaining"], "True");
    assert_eq!(state["NamespaceContentRemaining"], "True");
    assert_eq!(state["NamespaceDeletionContentFailure"], "False");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    for _ in 0..100 {
        if namespaces.get_opt("shop").await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the namespace stays: {:?}", namespaces.get("shop").await);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_and_rolls() {
    let cluster = virtual_cluster().start().await.unwrap();
    let client = cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    create(&client, &deployment("web", 3, "web:1")).await;
    cluster.settled().await;
    let web = deployments.get("web").await.unwrap();
    let status = web.status.clone().unwrap();
    assert_eq!(status.available_replicas, Some(3), "{status:?}");
    assert_eq!(status.observed_generation, web.metadata.generation);
    assert_eq!(condition(&web, "Available"), ("True", "MinimumReplicasAvailable"));
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
    assert_eq!(web.annotations()["deployment.kubernetes.io/revision"], "1");

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    cluster.settled().await;
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let mut sizes: Vec<_> = sets
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(|s| {
            (s.annotations()["deployment.kubernetes.io/revision"].clone(), s.spec.as_ref().unwrap().replicas)
        })
        .collect();
    sizes.sort();
    assert_eq!(sizes, [("1".to_owned(), Some(0)), ("2".to_owned(), Some(3))]);
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let images: Vec<_> = pods
        .list(&ListParams::default().labels("app=web"))
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|p| p.spec.unwrap().containers[0].image.clone().unwrap())
        .collect();
    assert_eq!(images, ["web:2", "web:2", "web:2"]);
    let events: Api<Event> = Api::default_namespaced(client);
    let told = events.list(&ListParams::default()).await.unwrap().items;
    assert!(told.iter().any(|e| e.reason.as_deref() == Some("ScalingReplicaSet")));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_can_not_pull_is_stuck_and_says_so() {
    let cluster = virtual_cluster().start().await.unwrap();
    let client = cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    create(&client, &deployment("web", 4, "web:1")).await;
    cluster.settled().await;
    let patch = json!({"spec": {"progressDeadlineSeconds": 60, "template": {
        "metadata": {"annotations": {"cluster.steersman.dev/fail": "image-pull"}}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    cluster.settled().await;
    let web = deployments.get("web").await.unwrap();
    // The rollout allows one pod more and one less than the four replicas.
    let status = web.status.clone().unwrap();
    assert_eq!(
        (status.replicas, status.updated_replicas, status.available_replicas),
        (Some(5), Some(2), Some(3))
    );
    tokio::time::sleep(Duration::from_secs(62)).await;
    cluster.settled().await;
    let web = deployments.get("web").await.unwrap();
    assert_eq!(condition(&web, "Progressing"), ("False", "ProgressDeadlineExceeded"));
    assert_eq!(condition(&web, "Available"), ("True", "MinimumReplicasAvailable"));
}

#[tokio::test(start_paused = true)]
async fn pods_go_through_their_phases() {
    let cluster = virtual_cluster().start().await.unwrap();
    let client = cluster.client();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = |name: &str, policy: &str, annotations: Value| -> Pod {
        read(json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "c:1"}]},
        }))
    };
    create(&client, &pod("slow", "Always", json!({"cluster.steersman.dev/start-delay": "5s"}))).await;
    create(&client, &pod("crash", "Always", json!({"cluster.steersman.dev/fail": "crash-loop"}))).await;
    create(&client, &pod("task", "Never", json!({}))).await;
    create(&client, &pod("bad", "Never", json!({"cluster.steersman.dev/exit-code": "3"}))).await;
    cluster.settled().await;
    let slow = pods.get("slow").await.unwrap().status.unwrap();
    assert_eq!(slow.phase.as_deref(), Some("Pending"));
    let waiting = slow.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("ContainerCreating"));
    tokio::time::sleep(Duration::from_secs(40)).await;
    cluster.settled().await;
    let phase = async |name: &str| pods.get(name).await.unwrap().status.unwrap().phase.unwrap();
    assert_eq!(phase("slow").await, "Running");
    assert_eq!(phase("task").await, "Succeeded");
    assert_eq!(phase("bad").await, "Failed");
    let crash = pods.get("crash").await.unwrap().status.unwrap();
    assert_eq!(crash.phase.as_deref(), Some("Running"));
    let container = &crash.container_statuses.unwrap()[0];
    assert_eq!(container.restart_count, 2);
    let waiting = container.state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(container.last_state.clone().unwrap().terminated.unwrap().exit_code, 1);
}

#[tokio::test]
async fn what_is_owned_goes_with_its_owner() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let make = async |name: &str, owner: Option<&ConfigMap>, block: bool| {
        let owners: Vec<Value> = owner
            .iter()
            .map(|o| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": o.name_any(), "uid": o.uid(), "blockOwnerDeletion": block}))
            .collect();
        create(&client, &read::<ConfigMap>(json!({"metadata": {"name": name, "ownerReferences": owners}})))
            .await
    };
    let names = async || {
        cluster.settled().await;
        let list = maps.list(&ListParams::default()).await.unwrap().items;
        list.iter().map(kube::ResourceExt::name_any).filter(|n| n != "kube-root-ca.crt").collect::<Vec<_>>()
    };
    let top = make("top", None, false).await;
    let middle = make("middle", Some(&top), true).await;
    make("bottom", Some(&middle), true).await;
    let stranger = make("stranger", None, false).await;
    assert_eq!(names().await, ["bottom", "middle", "stranger", "top"]);
    maps.delete("top", &DeleteParams::background()).await.unwrap();
    assert_eq!(names().await, ["stranger"]);

    make("kept", Some(&stranger), true).await;
    names().await;
    maps.delete("stranger", &DeleteParams::orphan()).await.unwrap();
    assert_eq!(names().await, ["kept"]);
    assert!(maps.get("kept").await.unwrap().owner_references().is_empty());

    let front = make("front", None, false).await;
    let held = make("held", Some(&front), true).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.dev/hold"]}}));
    maps.patch("held", &PatchParams::default(), &hold).await.unwrap();
    names().await;
    maps.delete("front", &DeleteParams::foreground()).await.unwrap();
    assert_eq!(names().await, ["front", "held", "kept"]);
    assert!(maps.get("held").await.unwrap().metadata.deletion_timestamp.is_some(), "{held:?}");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    assert_eq!(names().await, ["kept"]);
}

#[tokio::test]
async fn a_deleted_deployment_takes_its_pods_along() {
    let cluster = Cluster::builder().nodes(3).start().await.unwrap();
    let client = cluster.client();
    create(&client, &deployment("web", 6, "web:1")).await;
    cluster.settled().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = pods.list(&ListParams::default()).await.unwrap().items;
    let mut nodes: Vec<_> =
        made.iter().map(|p| p.spec.as_ref().unwrap().node_name.clone().unwrap()).collect();
    nodes.sort();
    assert_eq!(nodes, ["node-0", "node-0", "node-1", "node-1", "node-2", "node-2"]);
    Api::<Deployment>::default_namespaced(client.clone())
        .delete("web", &DeleteParams::background())
        .await
        .unwrap();
    cluster.settled().await;
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
    let nodes: Api<Node> = Api::all(client);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_keeps_names_and_order() {
    let cluster = virtual_cluster().pod_start_delay(Duration::from_secs(2)).start().await.unwrap();
    let client = cluster.client();
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let set: StatefulSet = read(json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": 3,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "db:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    }));
    create(&client, &set).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let names = async || {
        cluster.settled().await;
        let list = pods.list(&ListParams::default()).await.unwrap().items;
        list.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>()
    };
    // The second pod is created once the first is ready.
    assert_eq!(names().await, ["db-0"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(names().await, ["db-0", "db-1", "db-2"]);
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    claims.get("data-db-2").await.unwrap();
    let status = sets.get("db").await.unwrap().status.unwrap();
    assert_eq!(
        (status.ready_replicas, status.current_revision.clone()),
        (Some(3), status.update_revision.clone())
    );

    let image = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "db:2"}]}}}});
    sets.patch("db", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(names().await, ["db-0", "db-1"]);
    for pod in pods.list(&ListParams::default()).await.unwrap().items {
        assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("db:2"));
    }
    let rolled = sets.get("db").await.unwrap().status.unwrap();
    assert_eq!(rolled.current_revision, rolled.update_revision);
    assert_ne!(rolled.current_revision, status.current_revision);
}

#[tokio::test(start_paused = true)]
async fn jobs_complete_and_fail() {
    let cluster = virtual_cluster().start().await.unwrap();
    let client = cluster.client();
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let job = |name: &str, spec: Value, annotations: Value| -> Job {
        let mut job = json!({"metadata": {"name": name}, "spec": {"template": {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]},
        }}});
        for (key, value) in spec.as_object().unwrap() {
            job["spec"][key] = value.clone();
        }
        read(job)
    };
    create(&client, &job("good", json!({"completions": 5, "parallelism": 2}), json!({}))).await;
    create(&client, &job("bad", json!({"backoffLimit": 1}), json!({"cluster.steersman.dev/exit-code": "1"})))
        .await;
    create(
        &client,
        &job(
            "slow",
            json!({"activeDeadlineSeconds": 5}),
            json!({"cluster.steersman.dev/run-for": "forever"}),
        ),
    )
    .await;
    create(
        &client,
        &job("numbered", json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}), json!({})),
    )
    .await;
    create(&client, &job("brief", json!({"ttlSecondsAfterFinished": 3}), json!({}))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    let state = async |name: &str| {
        let status = jobs.get(name).await.unwrap().status.unwrap();
        let conditions: Vec<(String, String)> = status
            .conditions
            .iter()
            .flatten()
            .map(|c| (c.type_.clone(), c.reason.clone().unwrap_or_default()))
            .collect();
        (status, conditions)
    };
    let words = |a: &str, b: &str, reason: &str| {
        vec![(a.to_owned(), reason.to_owned()), (b.to_owned(), reason.to_owned())]
    };
    let (status, conditions) = state("good").await;
    assert_eq!((status.succeeded, status.failed, status.active), (Some(5), None, None), "{status:?}");
    assert_eq!(conditions, words("SuccessCriteriaMet", "Complete", "CompletionsReached"));
    let (status, conditions) = state("bad").await;
    assert_eq!((status.succeeded, status.failed), (None, Some(2)), "{status:?}");
    assert_eq!(conditions, words("FailureTarget", "Failed", "BackoffLimitExceeded"));
    let (_, conditions) = state("slow").await;
    assert_eq!(conditions, words("FailureTarget", "Failed", "DeadlineExceeded"));
    assert_eq!(state("numbered").await.0.completed_indexes.as_deref(), Some("0-3"));
    assert!(jobs.get_opt("brief").await.unwrap().is_none());
    // The pods of a deleted Job are deleted with it, whether counted or not.
    jobs.delete("good", &DeleteParams::background()).await.unwrap();
    cluster.settled().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let left = pods.list(&ListParams::default().labels("job-name=good")).await.unwrap().items;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn services_lead_to_ready_pods() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let service: Service = read(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }));
    create(&client, &service).await;
    create(&client, &deployment("web", 2, "web:1")).await;
    cluster.settled().await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(client.clone());
    let list =
        slices.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await.unwrap().items;
    assert_eq!(list.len(), 1);
    let endpoints = list[0].endpoints.clone().unwrap();
    assert_eq!(endpoints.len(), 2);
    assert!(endpoints.iter().all(|e| e.conditions.as_ref().unwrap().ready == Some(true)));
    assert_eq!(list[0].ports.as_ref().unwrap()[0].port, Some(8080));
    let old: Api<Endpoints> = Api::default_namespaced(client.clone());
    let subsets = old.get("web").await.unwrap().subsets.unwrap();
    assert_eq!(subsets[0].addresses.as_ref().unwrap().len(), 2);
    Api::<Service>::default_namespaced(client).delete("web", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    assert!(old.get_opt("web").await.unwrap().is_none());
    assert!(
        slices
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .all(|s| !s.name_any().starts_with("web-"))
    );
}

/// The same seed on a paused clock yields identical objects, byte for byte.
#[tokio::test(start_paused = true)]
async fn a_run_repeats() {
    async fn run() -> Vec<Value> {
        let cluster = virtual_cluster().start().await.unwrap();
        let client = cluster.client();
        create(&client, &deployment("web", 3, "web:1")).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        cluster.settled().await;
        let pods: Api<Pod> = Api::default_namespaced(client);
        let list = pods.list(&ListParams::default()).await.unwrap().items;
        list.iter().map(|p| serde_json::to_value(p).unwrap()).collect()
    }
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_runs_on_every_node_that_fits() {
    let cluster = Cluster::builder().nodes(3).seed(1).start().await.unwrap();
    cluster.settled().await;
    let daemons: Api<DaemonSet> = Api::default_namespaced(cluster.client());
    let nodes: Api<Node> = Api::all(cluster.client());
    let taint = json!({"spec": {"taints": [{"key": "special", "effect": "NoSchedule"}]}});
    nodes.patch("node-2", &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
    let set: DaemonSet = serde_json::from_value(json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "agent:1"}]},
            },
        },
    }))
    .unwrap();
    daemons.create(&PostParams::default(), &set).await.unwrap();
    cluster.settled().await;
    let status = daemons.get("agent").await.unwrap().status.unwrap();
    assert_eq!((status.desired_number_scheduled, status.number_ready), (2, 2));
    nodes
        .patch("node-2", &PatchParams::default(), &Patch::Merge(json!({"spec": {"taints": null}})))
        .await
        .unwrap();
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}});
    daemons.patch("agent", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    cluster.settled().await;
    let status = daemons.get("agent").await.unwrap().status.unwrap();
    assert_eq!((status.number_available, status.updated_number_scheduled), (Some(3), Some(3)));
}

#[tokio::test(start_paused = true)]
async fn cron_jobs_start_on_time() {
    let start: jiff::Timestamp = "2026-03-01T10:00:30Z".parse().unwrap();
    let cluster = Cluster::builder().seed(1).starting_at(start).start().await.unwrap();
    let crons: Api<CronJob> = Api::default_namespaced(cluster.client());
    let cron: CronJob = serde_json::from_value(json!({
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "*/5 * * * *",
            "successfulJobsHistoryLimit": 2,
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "tick"}],
            }}}},
        },
    }))
    .unwrap();
    crons.create(&PostParams::default(), &cron).await.unwrap();
    cluster.settled().await;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    assert!(jobs.list(&ListParams::default()).await.unwrap().items.is_empty());
    tokio::time::sleep(Duration::from_secs(21 * 60)).await;
    cluster.settled().await;
    let names: Vec<String> = jobs
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect();
    let minute = "2026-03-01T10:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() / 60;
    assert_eq!(names, [format!("tick-{}", minute + 15), format!("tick-{}", minute + 20)]);
    let status = crons.get("tick").await.unwrap().status.unwrap();
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-03-01T10:20:00Z");
    assert!(status.last_successful_time.is_some() && status.active.is_none());
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_and_quotas_counted() {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    cluster.settled().await;
    let client = cluster.client();
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.storage": "3Gi", "pods": "1"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = |name: &str| -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        }))
        .unwrap()
    };
    claims.create(&PostParams::default(), &claim("data")).await.unwrap();
    let refused = claims.create(&PostParams::default(), &claim("more")).await.unwrap_err();
    assert!(refused.to_string().contains("exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi"), "{refused}");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    cluster.settled().await;
    let bound = claims.get("data").await.unwrap();
    assert_eq!(bound.status.unwrap().phase.as_deref(), Some("Bound"));
    assert_eq!(pods.get("p").await.unwrap().status.unwrap().phase.as_deref(), Some("Running"));
    let used = quotas.get("q").await.unwrap().status.unwrap().used.unwrap();
    assert_eq!((used["pods"].0.as_str(), used["requests.storage"].0.as_str()), ("1", "2Gi"));
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    let volumes: Api<PersistentVolume> = Api::all(client);
    assert!(volumes.list(&ListParams::default()).await.unwrap().items.is_empty());
    let used = quotas.get("q").await.unwrap().status.unwrap().used.unwrap();
    assert_eq!((used["pods"].0.as_str(), used["requests.storage"].0.as_str()), ("0", "0"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_stands_between_evictions() {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    let client = cluster.client();
    let controllers: Api<ReplicationController> = Api::default_namespaced(client.clone());
    let controller: ReplicationController = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"app": "web"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    controllers.create(&PostParams::default(), &controller).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    cluster.settled().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let first = pods.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let refused = pods.evict(&first, &kube::api::EvictParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("would violate the pod's disruption budget"), "{refused}");
    let patch = Patch::Merge(json!({"spec": {"minAvailable": 1}}));
    budgets.patch("b", &PatchParams::default(), &patch).await.unwrap();
    cluster.settled().await;
    pods.evict(&first, &kube::api::EvictParams::default()).await.unwrap();
    cluster.settled().await;
    assert_eq!(controllers.get("web").await.unwrap().status.unwrap().ready_replicas, Some(2));
}

#[tokio::test(start_paused = true)]
async fn what_a_deployment_left_behind_can_go_in_the_foreground() {
    let cluster = virtual_cluster().start().await.unwrap();
    let client = cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    create(&client, &deployment("web", 2, "one")).await;
    cluster.settled().await;
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(change)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    deployments.delete("web", &orphan).await.unwrap();
    cluster.settled().await;
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
    sets.delete_collection(&DeleteParams::foreground(), &ListParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn autoscalers_keep_their_targets_within_bounds() {
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    let cluster = Cluster::start().await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    cluster.settled().await;
    // Setting the revision of a rollout does not increment the generation.
    let deployment = deployments.get("web").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(1));
    assert_eq!(deployment.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "1");

    let scalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(cluster.client());
    let scaler = json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 3,
            "maxReplicas": 5,
        },
    });
    scalers.create(&PostParams::default(), &serde_json::from_value(scaler).unwrap()).await.unwrap();
    cluster.settled().await;
    assert_eq!(deployments.get("web").await.unwrap().spec.unwrap().replicas, Some(3));
    let status = scalers.get("web").await.unwrap().status.unwrap();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(3), 3));
    let active = status.conditions.unwrap().into_iter().find(|c| c.type_ == "ScalingActive").unwrap();
    assert_eq!(active.reason.as_deref(), Some("FailedGetResourceMetric"));
}

#[tokio::test]
async fn secrets_get_the_token_of_their_service_account() {
    use k8s_openapi::api::core::v1::Secret;
    let cluster = Cluster::start().await.unwrap();
    cluster.settled().await;
    let client = cluster.client();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    accounts.create(&PostParams::default(), &read(json!({"metadata": {"name": "robot"}}))).await.unwrap();
    cluster.settled().await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = read(json!({
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    }));
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    cluster.settled().await;
    let data = secrets.get("token").await.unwrap().data.unwrap();
    assert_eq!(data["namespace"].0, b"default");
    assert_eq!(data["ca.crt"].0, cluster.root_certificate().as_bytes());
    let review = json!({
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": String::from_utf8(data["token"].0.clone()).unwrap()},
    });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .body(serde_json::to_vec(&review).unwrap())
        .unwrap();
    let review: Value = client.request(request).await.unwrap();
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:robot");
    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    assert!(secrets.get_opt("token").await.unwrap().is_none());
}
