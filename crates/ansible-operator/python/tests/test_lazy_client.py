"""Tests of the Kubernetes client whose classes are imported late, in a process of their own each."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    return ran.stdout.strip() or ran.stderr


class LazyClientTest(unittest.TestCase):
    def test_names_are_those_of_the_client_itself(self) -> None:
        names = "import kubernetes.client as c; {0}; print(sorted(n for n in c.models.__dict__ if n.startswith('V1')) == [])"
        self.assertEqual(python(names.format("pass")), "False")
        lazy = "from steersman_ansible import lazy_client; lazy_client.install(); "
        self.assertEqual(python(lazy + names.format("pass")), "True")
        use = "import kubernetes.client as c; print(c.V1Pod is c.models.V1Pod, c.CoreV1Api.__name__, hasattr(c, 'Nothing'))"
        self.assertEqual(python(lazy + use), "True CoreV1Api False")
        self.assertEqual(python(use), "True CoreV1Api False")


if __name__ == "__main__":
    unittest.main()
