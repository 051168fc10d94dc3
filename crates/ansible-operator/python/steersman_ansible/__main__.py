"""The commands of the package: `check`, `run REQUEST` and `serve`."""

from __future__ import annotations

import json
import os
import sys


def check() -> int:
    """Prints what is installed, as JSON on one line."""
    found: dict[str, object] = {"python": "{}.{}.{}".format(*sys.version_info[:3])}
    try:
        from ansible.release import __version__

        found["ansible-core"] = __version__
    except ImportError:
        found["ansible-core"] = None
    try:
        import kubernetes

        found["kubernetes"] = kubernetes.__version__
    except ImportError:
        found["kubernetes"] = None
    found["kubernetes-core"] = found["ansible-core"] is not None and has_kubernetes_core()
    print(json.dumps(found))
    return 0


def has_kubernetes_core() -> bool:
    """Whether Ansible finds the collection."""
    import ansible.constants as constants

    paths = [*constants.COLLECTIONS_PATHS, *(path for path in sys.path if path)]
    names = [os.path.join(path, "ansible_collections", "kubernetes", "core") for path in paths]
    return any(os.path.isdir(os.path.expanduser(name)) for name in names)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check"]:
            return check()
        case ["run", request]:
            from steersman_ansible import play

            return play.run(request, warm=False)
        case ["serve"]:
            from steersman_ansible import server

            return server.serve()
    print("usage: python -m steersman_ansible check | run REQUEST | serve", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
