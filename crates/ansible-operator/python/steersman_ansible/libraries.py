"""What the modules of kubernetes.core need, which Ansible does without."""

from __future__ import annotations

import importlib.util
import os
import sys


def found() -> dict[str, bool]:
    """Whether the Kubernetes client and the collection are there. The client is not imported, which takes longer than Ansible."""
    return {"kubernetes": importlib.util.find_spec("kubernetes") is not None, "kubernetes-core": _has_kubernetes_core()}


def _has_kubernetes_core() -> bool:
    """Whether Ansible finds the collection."""
    import ansible.constants as constants

    paths = [*constants.COLLECTIONS_PATHS, *(path for path in sys.path if path)]
    names = [os.path.join(path, "ansible_collections", "kubernetes", "core") for path in paths]
    return any(os.path.isdir(os.path.expanduser(name)) for name in names)
