#!/usr/bin/python
"""Changes a metric that the operator serves."""

from __future__ import annotations

DOCUMENTATION = """
module: osdk_metric
short_description: Change a metric of the operator
description:
  - Creates a metric among those of the operator, or changes it.
options:
  name: {type: str, required: true, description: Name of the metric.}
  description: {type: str, description: Help text of the metric.}
  counter:
    type: dict
    description: A counter that rises.
    suboptions:
      increment: {type: bool, description: Adds one.}
      add: {type: float, description: Adds a number.}
  gauge:
    type: dict
    description: A gauge.
    suboptions:
      set: {type: float, description: Sets it.}
      increment: {type: bool, description: Adds one.}
      decrement: {type: bool, description: Takes one off.}
      add: {type: float, description: Adds a number.}
      subtract: {type: float, description: Takes a number off.}
      set_to_current_time: {type: bool, description: Sets it to the current Unix time.}
  histogram:
    type: dict
    description: A histogram.
    suboptions:
      observe: {type: float, description: Counts a value.}
  summary:
    type: dict
    description: A summary.
    suboptions:
      observe: {type: float, description: Counts a value.}
author: [Steersman]
"""

EXAMPLES = """
- operator_sdk.util.osdk_metric:
    name: backups_made
    description: Backups made so far
    counter:
      increment: true
"""

RETURN = """ # """

from ansible.module_utils.basic import AnsibleModule

TYPES = ("counter", "gauge", "histogram", "summary")


def main():
    flag, number = {"type": "bool"}, {"type": "float"}
    observe = {"type": "dict", "options": {"observe": number}}
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "description": {"type": "str"},
            "counter": {"type": "dict", "options": {"increment": flag, "add": number}},
            "gauge": {
                "type": "dict",
                "options": {
                    "set": number,
                    "increment": flag,
                    "decrement": flag,
                    "add": number,
                    "subtract": number,
                    "set_to_current_time": flag,
                },
            },
            "histogram": observe,
            "summary": observe,
        },
        mutually_exclusive=[TYPES],
        required_one_of=[TYPES],
        supports_check_mode=True,
    )
    parameters = module.params
    kind = next(name for name in TYPES if parameters[name])
    change = {key: value for key, value in parameters[kind].items() if value is not None}
    metric = {"name": parameters["name"], "description": parameters["description"] or "", "type": kind, "change": change}
    if module.check_mode:
        module.exit_json(changed=True)
    module.exit_json(changed=True, operator={"metric": metric})


if __name__ == "__main__":
    main()
