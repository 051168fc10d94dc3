"""Runs a kopf operator on its own custom resource and prints what its handlers receive and what it writes.

Exits after an object has been created and deleted.
"""
import asyncio
import os

import kopf
from kubernetes import client, config

GROUP, PLURAL, NAMESPACE = "clients.example.com", "things", "default"
config.load_kube_config(os.environ["KUBECONFIG"])
custom = client.CustomObjectsApi()
definitions = client.ApiextensionsV1Api()


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.persistence.finalizer = f"{GROUP}/finalizer"


@kopf.on.create(GROUP, "v1", PLURAL)
def create(spec, **_):
    print("created:", dict(spec))
    return {"size": spec["size"]}


@kopf.on.update(GROUP, "v1", PLURAL, field="spec.size")
def update(old, new, **_):
    print("updated:", old, new)


@kopf.on.delete(GROUP, "v1", PLURAL)
def delete(name, **_):
    print("deleted:", name)


def get():
    return custom.get_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, "a")


async def until(what, holds):
    for _ in range(200):
        try:
            if await asyncio.to_thread(holds):
                return
        except client.exceptions.ApiException as error:
            if error.status != 404:
                raise
        await asyncio.sleep(0.1)
    print("never:", what)


def is_gone():
    try:
        get()
        return False
    except client.exceptions.ApiException as error:
        return error.status == 404


async def main():
    names = {"plural": PLURAL, "singular": "thing", "kind": "Thing"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    definitions.create_custom_resource_definition({"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": spec})
    served = lambda: custom.list_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL)["kind"] == "ThingList"
    await until("served", served)
    flag = asyncio.Event()
    operator = asyncio.create_task(kopf.operator(namespaces=[NAMESPACE], stop_flag=flag, standalone=True))
    thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}}
    await asyncio.to_thread(custom.create_namespaced_custom_object, GROUP, "v1", NAMESPACE, PLURAL, thing)
    await until("a status", lambda: get().get("status", {}).get("create") == {"size": 1})
    print("finalizers:", get()["metadata"]["finalizers"], "status:", get()["status"]["create"])
    change = {"spec": {"size": 2}}
    await asyncio.to_thread(custom.patch_namespaced_custom_object, GROUP, "v1", NAMESPACE, PLURAL, "a", change)
    await until("seen", lambda: '"size":2' in get()["metadata"]["annotations"].get("kopf.zalando.org/last-handled-configuration", ""))
    await asyncio.to_thread(custom.delete_namespaced_custom_object, GROUP, "v1", NAMESPACE, PLURAL, "a")
    await until("gone", is_gone)
    flag.set()
    await operator


try:
    asyncio.run(main())
finally:
    definitions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
