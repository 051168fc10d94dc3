"""Runs ansible-runner for each reconcile, as operator-sdk's Ansible operator does.

    peer.py WATCHES DIRECTORY

WATCHES is a watches.yaml with `playbook` entries, as JSON. Private data directories are created below DIRECTORY.
Further costs of operator-sdk are not included: a proxy between the modules and the cluster, an event sent for each task, and
a finalizer's run.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import queue
import random
import subprocess
import sys
import threading

from kubernetes import client, config, watch

INVENTORY = "localhost ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}\n"


class Controller:
    def __init__(self, entry: dict, directory: pathlib.Path) -> None:
        self.entry = entry
        self.directory = directory
        self.place = (entry["group"], entry["version"])
        self.plural = entry["kind"].lower() + "s"
        self.api = client.CustomObjectsApi()
        self.waiting: queue.Queue[tuple[str, str]] = queue.Queue()
        self.lock = threading.Lock()
        # Objects in progress, and whether each changed meanwhile: one run per object at a time.
        self.active: dict[tuple[str, str], bool] = {}
        self.generations: dict[tuple[str, str], int] = {}

    def start(self) -> None:
        suffix = "_".join([self.entry["kind"], *self.entry["group"].split(".")]).upper()
        workers = int(os.environ.get(f"MAX_CONCURRENT_RECONCILES_{suffix}", os.cpu_count() or 1))
        for _ in range(workers):
            threading.Thread(target=self.work, daemon=True).start()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while True:
            for event in watch.Watch().stream(
                self.api.list_cluster_custom_object, *self.place, self.plural, timeout_seconds=3600
            ):
                meta = event["object"]["metadata"]
                key = (meta["namespace"], meta["name"])
                if event["type"] == "DELETED" or self.generations.get(key) == meta["generation"]:
                    continue
                self.generations[key] = meta["generation"]
                self.add(key)

    def add(self, key: tuple[str, str]) -> None:
        with self.lock:
            if key in self.active:
                self.active[key] = True
            else:
                self.active[key] = False
                self.waiting.put(key)

    def work(self) -> None:
        while True:
            key = self.waiting.get()
            try:
                self.reconcile(*key)
            except Exception as error:
                print(f"{key}: {error}", file=sys.stderr, flush=True)
            with self.lock:
                if self.active.pop(key):
                    self.active[key] = False
                    self.waiting.put(key)

    def reconcile(self, namespace: str, name: str) -> None:
        found = self.api.get_namespaced_custom_object(*self.place, namespace, self.plural, name)
        self.say(namespace, name, [condition("Running", "True", "Running")])
        directory = self.directory / self.entry["kind"] / namespace / name
        meta = {"name": name, "namespace": namespace}
        files = {
            "env/envvars": json.dumps({"K8S_AUTH_KUBECONFIG": os.environ["KUBECONFIG"], "KUBECONFIG": os.environ["KUBECONFIG"]}),
            "env/extravars": json.dumps({**found.get("spec", {}), "ansible_operator_meta": meta}),
            "env/settings": "{}",
            "inventory/hosts": INVENTORY,
        }
        for path, content in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(content, encoding="utf-8")
        (directory / "project").mkdir(exist_ok=True)
        ident = str(random.randrange(1 << 62))
        command = [
            os.path.join(os.path.dirname(sys.executable), "ansible-runner"),
            "run", str(directory), "--rotate-artifacts", "20", "-p", self.entry["playbook"], "-i", ident, "-vv",
        ]  # fmt: skip
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode != 0:
            print(ran.stdout.decode(errors="replace"), file=sys.stderr, flush=True)
            return self.say(namespace, name, [condition("Failure", "True", "Failed")])
        completion = {"completion": datetime.datetime.now().isoformat()}
        conditions = [condition("Running", "True", "Successful", ansibleResult=completion), condition("Successful", "True", "Successful")]
        self.say(namespace, name, conditions)

    def say(self, namespace: str, name: str, conditions: list[dict]) -> None:
        status = {"status": {"conditions": conditions}}
        self.api.patch_namespaced_custom_object_status(*self.place, namespace, self.plural, name, status)


def condition(kind: str, status: str, reason: str, **fields: object) -> dict:
    return {"type": kind, "status": status, "reason": reason, "message": "", **fields}


def main(watches: str, directory: str) -> None:
    # ansible-runner looks up ansible-playbook in PATH.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    config.load_kube_config(os.environ["KUBECONFIG"])
    for entry in json.loads(pathlib.Path(watches).read_text(encoding="utf-8")):
        Controller(entry, pathlib.Path(directory)).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
