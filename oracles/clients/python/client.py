"""Prints what the Python client sees of a cluster: lists, watches, patches, eviction, tokens, and the refusal of exec."""
import json
import os

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

NAMESPACE = "clients-python"
config.load_kube_config(os.environ["KUBECONFIG"])
core = client.CoreV1Api()


def reason(call, *arguments, **options):
    try:
        call(*arguments, **options)
        return "none"
    except ApiException as error:
        body = json.loads(error.body)
        return f"{error.status} {body['reason']} {body['message']}"


def patched(content_type, body, **options):
    api = client.ApiClient()
    api.set_default_header("Content-Type", content_type)
    return client.CoreV1Api(api).patch_namespaced_config_map("a", NAMESPACE, body, _content_type=content_type, **options)


def run():
    labels = {"seen": "yes"}
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "a", "labels": labels}, "data": {"k": "v"}, "binaryData": {"b": "AP8="}})
    print("merge:", patched("application/merge-patch+json", {"data": {"merge": "1"}}).data)
    print("strategic:", patched("application/strategic-merge-patch+json", {"data": {"strategic": "1", "k": None}}).data)
    print("json:", patched("application/json-patch+json", [{"op": "add", "path": "/data/json", "value": "1"}]).data)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"apply": "1"}}
    print("apply:", patched("application/apply-patch+yaml", applied, field_manager="clients", force=True).data)
    print("a test that fails:", reason(patched, "application/json-patch+json", [{"op": "test", "path": "/metadata/name", "value": "b"}]))
    for event in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, label_selector="seen=yes", timeout_seconds=1):
        print("watch:", event["type"], event["object"].metadata.name, event["object"].binary_data)
    core.delete_namespaced_config_map("a", NAMESPACE)
    print("gone:", reason(core.read_namespaced_config_map, "a", NAMESPACE))
    for index in range(5):
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"m{index}"}})
    names, token = [], None
    while token != "":
        options = {"_continue": token} if token else {}
        page = core.list_namespaced_config_map(NAMESPACE, limit=2, field_selector="metadata.name!=kube-root-ca.crt", **options)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    print("pages:", names)
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    pod = core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "p"}, "spec": spec})
    print("pod:", pod.spec.restart_policy, pod.spec.dns_policy, len(pod.spec.volumes))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, {"spec": {"expirationSeconds": 600, "audiences": []}})
    own = client.Configuration.get_default_copy()
    own.cert_file = own.key_file = own.refresh_api_key_hook = None
    own.api_key = {"authorization": "Bearer " + token.status.token}
    robot = client.CoreV1Api(client.ApiClient(own))
    print("refused:", reason(robot.list_namespaced_secret, NAMESPACE))
    try:
        stream(core.connect_get_namespaced_pod_exec, "p", NAMESPACE, command=["true"], stdout=True)
        print("exec is refused: no")
    except ApiException:
        print("exec is refused: yes")
    print("eviction:", reason(core.create_namespaced_pod_eviction, "p", NAMESPACE, {"metadata": {"name": "p"}}))
    print("eviction of none:", reason(core.create_namespaced_pod_eviction, "q", NAMESPACE, {"metadata": {"name": "q"}}))
    custom = client.CustomObjectsApi()
    leases = custom.list_namespaced_custom_object("coordination.k8s.io", "v1", NAMESPACE, "leases")
    print("custom objects:", leases["kind"], leases["items"])


core.create_namespace({"metadata": {"name": NAMESPACE}})
try:
    run()
finally:
    core.delete_namespace(NAMESPACE)
