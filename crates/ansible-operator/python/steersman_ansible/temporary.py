"""Makes the temporary directories of tasks without a shell, where a task runs on this machine as this user.

Stock Ansible starts three shells for each of them. These are made in the private directory of the run, and go with it even if
the run is killed.
"""

from __future__ import annotations

import os
import shutil


def install() -> None:
    from ansible import constants
    from ansible.plugins.action import ActionBase

    make, remove = ActionBase._make_tmp_path, ActionBase._remove_tmp_path

    def make_tmp_path(self, remote_user=None):
        if not _is_here(self):
            return make(self, remote_user)
        shell = self._connection._shell
        path = os.path.join(constants.DEFAULT_LOCAL_TMP, shell._generate_temp_dir_name())
        os.makedirs(path, mode=0o700)
        self._cleanup_remote_tmp = True
        shell.tmpdir = shell.join_path(path, "")
        return shell.tmpdir

    def remove_tmp_path(self, tmp_path, force=False):
        shell = self._connection._shell
        path = tmp_path or shell.tmpdir
        is_own = path and os.path.dirname(path.rstrip("/")) == constants.DEFAULT_LOCAL_TMP
        if not is_own or not _is_here(self):
            return remove(self, tmp_path, force)
        if force or self._should_remove_tmp_path(path):
            shutil.rmtree(path, ignore_errors=True)
            shell.tmpdir = None

    ActionBase._make_tmp_path = make_tmp_path
    ActionBase._remove_tmp_path = remove_tmp_path


def _is_here(action) -> bool:
    """Whether the task runs on this machine, as this user, with a shell that knows its paths."""
    connection = action._connection
    return (
        connection.transport == "local"
        and getattr(connection, "become", None) is None
        and connection._shell.SHELL_FAMILY == "sh"
    )
