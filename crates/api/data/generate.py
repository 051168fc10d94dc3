#!/usr/bin/env python3
"""Writes the compact data files next to this script, and those of the built-in kinds, from facts about a Kubernetes release.

usage: generate.py FACTS_DIR PROTO_DIR... < PRESENCE

FACTS_DIR holds resources.json and openapi-schemas.json as read off a running kube-apiserver. Each PROTO_DIR is searched for `generated.proto` files (k8s.io/api,
k8s.io/apimachinery, k8s.io/apiextensions-apiserver, k8s.io/kube-aggregator). PRESENCE is what presence.go prints.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
KINDS = HERE.parent.parent / "kinds" / "data"


def write(name, value, directory=HERE):
    text = json.dumps(value, separators=(",", ":"), sort_keys=False)
    (directory / name).write_text(text + "\n")


def resources(facts):
    groups = {}
    for r in json.loads((facts / "resources.json").read_text()):
        entry = {"name": r["name"], "kind": r["kind"]}
        for key, short in (("singularName", "singular"), ("shortNames", "short"), ("categories", "categories")):
            if r.get(key):
                entry[short] = r[key]
        if r["namespaced"]:
            entry["namespaced"] = True
        if r.get("responseKind"):
            entry["response"] = "/".join(r["responseKind"].get(k, "") for k in ("group", "version"))
        entry["verbs"] = r["verbs"]
        group = groups.setdefault(r["group"], {})
        version = group.setdefault(r["version"], [])
        version.append(entry)
    write("resources.json", [
        {"group": g, "versions": [{"version": v, "resources": rs} for v, rs in vs.items()]}
        for g, vs in groups.items()
    ], KINDS)


REF = "#/components/schemas/"


def shorten(node):
    """`allOf: [{$ref}]` and `$ref` both become `ref`, without the prefix that all of them share."""
    if isinstance(node, list):
        return [shorten(n) for n in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {k: shorten(v) for k, v in value.items()}
        elif key == "$ref":
            out["ref"] = value.removeprefix(REF)
        elif key == "allOf" and len(value) == 1 and list(value[0]) == ["$ref"]:
            out["ref"] = value[0]["$ref"].removeprefix(REF)
        elif key in ("default", "enum", "required"):
            out[key] = value
        else:
            out[key] = shorten(value)
    return out


def schemas(facts):
    write("schemas.json", {k: shorten(v) for k, v in json.loads((facts / "openapi-schemas.json").read_text()).items()})


def presence(text):
    known = json.loads((HERE / "schemas.json").read_text())
    facts = json.loads(text)
    # An empty list of policies is refused, so it must not pass for an absent one, which has a default.
    rules = facts["io.k8s.api.autoscaling.v2.HPAScalingRules"]
    rules["p"] = sorted(rules["p"] + ["policies"])
    write("presence.json", {k: v for k, v in sorted(facts.items()) if k in known and v})


FIELD = re.compile(r"^\s*(optional|repeated|required)?\s*(map<\s*\w+\s*,\s*[\w.]+\s*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)")


def messages(roots):
    out = {}
    for root in roots:
        for path in sorted(pathlib.Path(root).rglob("generated.proto")):
            package = None
            stack = []
            for raw in path.read_text().splitlines():
                line = raw.split("//")[0].strip()
                if m := re.match(r"package\s+([\w.]+);", line):
                    package = m[1]
                elif m := re.match(r"message\s+(\w+)\s*\{", line):
                    stack.append(".".join([*(stack[-1:]), m[1]]) if stack else f"{package}.{m[1]}")
                    out[stack[-1]] = []
                    if line.endswith("}"):
                        stack.pop()
                elif line.startswith("}") and stack:
                    stack.pop()
                elif stack and (m := FIELD.match(line)):
                    label, kind, name, number = m[1], m[2], m[3], int(m[4])
                    repeated = label == "repeated"
                    if kind.startswith("map<"):
                        kind = "map:" + kind[4:-1].split(",")[1].strip()
                    bare = kind.removeprefix("map:")
                    scalar = bare in SCALARS
                    if not scalar:
                        resolved = bare if "." in bare else f"{package}.{bare}"
                        # Package paths are written relative to a dot-free root in a few files.
                        kind = kind[: len(kind) - len(bare)] + resolved.lstrip(".")
                    out[stack[-1]].append([number, name, ("*" if repeated else "") + kind])
    properties = {
        name: list(schema.get("properties", {}))
        for name, schema in json.loads((HERE / "schemas.json").read_text()).items()
    }
    write("protobuf.json", reachable({m: fields(m, fs, properties) for m, fs in out.items()}))


def fields(message, declared, properties):
    """Gives each field its JSON name; a message that JSON inlines gets the empty name."""
    known = properties.get(message.replace("k8s.io.", "io.k8s.", 1).replace("_", "-"))
    if not known:
        return declared
    plain = {re.sub(r"[^a-z0-9]", "", p.lower()): p for p in known}
    result = []
    for number, name, kind in declared:
        match = plain.get(name.lower())
        inline = match is None and "." in kind
        result.append([number, "" if inline else match or name, kind])
    return result


def reachable(all_messages):
    """Keeps the messages that requests for served kinds and their answers can hold."""
    meta = "k8s.io.apimachinery.pkg.apis.meta.v1."
    answers = ["Status", "WatchEvent", "PartialObjectMetadata", "PartialObjectMetadataList"]
    answers += ["APIVersions", "APIGroup", "APIGroupList", "APIResourceList"]
    todo = [meta + name for name in answers]
    todo += [meta + "DeleteOptions", "k8s.io.api.autoscaling.v1.Scale", "k8s.io.api.policy.v1.Eviction",
            "k8s.io.api.authentication.v1.TokenRequest", "k8s.io.apimachinery.pkg.runtime.Unknown"]
    for group in json.loads((KINDS / "resources.json").read_text()):
        for version in group["versions"]:
            kinds = [r["kind"] for r in version["resources"]]
            suffixes = {f".{version['version']}.{kind}{end}" for kind in kinds for end in ("", "List")}
            short = group["group"].split(".")[0] or "core"
            short = {"flowcontrol": "flowcontrol", "internal": "apiserverinternal"}.get(short, short)
            for m in all_messages:
                if any(m.endswith(f".{short}{s}") for s in suffixes):
                    todo.append(m)
    kept = {}
    while todo:
        message = todo.pop()
        if message in kept or message not in all_messages:
            continue
        kept[message] = all_messages[message]
        for _, _, kind in kept[message]:
            bare = kind.lstrip("*").removeprefix("map:")
            if "." in bare:
                todo.append(bare)
    return dict(sorted(kept.items()))


SCALARS = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float", "sint32", "sint64", "fixed32", "fixed64"}

if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1])
    resources(source)
    schemas(source)
    presence(sys.stdin.read())
    messages(sys.argv[2:])
