"""What a process has to have imported so that a fork of it can start a play at once."""

from __future__ import annotations

import importlib

from steersman_ansible import events, inline, lazy_client, modules, play, temporary

PLUGINS = (
    "ansible._internal._json._profiles._inventory_legacy",
    "ansible.executor.playbook_executor",
    "ansible.executor.task_executor",
    "ansible.playbook.handler_task_include",
    "ansible.plugins.action.normal",
    "ansible.plugins.action.gather_facts",
    "ansible.plugins.callback.default",
    "ansible.plugins.connection.local",
    "ansible.plugins.shell.sh",
    "ansible.plugins.strategy.linear",
    "ansible.vars.manager",
    "multiprocessing.popen_fork",
    "multiprocessing.queues",
    "multiprocessing.resource_tracker",
    "multiprocessing.shared_memory",
    "multiprocessing.spawn",
    "multiprocessing.synchronize",
    "yaml.cyaml",
)


def prepare() -> None:
    """Imports Ansible, its plugins, and the modules that run in the process."""
    import ansible.cli.playbook  # noqa: F401
    from ansible.plugins import loader

    lazy_client.install()
    play.prefer_own_collections()
    loader.init_plugin_loader()
    for name in PLUGINS:
        _import(name)
    loader.callback_loader.add_directory(events.CALLBACKS)
    # Including their documentation, which Ansible reads for a plugin's options when it first loads it.
    for plugins in (
        loader.fragment_loader,
        loader.become_loader,
        loader.cache_loader,
        loader.callback_loader,
        loader.connection_loader,
        loader.filter_loader,
        loader.inventory_loader,
        loader.shell_loader,
        loader.strategy_loader,
        loader.test_loader,
    ):
        try:
            list(plugins.all(class_only=True))
        except Exception:  # a broken plugin of the user is reported by the play that needs it
            pass
    _load_vars_plugins()
    for name in modules.MODULES:
        _import(modules.python_name(name))
        _import(modules.python_name(name).replace(".modules.", ".action."))
    modules.install()
    temporary.install()
    inline.install()
    _bind_workers()


def _load_vars_plugins() -> None:
    """Loads them as Ansible does: of a loader that has been used already, it takes those that it enabled for all there are."""
    from ansible.vars import plugins

    try:
        plugins._prime_vars_loader()
    except Exception:  # a broken plugin of the user, or a different version of Ansible
        pass


def _bind_workers() -> None:
    """Has the workers of a run end with it: they lead sessions of their own, and no group holds them together."""
    from ansible.executor.process.worker import WorkerProcess

    from steersman_ansible import server

    run = WorkerProcess.run

    def bound(self: WorkerProcess) -> None:
        server.die_with_parent()
        run(self)

    WorkerProcess.run = bound


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # an optional collection, or a different version of Ansible: the play imports what it needs
        pass
