"""The fork server: a process with Ansible imported, of which each run is a fork.

Commands come on standard input and answers go to standard output, one JSON object a line. `{"run": N, "request": PATH}`
starts a run and is answered with `{"run": N, "pid": P}`, and once more with `{"run": N, "exited": STATUS}` when it is over.
`{"kill": N}` ends a run with all that it started in its process group. When standard input ends, so do all runs and the server.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36


def serve() -> int:
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    # Nothing that is printed while Ansible is imported may get between the answers.
    os.dup2(2, 1)
    _be_reaper()
    from steersman_ansible import warm

    warm.prepare()
    # Objects that live on are not looked at by the children's collector, which would copy their pages.
    gc.collect()
    gc.freeze()
    return Server(answers).loop()


def _be_reaper() -> None:
    """Processes that a module leaves behind become children of the server, which waits for them: no zombies."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):
        pass


class Server:
    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._runs: dict[int, int] = {}
        self._input = b""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The operator decides when the server ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def loop(self) -> int:
        self._answer(ready=True)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(self._wake_read, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
                elif not self._read():
                    self._end()
                    return 0
            self._reap()

    def _read(self) -> bool:
        chunk = os.read(0, 65536)
        if not chunk:
            return False
        *lines, self._input = (self._input + chunk).split(b"\n")
        for line in lines:
            command = json.loads(line)
            if "kill" in command:
                self._kill(command["kill"])
            else:
                self._start(command["run"], command["request"])
        return True

    def _start(self, run: int, request: str) -> None:
        pid = os.fork()
        if pid == 0:
            self._child(request)
        self._runs[pid] = run
        self._answer(run=run, pid=pid)

    def _child(self, request: str) -> None:
        code = 250
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for descriptor in (self._answers, self._wake_read, self._wake_write):
                os.close(descriptor)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
            from steersman_ansible import play

            code = play.run(request, warm=True)
        finally:
            # What was registered to run at exit is the server's.
            os._exit(code & 0xFF)

    def _kill(self, run: int) -> None:
        for pid, number in self._runs.items():
            if number == run:
                _kill_group(pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            run = self._runs.pop(pid, None)
            if run is not None:
                # The group of a leader that is gone keeps its number while it has members.
                _kill_group(pid)
                self._answer(run=run, exited=os.waitstatus_to_exitcode(status))

    def _end(self) -> None:
        for pid in self._runs:
            _kill_group(pid)

    def _answer(self, **fields: object) -> None:
        line = json.dumps(fields).encode() + b"\n"
        while line:
            line = line[os.write(self._answers, line) :]


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


if __name__ == "__main__":
    sys.exit(serve())
