"""The commands of the package: `check`, `libraries`, `run REQUEST`, `serve` and `prepare SOCKET`."""

from __future__ import annotations

import json
import sys


def check() -> int:
    """Prints what Python and which Ansible this is, as JSON on one line. Every operator waits for it, so that nothing else is imported."""
    found: dict[str, object] = {"python": "{}.{}.{}".format(*sys.version_info[:3])}
    try:
        from ansible.release import __version__

        found["ansible-core"] = __version__
    except ImportError:
        found["ansible-core"] = None
    print(json.dumps(found))
    return 0


def print_libraries() -> int:
    """Prints what is there beside Ansible, as JSON on one line."""
    from steersman_ansible import libraries

    print(json.dumps(libraries.found()))
    return 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check"]:
            return check()
        case ["libraries"]:
            return print_libraries()
        case ["run", request]:
            from steersman_ansible import play

            return play.run(request, warm=False)
        case ["serve"]:
            from steersman_ansible import server

            return server.serve()
        case ["prepare", path]:
            from steersman_ansible import server

            return server.prepare(path)
    print("usage: python -m steersman_ansible check | libraries | run REQUEST | serve | prepare SOCKET", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
