"""One run of a playbook, described by a request file.

The request is JSON: `arguments` (of ansible-playbook), `environment`, `directory` (the working directory), `temporary` (a
private directory), and the paths of two Unix sockets. On `events` the run tells what happens, one JSON object a line; what
Ansible and the modules print goes to `output`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import warnings

#: The interval at which a play polls for results of its tasks, in seconds.
POLL_INTERVAL = 0.004


def run(request_path: str, warm: bool) -> int:
    """Runs a play in this process and returns its exit code. A warm process has Ansible imported."""
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    output = _connect(request["output"])
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    os.chdir(request["directory"])
    os.environ.update(request["environment"])
    from steersman_ansible import events

    channel = events.open_channel(_connect(request["events"]))
    code = 250
    try:
        code = _playbook(request, warm, channel)
    except KeyboardInterrupt:
        code = 99
    except BaseException as error:  # whatever ends a run has to be reported
        channel.send(event="error", message=f"{type(error).__name__}: {error}")
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                pass
        channel.send(event="end", code=code)
    return code


def prefer_own_collections() -> None:
    """Has Ansible find the operator's own operator_sdk.util before others: it speaks to this operator."""
    import ansible.constants as constants

    own = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "collections")
    constants.COLLECTIONS_PATHS.insert(0, own)


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def _playbook(request: dict, warm: bool, channel) -> int:
    import ansible.constants as constants
    from ansible.cli.playbook import PlaybookCLI
    from ansible.errors import AnsibleError

    from steersman_ansible import events

    # Created when Ansible is imported, which a warm process does once for all of its runs.
    if warm:
        constants.DEFAULT_LOCAL_TMP = request["temporary"]
        # A task takes tens of milliseconds here; polling for its end every millisecond would take a good part of that.
        constants.DEFAULT_INTERNAL_POLL_INTERVAL = max(constants.DEFAULT_INTERNAL_POLL_INTERVAL, POLL_INTERVAL)
    else:
        prefer_own_collections()
    warnings.filterwarnings("ignore", message="AnsibleCollectionFinder has already been configured")
    events.install(channel)
    try:
        cli = PlaybookCLI(["ansible-playbook", *request["arguments"]])
        return cli.run() or 0
    except AnsibleError as error:
        channel.send(event="error", message=str(error))
        return int(getattr(error, "_exit_code", 1))
    except SystemExit as exit_request:
        # Raised by the argument parser.
        code = exit_request.code
        if code:
            channel.send(event="error", message="ansible-playbook did not take its arguments: see the output")
        return code if isinstance(code, int) else 1
