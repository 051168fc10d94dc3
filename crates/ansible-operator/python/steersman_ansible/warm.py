"""What a process has to have imported so that a fork of it can start a play at once."""

from __future__ import annotations

import importlib

from steersman_ansible import modules, play

PLUGINS = (
    "ansible.executor.playbook_executor",
    "ansible.executor.task_executor",
    "ansible.plugins.action.normal",
    "ansible.plugins.action.gather_facts",
    "ansible.plugins.callback.default",
    "ansible.plugins.connection.local",
    "ansible.plugins.shell.sh",
    "ansible.plugins.strategy.linear",
    "ansible.vars.manager",
    "multiprocessing.popen_fork",
    "multiprocessing.queues",
    "multiprocessing.synchronize",
    "yaml.cyaml",
)


def prepare() -> None:
    """Imports Ansible, its plugins, and the modules that run in the process."""
    import ansible.cli.playbook  # noqa: F401
    from ansible.plugins import loader

    play.prefer_own_collections()
    loader.init_plugin_loader()
    for name in PLUGINS:
        _import(name)
    for plugins in (loader.filter_loader, loader.test_loader, loader.callback_loader):
        try:
            list(plugins.all(class_only=True))
        except Exception:  # a plugin of the user's that does not load is reported by the play that needs it
            pass
    for name in modules.MODULES:
        _import(modules.python_name(name))
        _import(modules.python_name(name).replace(".modules.", ".action."))
    modules.install()


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # an optional collection, or another version of Ansible: the play imports what it needs
        pass
