#!/usr/bin/python
"""Sets fields and conditions in the status of a custom resource."""

from __future__ import annotations

DOCUMENTATION = """
module: k8s_status
short_description: Set the status of a Kubernetes resource
description:
  - Sets fields of the status subresource, and conditions in its list.
  - Fields and conditions that are not named stay as they are.
options:
  api_version: {type: str, aliases: [api, version], description: Group and version of the resource., required: true}
  kind: {type: str, description: Kind of the resource., required: true}
  name: {type: str, description: Name of the resource., required: true}
  namespace: {type: str, description: Namespace of the resource.}
  status: {type: dict, description: Fields of the status.}
  conditions:
    type: list
    elements: dict
    description: Conditions, each with type and status, and optionally reason, message and lastTransitionTime.
  replace: {type: bool, default: false, description: Replace the status instead of merging into it.}
  replace_lists: {type: bool, default: false, description: Replace lists of the status instead of adding their new elements.}
  force: {type: bool, default: false, description: As replace.}
  kubeconfig: {type: path, description: The kubeconfig of the cluster.}
  context: {type: str, description: The context in the kubeconfig.}
author: [Steersman]
"""

EXAMPLES = """
- operator_sdk.util.k8s_status:
    api_version: cache.example.com/v1alpha1
    kind: Memcached
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status:
      nodes: 3
"""

RETURN = """
result: {type: dict, returned: always, description: The resource as it is now.}
"""

import copy
import datetime

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.operator_sdk.util.plugins.module_utils import client as cluster

STATUSES = ("True", "False", "Unknown")
FIELDS = ("type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime", "observedGeneration")


def condition_problem(condition):
    """Why a condition is none, or None."""
    unknown = sorted(set(condition) - set(FIELDS))
    if unknown:
        return f"a condition has no field {unknown[0]!r}: {', '.join(FIELDS)} are known"
    if not condition.get("type"):
        return "a condition needs a type"
    if str(condition.get("status")) not in STATUSES:
        return f"condition {condition['type']!r}: status {condition.get('status')!r} is none of {', '.join(STATUSES)}"
    return None


def with_conditions(live, wanted, now):
    """The list of conditions with these set in it."""
    conditions = [copy.deepcopy(condition) for condition in live if isinstance(condition, dict)]
    for new in wanted:
        new = {key: value for key, value in new.items() if value is not None}
        new["status"] = str(new["status"])
        old = next((condition for condition in conditions if condition.get("type") == new["type"]), None)
        if old is None:
            conditions.append({"lastTransitionTime": now, "reason": "", "message": "", **new})
            continue
        if old.get("status") != new["status"]:
            old["lastTransitionTime"] = now
        old.update(new)
    return conditions


def merged(live, wanted, replace_lists):
    """The status with these fields set in it; null removes one."""
    if not isinstance(live, dict) or not isinstance(wanted, dict):
        if isinstance(live, list) and isinstance(wanted, list) and not replace_lists:
            return live + [entry for entry in wanted if entry not in live]
        return wanted
    result = dict(live)
    for key, value in wanted.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(live.get(key), value, replace_lists)
    return result


def desired(live, parameters, now):
    """The status that parameters ask for."""
    status = parameters["status"] or {}
    if parameters["replace"] or parameters["force"]:
        wanted = dict(status)
        if "conditions" not in wanted and "conditions" in live:
            wanted["conditions"] = live["conditions"]
    else:
        wanted = merged(live, status, parameters["replace_lists"])
    if parameters["conditions"]:
        wanted["conditions"] = with_conditions(wanted.get("conditions") or [], parameters["conditions"], now)
    return wanted


def main():
    module = AnsibleModule(
        argument_spec={
            "api_version": {"type": "str", "required": True, "aliases": ["api", "version"]},
            "kind": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str"},
            "status": {"type": "dict"},
            "conditions": {"type": "list", "elements": "dict"},
            "replace": {"type": "bool", "default": False},
            "replace_lists": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            **cluster.AUTH_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    parameters = module.params
    for condition in parameters["conditions"] or []:
        problem = condition_problem(condition)
        if problem:
            module.fail_json(msg=problem)
    connection = cluster.connect(module)
    kind = cluster.resource(module, connection, parameters["api_version"], parameters["kind"])
    place = {"name": parameters["name"], "namespace": parameters["namespace"]}
    if "status" not in kind.subresources:
        module.fail_json(msg=f"{parameters['kind']} has no status subresource")
    for attempt in range(5):
        try:
            found = kind.get(**place).to_dict()
            live = found.get("status") or {}
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            found["status"] = desired(live, parameters, now)
            if found["status"] == live:
                module.exit_json(changed=False, result=found)
            if not module.check_mode:
                found = kind.status.replace(body=found, **place).to_dict()
            module.exit_json(changed=True, result=found)
        except cluster.DynamicApiError as error:
            # Conflict: another writer was faster.
            if getattr(error, "status", None) == 409 and attempt < 4:
                continue
            module.fail_json(msg=f"Failed to set the status of {parameters['name']}: {cluster.reason(error)}")


if __name__ == "__main__":
    main()
