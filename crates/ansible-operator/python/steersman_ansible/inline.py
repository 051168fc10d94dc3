"""Runs tasks in the process of their play, instead of one process for each, where nothing of them stays behind.

Ansible forks a worker for every task and host, so that hosts are worked on side by side and a task cannot change what its play
holds. With one host the first is of no use. For the second, a task runs on copies of what a worker changes, its result takes the
way of every result, and only actions are run that are known to keep nothing.
"""

from __future__ import annotations

from steersman_ansible import modules

#: Actions without side effects on their process. Gathering facts runs too much code to be sure of that.
ACTIONS = frozenset(
    {
        *(name for name in modules.MODULES if name != "ansible.builtin.setup"),
        "ansible.builtin.assert",
        "ansible.builtin.debug",
        "ansible.builtin.fail",
        "ansible.builtin.set_fact",
    }
)


def install() -> None:
    """Has workers whose task allows it do their work when they are started."""
    from ansible.executor.process.worker import WorkerProcess

    start = WorkerProcess.start

    def start_or_run(self: WorkerProcess) -> None:
        if _is_inline(self):
            _run(self)
        else:
            start(self)

    WorkerProcess.start = start_or_run


def _is_inline(worker) -> bool:
    task = worker._task
    return (
        (task.resolved_action or task.action) in ACTIONS
        and len(worker._variable_manager._inventory.hosts) <= 1
        and not (task.async_val or task.become or task.delegate_to or task.timeout or worker._play_context.become)
        and not any(task.environment or ())
    )


def _run(worker) -> None:
    """What a worker does, on copies, and without leaving the process."""
    from ansible._internal import _task
    from ansible.executor.task_executor import TaskExecutor
    from ansible.executor.task_result import _RawTaskResult

    task = worker._task.copy()
    with _task.TaskContext(task):
        result = TaskExecutor(
            worker._host,
            task,
            dict(worker._task_vars),
            worker._play_context.copy(),
            worker._loader,
            worker._shared_loader_obj,
            worker._final_q,
            worker._variable_manager,
        ).run()
    worker._final_q.send_task_result(
        _RawTaskResult(host=worker._host, task=task, return_data=result, task_fields=task.dump_attrs())
    )
