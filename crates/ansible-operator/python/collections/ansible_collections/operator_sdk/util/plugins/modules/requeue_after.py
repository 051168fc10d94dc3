#!/usr/bin/python
"""Asks the operator to run again after some time."""

from __future__ import annotations

DOCUMENTATION = """
module: requeue_after
short_description: Reconcile again after some time
description:
  - The play goes on; when it has ended successfully, the resource is reconciled again after this time.
options:
  time: {type: str, required: true, description: "A duration such as 24h, 30m or 1h15m30s."}
author: [Steersman]
"""

EXAMPLES = """
- operator_sdk.util.requeue_after:
    time: 24h
"""

RETURN = """
period: {type: str, returned: always, description: The duration.}
"""

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(
        argument_spec={"time": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    time = module.params["time"]
    module.exit_json(changed=False, period=time, operator={"requeueAfter": time})


if __name__ == "__main__":
    main()
