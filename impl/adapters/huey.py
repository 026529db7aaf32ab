# /// script
# requires-python = ">=3.10"
# dependencies = ["huey==3.5.4"]
# ///
"""huey on SQLite: ``start`` enqueues a task, once, or reads its result; ``recover`` is the consumer's turn.

huey knows no keys: the id of the task that a call was enqueued as is kept beside it, before it is enqueued. The
consumer's turn is its loop, dequeue and execute, until the queue is empty.
"""

import json

from survives_adapter import Claim, Pending, Refused, System, serve
from huey import SqliteHuey
from huey.exceptions import TaskException


class Huey(System):
    """One queue on SQLite, and a consumer that takes its turn when it is told to."""

    name, version = "huey", "3.5.4"
    notes = "huey says that a task which is being executed when its consumer dies is lost: effect-kept is not claimed"
    claims = [
        Claim(
            "at-most-once",
            "A task is delivered at most once.",
            where="docs/guide.rst, Chords; docs/recipes.rst, Failover",
        ),
        Claim(
            "first-result",
            "A result that is read with preserve=True can be read again.",
            where="docs/api.rst, Huey.result",
        ),
        Claim(
            "true-completion", "The handle has the result once the task is finished.", where="README.rst, At a glance"
        ),
        Claim(
            "changed-payload",
            "Each call of a task's function is enqueued as a task of its own.",
            choice="part-of-key",
            where="README.rst, At a glance",
        ),
        Claim(
            "one-at-a-time",
            "Dequeueing is destructive: a task that was handed to a worker is with that worker alone.",
            where="docs/recipes.rst, Failover",
        ),
        Claim(
            "cancel-honoured",
            "A task that has not started executing can be revoked.",
            where="docs/guide.rst, Canceling or pausing tasks",
        ),
    ]

    def open(self):
        self.huey = SqliteHuey("calls", filename=str(self.folder / "huey.db"), fsync=True)

        @self.huey.task(name="call")
        def call(key, payload):
            return self.effect(key, payload)

        self.call = call

    def start(self, key, payload):
        name = f"{key} {json.dumps(payload, sort_keys=True)}"
        task_id = self.handles.get(name)
        if task_id is None:
            task = self.call.s(key, payload)
            self.handles.set(name, task.id)
            self.huey.enqueue(task)
            raise Pending("enqueued")
        try:
            result = self.huey.result(task_id, preserve=True)
        except TaskException as error:
            raise RuntimeError(str(error)) from error
        if result is None:
            raise Pending("no result")
        return result

    def recover(self):
        while (task := self.huey.dequeue()) is not None:
            self.huey.execute(task)

    def cancel(self, key):
        for name, task_id in self.handles.items():
            if name.startswith(f"{key} "):
                self.huey.revoke_by_id(task_id)
                if task_id not in {task.id for task in self.huey.pending()}:
                    raise Refused("it is not in the queue any more")


serve(Huey)
