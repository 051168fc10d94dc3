"""What k8s_status makes of a status: pure functions, no cluster."""

import importlib.util
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def load():
    """The module without Ansible's loader of collections, which finds its helper elsewhere."""
    helper = types.ModuleType("client")
    names = "ansible_collections.operator_sdk.util.plugins.module_utils".split(".")
    for end in range(1, len(names) + 1):
        sys.modules.setdefault(".".join(names[:end]), types.ModuleType(names[end - 1]))
    sys.modules[".".join(names)].client = helper
    path = ROOT / "collections/ansible_collections/operator_sdk/util/plugins/modules/k8s_status.py"
    spec = importlib.util.spec_from_file_location("k8s_status", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


k8s_status = load()


def parameters(**given):
    return {"status": None, "conditions": None, "replace": False, "force": False, "replace_lists": False, **given}


class Desired(unittest.TestCase):
    def test_fields_that_are_not_named_stay(self):
        live = {"a": 1, "b": {"c": 2}, "list": [1]}
        wanted = parameters(status={"b": {"d": 3}, "a": None, "list": [2]})
        self.assertEqual(k8s_status.desired(live, wanted, "now"), {"b": {"c": 2, "d": 3}, "list": [1, 2]})
        wanted["replace_lists"] = True
        self.assertEqual(k8s_status.desired(live, wanted, "now")["list"], [2])

    def test_replacing_keeps_the_conditions(self):
        live = {"a": 1, "conditions": [{"type": "Ready"}]}
        wanted = parameters(status={"b": 2}, replace=True)
        self.assertEqual(k8s_status.desired(live, wanted, "now"), {"b": 2, "conditions": [{"type": "Ready"}]})

    def test_a_condition_moves_its_time_when_its_status_changes(self):
        live = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]}
        same = k8s_status.desired(live, parameters(conditions=[{"type": "Ready", "status": True}]), "now")
        self.assertEqual(same["conditions"][0]["lastTransitionTime"], "then")
        other = k8s_status.desired(live, parameters(conditions=[{"type": "Ready", "status": "False"}]), "now")
        self.assertEqual(other["conditions"][0]["lastTransitionTime"], "now")

    def test_what_is_no_condition_is_told(self):
        self.assertIsNone(k8s_status.condition_problem({"type": "A", "status": "Unknown"}))
        for wrong in ({"status": "True"}, {"type": "A", "status": "yes"}, {"type": "A", "status": "True", "x": 1}):
            self.assertIsNotNone(k8s_status.condition_problem(wrong), wrong)


if __name__ == "__main__":
    unittest.main()
