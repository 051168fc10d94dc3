"""The fork server: a process with Ansible imported, of which each run is a fork.

Commands come on standard input and answers go to standard output, one JSON object a line. `{"run": N, "request": PATH}`
starts a run and is answered with `{"run": N, "pid": P}`, and once more with `{"run": N, "exited": STATUS}` when it is over.
`{"kill": N}` ends a run with all that it started in its process group. When standard input ends, so do all runs and the server.
The first answer comes when Ansible is imported, and says what is there beside it.

Programs that start operators again and again import Ansible once: see `prepare`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import tempfile

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: The environment variable that identifies the programs started by a run.
RUN = "STEERSMAN_ANSIBLE_RUN"


def serve() -> int:
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    # Output printed while Ansible is imported must not be mixed with the answers.
    os.dup2(2, 1)
    found = _import_ansible()
    return Server(answers).loop(found)


def prepare(path: str) -> int:
    """Imports Ansible, and forks a fork server for each operator that connects to a Unix socket, until standard input ends.

    The operator begins with its environment and working directory, one JSON object on a line, and from then on the connection is
    the server's standard input and takes its answers. Each fork is told on standard output: `{"operator": PID, "server": PID}`.
    """
    found = _import_ansible()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    # Reaps servers that have exited.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(json.dumps({"ready": True}), flush=True)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    parent = os.getpid()
    while True:
        for key, _ in selector.select():
            if key.fd == 0:
                return 0
            connection, _ = listener.accept()
            operator = _peer(connection)
            pid = os.fork()
            if pid == 0:
                selector.close()
                listener.close()
                _serve_operator(connection, operator, parent, found)
            connection.close()
            print(json.dumps({"operator": operator, "server": pid}), flush=True)


def _import_ansible() -> dict[str, bool]:
    """Imports Ansible, to be forked, and tells what is there beside it."""
    from steersman_ansible import libraries, warm

    # Imported objects stay alive, so collecting garbage meanwhile would be in vain.
    gc.disable()
    warm.prepare()
    found = libraries.found()
    # Excludes permanent objects from the children's garbage collector, which would copy their pages.
    gc.collect()
    gc.freeze()
    gc.enable()
    return found


def _peer(connection: socket.socket) -> int:
    """The process at the other end; where the system does not tell, 0."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[0]


def _serve_operator(connection: socket.socket, operator: int, parent: int, found: dict[str, bool]) -> None:
    """Is the fork server of an operator, in a fork."""
    code = 250
    try:
        die_with_parent()
        if os.getppid() != parent:
            return
        # Joins the operator's process group, so that killing the group kills this process, too.
        try:
            os.setpgid(0, os.getpgid(operator))
        except OSError:
            pass
        line = b""
        while not line.endswith(b"\n"):
            chunk = connection.recv(65536)
            if not chunk:
                return
            line += chunk
        begin = json.loads(line)
        os.environ.clear()
        os.environ.update(begin["environment"])
        os.chdir(begin["directory"])
        # Was determined from the previous environment.
        tempfile.tempdir = None
        os.dup2(connection.fileno(), 0)
        os.dup2(2, 1)
        code = Server(connection.detach()).loop(found)
    finally:
        os._exit(code)


def _be_reaper() -> None:
    """Processes that a module leaves behind become children of the server, which waits for them: no zombies."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Has this process end when the one that forked it does, however that ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    # Only on Linux; elsewhere a killed process may leave others behind until they exit.
    if _libc is not None and hasattr(_libc, "prctl"):
        _libc.prctl(option, value, 0, 0, 0)


def _load_libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):
        return None


# Loaded once: a fork that had to load it first would survive its parent's death during that time.
_libc = _load_libc()


class Server:
    def __init__(self, answers: int) -> None:
        _be_reaper()
        self._answers = answers
        self._runs: dict[int, int] = {}
        self._input = b""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The operator decides when the server exits.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def loop(self, found: dict[str, bool]) -> int:
        self._answer(ready=True, **found)
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
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._child(server, run, request)
        self._runs[pid] = run
        self._answer(run=run, pid=pid)

    def _child(self, server: int, run: int, request: str) -> None:
        code = 250
        try:
            os.setsid()
            die_with_parent()
            if os.getppid() != server:
                os._exit(code)
            os.environ[RUN] = str(run)
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
            # Skips exit handlers, which belong to the server.
            os._exit(code & 0xFF)

    def _kill(self, run: int) -> None:
        for pid, number in self._runs.items():
            if number == run:
                _kill_tree(pid)

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
                # A process group keeps its ID after its leader has exited, as long as it has members.
                _kill_group(pid)
            # Also after a worker of a killed run is reaped: its children are reparented to this process only now.
            self._kill_orphans()
            if run is not None:
                self._answer(run=run, exited=os.waitstatus_to_exitcode(status))

    def _kill_orphans(self) -> None:
        """Ends what modules of runs that are over have detached from them, which has become a child of the server."""
        active = {str(run).encode() for run in self._runs.values()}
        for pid, parent in _parents().items():
            if parent == os.getpid() and pid not in self._runs:
                run = _run_of(pid)
                if run is not None and run not in active:
                    _kill_tree(pid)

    def _end(self) -> None:
        runs = list(self._runs)
        self._runs.clear()
        for pid in runs:
            _kill_tree(pid)
        self._kill_orphans()

    def _answer(self, **fields: object) -> None:
        line = json.dumps(fields).encode() + b"\n"
        while line:
            line = line[os.write(self._answers, line) :]


def _parents() -> dict[int, int]:
    """The parent of each process, where the system shows them."""
    parents = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return parents
    for name in names:
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                # The program's name, in parentheses, may contain anything.
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            pass
    return parents


def _run_of(pid: int) -> bytes | None:
    """The run that started a program, which its environment tells."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return None
    prefix = RUN.encode() + b"="
    return next((one[len(prefix) :] for one in variables if one.startswith(prefix)), None)


def _kill_tree(root: int) -> None:
    """Ends a process, its group, and all that descends from it: Ansible's workers lead groups of their own."""
    parents = _parents()
    doomed = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in doomed} - doomed
        if not more:
            break
        doomed |= more
    for pid in doomed:
        _kill_group(pid)
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


if __name__ == "__main__":
    sys.exit(serve())
