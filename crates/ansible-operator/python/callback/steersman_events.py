"""Tells the operator what a play does: tasks as they start, their results, and the totals."""

from __future__ import annotations

DOCUMENTATION = """
    name: steersman_events
    type: notification
    short_description: tells the operator what a play does
    description:
        - Writes one JSON object for each task, result and play to the run's channel.
        - Results that C(no_log) hides stay hidden.
"""

from ansible.plugins.callback import CallbackBase

from steersman_ansible import events

# Becomes a condition's message, which is limited to 32768 characters.
LONGEST_MESSAGE = 8192


def shortened(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "…"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "steersman_events"
    # Not discovered in a directory: the run itself adds an instance to the task queue manager of each play.
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._started(task, "task")

    def v2_playbook_on_handler_task_start(self, task):
        self._started(task, "handler")

    def v2_runner_on_ok(self, result):
        self._result("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._result("failed", result, ignored=bool(ignore_errors))

    def v2_runner_on_skipped(self, result):
        self._result("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self._result("unreachable", result)

    def v2_runner_item_on_failed(self, result):
        self._result("item_failed", result)

    def v2_runner_item_on_ok(self, result):
        self._result("item_ok", result)

    def v2_playbook_on_no_hosts_matched(self):
        events.current().send(event="no_hosts")

    def v2_playbook_on_stats(self, stats):
        hosts = {host: stats.summarize(host) for host in stats.processed}
        events.current().send(event="stats", hosts=hosts)

    def _started(self, task, kind):
        events.current().send(event="start", kind=kind, name=task.get_name(), path=task.get_path())

    def _result(self, status, result, ignored=False):
        task = result._task
        answer = result._result
        action = task.resolved_action or task.action
        fields = {
            "event": "result",
            "status": status,
            "host": result._host.get_name(),
            "name": task.get_name(),
            "path": task.get_path(),
            "action": action,
            "changed": bool(answer.get("changed", False)),
            "ignored": ignored,
        }
        if "censored" in answer:
            fields["message"] = answer["censored"]
        else:
            if answer.get("msg"):
                fields["message"] = shortened(answer["msg"])
            # Requests of the operator's own modules to the operator.
            if action.startswith("operator_sdk.util.") and "operator" in answer:
                fields["operator"] = answer["operator"]
            if "diff" in answer and answer["diff"]:
                fields["diff"] = shortened(self._get_diff(answer["diff"]))
        events.current().send(**fields)
