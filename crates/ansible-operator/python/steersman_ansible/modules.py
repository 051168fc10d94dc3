"""Runs modules in the process of their task instead of a new Python, where the result is known to be the same.

Stock Ansible packs a module into a script and starts it with a new interpreter, which imports all that it needs again.
Here the module's own `main` is called in the process of the task. All around it is stock: the module's arguments are made, and
its printed result is read, by Ansible's own code.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import traceback

# Modules that leave no state in the process that would affect the next item of a loop, or the next task.
MODULES = (
    "ansible.builtin.setup",
    *(
        f"kubernetes.core.{name}"
        for name in ("k8s", "k8s_info", "k8s_json_patch", "k8s_scale", "k8s_service", "k8s_rollback", "k8s_cluster_info")
    ),
    *(f"operator_sdk.util.{name}" for name in ("k8s_status", "k8s_event", "osdk_metric", "requeue_after")),
)


def python_name(module: str) -> str:
    namespace, collection, name = module.split(".")
    if (namespace, collection) == ("ansible", "builtin"):
        return f"ansible.modules.{name}"
    return f"ansible_collections.{namespace}.{collection}.plugins.modules.{name}"


def install() -> None:
    """Has `ActionBase` run these modules in the process."""
    from ansible.plugins.action import ActionBase

    stock = ActionBase._execute_module

    def execute_module(self, module_name=None, module_args=None, tmp=None, task_vars=None, **options):
        name = _resolved(self, module_name)
        if name is None or not _is_plain(self, options, task_vars or {}):
            return stock(
                self, module_name=module_name, module_args=module_args, tmp=tmp, task_vars=task_vars, **options
            )
        with _in_process(self, name):
            return stock(
                self, module_name=module_name, module_args=module_args, tmp=tmp, task_vars=task_vars, **options
            )

    ActionBase._execute_module = execute_module


def _resolved(action, module_name: str | None) -> str | None:
    """The full name of the module, if it is one of those."""
    from ansible.plugins.loader import module_loader

    name = module_name or action._task.action
    context = module_loader.find_plugin_with_context(name, collection_list=action._task.collections)
    if not context.resolved or context.resolved_fqcn not in MODULES:
        return None
    # A project may have a module of the same name next to its playbook, or a different version of the collection.
    module = sys.modules.get(python_name(context.resolved_fqcn))
    imported = getattr(module, "__file__", None)
    found = context.plugin_resolved_path
    same = imported and found and os.path.realpath(imported) == os.path.realpath(found)
    return context.resolved_fqcn if same else None


def _is_plain(action, options: dict, task_vars: dict) -> bool:
    """Whether the module would run here, as this user, with this environment and this interpreter."""
    if options.get("wrap_async") or action._task.async_val or action._connection.transport != "local":
        return False
    become = getattr(action._connection, "become", None)
    if become is not None or any(bool(entry) for entry in action._task.environment or ()):
        return False
    if action._task.delegate_to:
        return False
    interpreter = task_vars.get("ansible_python_interpreter")
    if interpreter is None:
        return False
    interpreter = action._templar.template(interpreter) if "{{" in str(interpreter) else interpreter
    return os.path.realpath(str(interpreter)) == os.path.realpath(sys.executable)


@contextlib.contextmanager
def _in_process(action, name: str):
    """Replaces, for one module, how it is packed and how it is started."""
    arguments: dict = {}

    def configure_module(*, module_name, module_args, task_vars):
        arguments.update(module_args)
        return _built(name)

    def execute_command(*_args, **_options):
        return _call(name, arguments)

    replaced = {
        "_configure_module": configure_module,
        "_low_level_execute_command": execute_command,
        "_is_pipelining_enabled": lambda *_args, **_options: True,
    }
    action.__dict__.update(replaced)
    try:
        yield
    finally:
        for attribute in replaced:
            action.__dict__.pop(attribute, None)


def _built(name: str):
    """What stock Ansible gets for a packed module: it is never started."""
    shebang = f"#!{sys.executable}"
    try:
        from ansible.executor.module_common import _BuiltModule
    except ImportError:
        return "new", shebang, b"", name
    return _BuiltModule(b_module_data=b"", module_style="new", shebang=shebang, serialization_profile="legacy"), name


def _encoded(arguments: dict) -> bytes:
    parameters = {"ANSIBLE_MODULE_ARGS": arguments}
    try:
        from ansible.module_utils.common.json import Direction, get_module_encoder
    except ImportError:
        from ansible.module_utils.common.json import AnsibleJSONEncoder

        return json.dumps(parameters, cls=AnsibleJSONEncoder, vault_to_text=True).encode()
    encoder = get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)
    return json.dumps(parameters, cls=encoder).encode()


def _call(name: str, arguments: dict) -> dict:
    """Calls a module's `main`, and returns what a shell would tell of it."""
    from ansible.module_utils import basic
    from ansible.module_utils.common import warnings

    # Left by modules that ran in this process before.
    for told in (warnings._global_warnings, warnings._global_deprecations):
        told.clear()
    basic._ANSIBLE_ARGS = _encoded(arguments)
    if hasattr(basic, "_ANSIBLE_PROFILE"):
        basic._ANSIBLE_PROFILE = "legacy"
    output, errors = io.StringIO(), io.StringIO()
    code: object = 0
    directory = os.getcwd()
    argv = sys.argv
    sys.argv = [f"AnsiballZ_{name.rpartition('.')[2]}.py"]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            importlib.import_module(python_name(name)).main()
            raise RuntimeError("New-style module did not handle its own exit.")
        except SystemExit as exit_request:
            code = exit_request.code
        except Exception as error:
            code = _uncaught(error)
        finally:
            os.chdir(directory)
            sys.argv = argv
    text = output.getvalue()
    return {
        "rc": code if isinstance(code, int) else 0 if code is None else 1,
        "stdout": text,
        "stdout_lines": text.splitlines(),
        "stderr": errors.getvalue(),
        "stderr_lines": errors.getvalue().splitlines(),
    }


def _uncaught(error: Exception) -> int:
    """Tells of an exception as the packed script does: since ansible-core 2.19 in the result, before that by a traceback."""
    try:
        from ansible.module_utils._internal._ansiballz import _loader
    except ImportError:
        traceback.print_exception(error)
        return 1
    try:
        _loader._handle_exception(error, "legacy")
    except SystemExit as exit_request:
        return exit_request.code if isinstance(exit_request.code, int) else 1
    return 1
