//! Printer columns of built-in kinds, from objects with everything that a column shows.

use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use steersman_apiserver::Server;
use tower_service::Service as _;

async fn send(server: &Server, request: http::request::Builder, body: &Value) -> Value {
    let answer = server.service().call(request.body(body.to_string()).unwrap()).await.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    assert!(status.is_success(), "{answer}");
    answer
}

/// Creates an object named `one` with a status, and returns its row of the Table, by column; without ages.
async fn row(path: &str, mut object: Value, status: Value) -> Value {
    let server = Server::default();
    object["metadata"]["name"] = "one".into();
    send(&server, Request::post(path), &object).await;
    let one = format!("{path}/one");
    let patch =
        Request::patch(format!("{one}/status")).header(header::CONTENT_TYPE, "application/merge-patch+json");
    if !status.is_null() {
        send(&server, patch, &json!({"status": status})).await;
    }
    let get = Request::get(one).header(header::ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = send(&server, get, &Value::Null).await;
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    let cells =
        columns.zip(cells).map(|(column, cell)| (column["name"].as_str().unwrap().to_owned(), cell.clone()));
    let cells: Map<_, _> = cells.filter(|(name, _)| !["Name", "Age"].contains(&&**name)).collect();
    cells.into()
}

/// A pod template with two containers.
fn template(spec: Value) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        template["spec"][key] = value.clone();
    }
    template
}

#[tokio::test]
async fn workloads_show_their_replicas() {
    let selector = json!({"matchLabels": {"app": "a"}});
    let apps = |kind: &str| format!("/apis/apps/v1/namespaces/default/{kind}");

    let spec = json!({"selector": selector, "template": template(json!({"nodeSelector": {"disk": "ssd"}}))});
    let status = json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
        "updatedNumberScheduled": 2, "numberAvailable": 1, "numberMisscheduled": 0});
    assert_eq!(
        row(&apps("daemonsets"), json!({"spec": spec}), status).await,
        json!({"Desired": 5, "Current": 4, "Ready": 3, "Up-to-date": 2, "Available": 1, "Node Selector": "disk=ssd",
            "Containers": "c,d", "Images": "i:1,j:2", "Selector": "app=a"})
    );

    let spec = json!({"replicas": 5, "selector": selector, "template": template(json!({}))});
    let status = json!({"replicas": 5, "updatedReplicas": 4, "readyReplicas": 3, "availableReplicas": 2});
    assert_eq!(
        row(&apps("deployments"), json!({"spec": spec}), status).await,
        json!({"Ready": "3/5", "Up-to-date": 4, "Available": 2, "Containers": "c,d", "Images": "i:1,j:2",
            "Selector": "app=a"})
    );

    let status = json!({"replicas": 4, "readyReplicas": 3});
    assert_eq!(
        row(&apps("replicasets"), json!({"spec": spec}), status.clone()).await,
        json!({"Desired": 5, "Current": 4, "Ready": 3, "Containers": "c,d", "Images": "i:1,j:2", "Selector": "app=a"})
    );
    let mut controller = spec.clone();
    controller["selector"] = json!({"app": "a"});
    assert_eq!(
        row("/api/v1/namespaces/default/replicationcontrollers", json!({"spec": controller}), status.clone())
            .await,
        json!({"Desired": 5, "Current": 4, "Ready": 3, "Containers": "c,d", "Images": "i:1,j:2", "Selector": "app=a"})
    );
    assert_eq!(
        row(&apps("statefulsets"), json!({"spec": spec}), status).await,
        json!({"Ready": "3/5", "Containers": "c,d", "Images": "i:1,j:2"})
    );
}

#[tokio::test]
async fn autoscalers_show_their_first_targets() {
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let utilization = json!({"type": "Utilization", "averageUtilization": 50});
    let average = json!({"type": "AverageValue", "averageValue": "1Gi"});
    let metrics = json!([
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": utilization}},
        {"type": "Resource", "resource": {"name": "memory", "target": average}},
        {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": average}},
    ]);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let spec = json!({"minReplicas": 2, "maxReplicas": 9, "scaleTargetRef": target, "metrics": metrics});
    let current = json!([
        {"type": "ContainerResource", "containerResource":
            {"name": "cpu", "container": "c", "current": {"averageUtilization": 20, "averageValue": "1"}}},
        {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "512Mi"}}},
    ]);
    let status = json!({"currentReplicas": 3, "desiredReplicas": 4, "currentMetrics": current});
    assert_eq!(
        row(path, json!({"spec": spec}), status).await,
        json!({"Reference": "Deployment/d", "Targets": "cpu: 20%/50%, memory: 512Mi/1Gi + 1 more...",
            "MinPods": "2", "MaxPods": 9, "Replicas": 3})
    );
}

#[tokio::test]
async fn what_other_kinds_show_comes_from_spec_and_status() {
    let job = json!({"spec": {"template": template(json!({"restartPolicy": "Never"}))}});
    let spec = json!({"schedule": "0 1 * * *", "timeZone": "Etc/UTC", "suspend": true, "jobTemplate": job});
    let active =
        json!({"active": [{"kind": "Job", "name": "j", "namespace": "default", "apiVersion": "batch/v1"}]});
    assert_eq!(
        row("/apis/batch/v1/namespaces/default/cronjobs", json!({"spec": spec}), active).await,
        json!({"Schedule": "0 1 * * *", "Timezone": "Etc/UTC", "Suspend": "True", "Active": 1, "Last Schedule": "<none>",
            "Containers": "c,d", "Images": "i:1,j:2", "Selector": "<none>"})
    );

    let path = "/apis/batch/v1/namespaces/default/jobs";
    let jobs = async |status: Value| {
        let job = row(path, job.clone(), status).await;
        (job["Status"].as_str().unwrap().to_owned(), job["Completions"].as_str().unwrap().to_owned())
    };
    assert_eq!(jobs(json!({"active": 1})).await, ("Running".to_owned(), "0/1".to_owned()));
    let failing = json!([{"type": "FailureTarget", "status": "True", "reason": "R", "message": "M"}]);
    let status = json!({"startTime": "2026-01-01T00:00:00Z", "conditions": failing});
    assert_eq!(jobs(status).await, ("FailureTarget".to_owned(), "0/1".to_owned()));

    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}});
    let status = json!({"phase": "Failed", "reason": "Gone"});
    assert_eq!(
        row("/api/v1/persistentvolumes", json!({"spec": spec}), status).await,
        json!({"Capacity": "1Gi", "Access Modes": "RWO", "Reclaim Policy": "Retain", "Status": "Failed", "Claim": "",
            "StorageClass": "", "VolumeAttributesClass": "<unset>", "Reason": "Gone", "VolumeMode": "Filesystem"})
    );

    let spec = json!({"accessModes": ["ReadWriteOnce"], "volumeName": "v", "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}}});
    let status = json!({"phase": "Bound", "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]});
    assert_eq!(
        row("/api/v1/namespaces/default/persistentvolumeclaims", json!({"spec": spec}), status).await,
        json!({"Status": "Bound", "Volume": "v", "Capacity": "2Gi", "Access Modes": "RWO,ROX", "StorageClass": "fast",
            "VolumeAttributesClass": "<unset>", "VolumeMode": "Filesystem"})
    );

    let spec = json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}});
    let status =
        json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2});
    assert_eq!(
        row("/apis/policy/v1/namespaces/default/poddisruptionbudgets", json!({"spec": spec}), status).await,
        json!({"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 1})
    );

    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let paths = json!({"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]});
    let rules = json!([{"host": "a.example", "http": paths}, {"host": "b.example", "http": paths}]);
    let spec = json!({"ingressClassName": "nginx", "rules": rules, "tls": [{"secretName": "t"}]});
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb.example"}]}});
    assert_eq!(
        row("/apis/networking.k8s.io/v1/namespaces/default/ingresses", json!({"spec": spec}), status).await,
        json!({"Class": "nginx", "Hosts": "a.example,b.example", "Address": "192.0.2.1,lb.example", "Ports": "80, 443"})
    );

    let labels = json!({"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "edge"});
    let info = json!({"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2", "kernelVersion": "6.1",
        "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "", "operatingSystem": "linux",
        "osImage": "Debian", "systemUUID": ""});
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "192.0.2.1"}]);
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let node = json!({"metadata": {"labels": labels}, "spec": {"unschedulable": true}});
    let status = json!({"conditions": conditions, "addresses": addresses, "nodeInfo": info});
    assert_eq!(
        row("/api/v1/nodes", node, status).await,
        json!({"Status": "Ready,SchedulingDisabled", "Roles": "control-plane,edge", "Version": "v1.36.3",
            "Internal-IP": "10.0.0.1", "External-IP": "192.0.2.1", "OS-Image": "Debian", "Kernel-Version": "6.1",
            "Container-Runtime": "containerd://2"})
    );

    let spec = json!({"attachRequired": false, "podInfoOnMount": true, "storageCapacity": true,
        "requiresRepublish": true, "tokenRequests": [{"audience": "a"}, {"audience": "b"}]});
    assert_eq!(
        row("/apis/storage.k8s.io/v1/csidrivers", json!({"spec": spec}), Value::Null).await,
        json!({"AttachRequired": false, "PodInfoOnMount": true, "StorageCapacity": true, "TokenRequests": "a,b",
            "RequiresRepublish": true, "Modes": "Persistent"})
    );
}
