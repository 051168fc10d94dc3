"""The channel on which a run tells what happens, and the callback that writes to it."""

from __future__ import annotations

import json
import os
import socket
import threading

CALLBACKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "callback")

_channel: Channel | None = None


class Channel:
    """Lines of JSON on a socket. A reader that is gone ends nothing but the telling."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection: socket.socket | None = connection
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def send(self, **fields: object) -> None:
        # Ansible's workers are forks of this process; the parent reports for them.
        if os.getpid() != self._owner:
            return
        line = json.dumps(fields, default=str).encode() + b"\n"
        with self._lock:
            if self._connection is None:
                return
            try:
                self._connection.sendall(line)
            except OSError:
                self._connection = None


def open_channel(connection: socket.socket) -> Channel:
    global _channel
    _channel = Channel(connection)
    return _channel


def current() -> Channel:
    assert _channel is not None, "a run has a channel"
    return _channel


def install(channel: Channel) -> None:
    """Has every play of this process report to the channel, beside the callbacks that the user configured."""
    from ansible.executor.task_queue_manager import TaskQueueManager
    from ansible.plugins.loader import callback_loader

    callback_loader.add_directory(CALLBACKS)
    load = TaskQueueManager.load_callbacks

    def load_callbacks(self: TaskQueueManager) -> None:
        if self._callback_plugins:
            return
        load(self)
        callback = callback_loader.get("steersman_events")
        # Since ansible-core 2.19, the manager only calls methods that the callback has registered.
        if hasattr(callback, "_init_callback_methods"):
            callback._init_callback_methods()
        callback.set_options()
        self._callback_plugins.append(callback)

    TaskQueueManager.load_callbacks = load_callbacks
