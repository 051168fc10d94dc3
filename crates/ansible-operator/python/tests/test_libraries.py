"""Tests of what is found beside Ansible, in a process of their own each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def python(*arguments: str, path: str = "", collections: str = "/nowhere") -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, PACKAGE)))}
    environment["ANSIBLE_COLLECTIONS_PATH"] = collections
    ran = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return ran.stdout.strip() or ran.stderr


class LibrariesTest(unittest.TestCase):
    def test_a_collection_is_found_where_ansible_looks(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            # In the environment of these tests it is installed next to Ansible, where Python finds it anyway.
            find = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p] + ['']; "
            find += "import types; constants = types.ModuleType('ansible.constants'); constants.COLLECTIONS_PATHS = [%r]; "
            find += "package = types.ModuleType('ansible'); package.constants = constants; "
            find += "sys.modules.update({'ansible': package, 'ansible.constants': constants}); "
            find += "from steersman_ansible import libraries; print(libraries.found())"
            found = python("-c", find % directory)
            self.assertEqual(found, "{'kubernetes': False, 'kubernetes-core': False}")
            os.makedirs(os.path.join(directory, "ansible_collections", "kubernetes", "core"))
            found = python("-c", find % directory)
            self.assertEqual(found, "{'kubernetes': False, 'kubernetes-core': True}")

    def test_the_fork_server_tells_what_there_is(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(os.path.join(directory, "ansible_collections", "kubernetes", "core"))
            ready = json.loads(python("-m", "steersman_ansible", "serve", collections=directory))
            alone = json.loads(python("-m", "steersman_ansible", "libraries", collections=directory))
        self.assertEqual(ready, {"ready": True, **alone})
        self.assertTrue(alone["kubernetes-core"])

    def test_a_check_imports_neither_ansibles_settings_nor_the_client(self) -> None:
        # Every operator waits for it at startup.
        check = "import sys; from steersman_ansible import __main__ as main; main.main(['check']); "
        check += "print(sorted({'ansible.constants', 'kubernetes', 'yaml'} & set(sys.modules)))"
        told, imported = python("-c", check).splitlines()
        self.assertEqual(sorted(json.loads(told)), ["ansible-core", "python"])
        self.assertEqual(imported, "[]")


if __name__ == "__main__":
    unittest.main()
