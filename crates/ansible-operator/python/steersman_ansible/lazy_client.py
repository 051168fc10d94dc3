"""Imports the classes of the Kubernetes client when they are asked for.

`kubernetes.client` imports a class for every kind and API group, thirty megabytes of them. The modules of kubernetes.core speak
to the API without them, so that the fork server, and with it every run, does without most of it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import re
import sys

PACKAGES = ("kubernetes.client", "kubernetes.client.api", "kubernetes.client.models")
IMPORT = re.compile(r"from (kubernetes\.client\.(?:api|models)\.\w+) import (\w+)")


class Loader(importlib.machinery.SourceFileLoader):
    """Loads one of the packages, with its imports of classes put off."""

    def exec_module(self, module):
        classes: dict[str, str] = {}
        lines = []
        for line in self.get_source(self.name).splitlines():
            found = IMPORT.fullmatch(line.strip())
            if found:
                classes[found[2]] = found[1]
            # An empty line, to preserve line numbers.
            lines.append("" if found else line)

        def load(name: str):
            if name not in classes:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            value = getattr(importlib.import_module(classes[name]), name)
            setattr(module, name, value)
            return value

        module.__getattr__ = load
        exec(compile("\n".join(lines), self.path, "exec"), module.__dict__)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        # Only source files are loaded lazily.
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    if "kubernetes.client" not in sys.modules:
        sys.meta_path.insert(0, Finder())
