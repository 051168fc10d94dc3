#!/usr/bin/python
"""Creates a Kubernetes event about an object, or counts it once more."""

from __future__ import annotations

DOCUMENTATION = """
module: k8s_event
short_description: Create a Kubernetes event
description:
  - Creates an event about an object. If one of this name exists, it is counted once more.
options:
  state: {type: str, choices: [present], default: present, description: Only present is known.}
  name: {type: str, required: true, description: Name of the event.}
  namespace: {type: str, required: true, description: Namespace of the event.}
  message: {type: str, required: true, description: What happened.}
  reason: {type: str, required: true, description: What happened, in one word.}
  type: {type: str, choices: [Normal, Warning], default: Normal, description: Type of the event.}
  reportingComponent: {type: str, default: "", description: Controller that reports it.}
  reportingInstance: {type: str, default: "", description: Instance of the controller.}
  appendTimestamp: {type: bool, default: false, description: Appends the time to the name.}
  source: {type: dict, description: Component and host that report it.}
  involvedObject: {type: dict, required: true, description: "The object: apiVersion, kind, name and namespace."}
  kubeconfig: {type: path, description: The kubeconfig of the cluster.}
  context: {type: str, description: The context in the kubeconfig.}
author: [Steersman]
"""

EXAMPLES = """
- operator_sdk.util.k8s_event:
    name: backup-made
    namespace: default
    message: The backup is complete
    reason: BackupMade
    involvedObject: {apiVersion: v1, kind: Service, name: shop, namespace: default}
"""

RETURN = """
result: {type: dict, returned: always, description: The event as it is now.}
"""

import datetime

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.operator_sdk.util.plugins.module_utils import client as cluster


def involved(module, connection, given):
    """The reference to an object, with its uid and version if it is there."""
    reference = dict(given)
    for field in ("apiVersion", "kind", "name"):
        if not reference.get(field):
            module.fail_json(msg=f"involvedObject needs {field}")
    kind = cluster.resource(module, connection, reference["apiVersion"], reference["kind"])
    try:
        found = kind.get(name=reference["name"], namespace=reference.get("namespace"))
        reference.setdefault("uid", found.metadata.uid)
        reference.setdefault("resourceVersion", found.metadata.resourceVersion)
    except cluster.DynamicApiError:
        pass
    return reference


def main():
    text = {"type": "str", "default": ""}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present"], "default": "present"},
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "message": {"type": "str", "required": True},
            "reason": {"type": "str", "required": True},
            "type": {"type": "str", "choices": ["Normal", "Warning"], "default": "Normal"},
            "reportingComponent": text,
            "reportingInstance": text,
            "appendTimestamp": {"type": "bool", "default": False},
            "source": {"type": "dict"},
            "involvedObject": {"type": "dict", "required": True},
            **cluster.AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    parameters = module.params
    connection = cluster.connect(module)
    events = cluster.resource(module, connection, "v1", "Event")
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    name = parameters["name"]
    if parameters["appendTimestamp"]:
        name = f"{name}.{int(now.timestamp() * 1_000_000):x}"
    namespace = parameters["namespace"]
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "message": parameters["message"],
        "reason": parameters["reason"],
        "type": parameters["type"],
        "reportingComponent": parameters["reportingComponent"],
        "reportingInstance": parameters["reportingInstance"],
        "source": parameters["source"] or {},
        "involvedObject": involved(module, connection, parameters["involvedObject"]),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    try:
        found = None
        try:
            found = events.get(name=name, namespace=namespace).to_dict()
        except cluster.DynamicApiError as error:
            if getattr(error, "status", None) != 404:
                raise
        if module.check_mode:
            module.exit_json(changed=True, result=body)
        if found is None:
            answer = events.create(body=body, namespace=namespace)
        else:
            body["count"] = (found.get("count") or 0) + 1
            body["firstTimestamp"] = found.get("firstTimestamp") or stamp
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            answer = events.replace(body=body, name=name, namespace=namespace)
        module.exit_json(changed=True, result=answer.to_dict())
    except cluster.DynamicApiError as error:
        module.fail_json(msg=f"Failed to create the event {name}: {cluster.reason(error)}")


if __name__ == "__main__":
    main()
