#!/usr/bin/env python3
"""Writes objects.tsv next to this script.

usage: objects.py KUBECTL

KUBECTL is a kubectl that speaks to a kube-apiserver which has just been started, without a controller manager.
"""
import json
import pathlib
import subprocess
import sys

UID = "00000000-0000-0000-0000-000000000000"
TIME = "2000-01-01T00:00:00Z"
RBAC = "rbac.authorization.k8s.io/v1"
FLOW = "flowcontrol.apiserver.k8s.io/v1"
KINDS = {
    "clusterroles": (RBAC, "ClusterRole"),
    "clusterrolebindings": (RBAC, "ClusterRoleBinding"),
    "roles": (RBAC, "Role"),
    "rolebindings": (RBAC, "RoleBinding"),
    "prioritylevelconfigurations": (FLOW, "PriorityLevelConfiguration"),
    "flowschemas": (FLOW, "FlowSchema"),
}


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def line(plural, api, kind, item):
    """Storage, key and labels, so that nothing has to be parsed to find them, and the object."""
    metadata = item.pop("metadata") | {"uid": UID, "creationTimestamp": TIME}
    del metadata["resourceVersion"]
    for entry in metadata["managedFields"]:
        entry["time"] = TIME
    for condition in item.get("status", {}).get("conditions", []):
        condition["lastTransitionTime"] = TIME
    # The store's order: what every object has comes first.
    parts = {"apiVersion": api, "kind": kind, "metadata": metadata} | dict(sorted(item.items()))
    encoded = "{" + ",".join(f"{text(key)}:{text(value)}" for key, value in parts.items()) + "}"
    key = "/".join(metadata[field] for field in ("namespace", "name") if field in metadata)
    labels = ",".join(f"{key}={value}" for key, value in sorted(metadata.get("labels", {}).items()))
    return "\t".join([f"{plural}.{api.split('/')[0]}", key, labels, encoded])


if __name__ == "__main__":
    lines = []
    for plural, (api, kind) in KINDS.items():
        answer = subprocess.check_output([sys.argv[1], "get", "--raw", f"/apis/{api}/{plural}"])
        lines += [line(plural, api, kind, item) for item in json.loads(answer)["items"]]
    (pathlib.Path(__file__).parent / "objects.tsv").write_text("\n".join(lines) + "\n")
