# /// script
# requires-python = ">=3.10"
# dependencies = ["dbos==3.4.0"]
# ///
"""DBOS on SQLite: a workflow of one step, its ID our key; a process that comes after a dead one has its executor ID.

That is the recovery that the documentation describes without Conductor: on its restart an executor recovers what is
pending under its ID. A file lock hands the IDs out. What is recovered runs in threads of DBOS's own; its step waits
at a gate until a request is being answered, as the protocol has no room for an effect between two.
"""

import fcntl
import itertools
import threading
import time

from survives_adapter import Claim, Denied, Pending, System, serve
from dbos import DBOS, SetWorkflowID

TUTORIAL = "docs.dbos.dev, python/tutorials/workflow-tutorial, "
ATTEMPTS = 3
PATIENCE = {True: 20.0, False: 2.5}
"""How many seconds to wait for a workflow that this executor runs, and for one that another does."""


class Dbos(System):
    """One executor."""

    name, version = "dbos", "3.4.0"
    notes = (
        "an executor ID passes to the process that replaces a dead one; a call pending elsewhere is waited for 2.5 s; "
        "max_recovery_attempts is read as recoveries: it is 2 here, and 3 executions are allowed"
    )
    claims = [
        Claim("effect-kept", "A step is tried at least once.", where=TUTORIAL + "Reliability Guarantees, 2"),
        Claim(
            "first-result",
            "A workflow executes only once for an ID; a step that completed is never executed again.",
            where=TUTORIAL + "Reliability Guarantees, 2; python/tutorials/idempotency-tutorial",
        ),
        Claim(
            "true-completion",
            "A completed workflow's steps are recorded.",
            where=TUTORIAL + "Reliability Guarantees, 1",
        ),
        Claim(
            "changed-payload",
            "A workflow executes only once for an ID, even if it is called many times.",
            choice="replayed",
            where="docs.dbos.dev, python/tutorials/idempotency-tutorial",
        ),
        Claim(
            "one-at-a-time",
            "A workflow executes only once for an ID; recovery admits exactly one runner.",
            where="docs.dbos.dev, python/tutorials/idempotency-tutorial; dbos/_recovery.py, _recover_workflow",
        ),
        Claim(
            "retry-budget",
            "After max_recovery_attempts recoveries a workflow is not executed any more.",
            limit=ATTEMPTS,
            where="docs.dbos.dev, python/reference/decorators, workflow",
        ),
        Claim(
            "progress",
            "Workflows always run to completion.",
            choice="alone",
            where=TUTORIAL + "Reliability Guarantees, 1",
        ),
    ]

    def open(self):
        for number in itertools.count(1):
            self.lock = (self.folder / f"executor-{number}").open("w")
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                self.lock.close()
        self.executor, self.gate = f"executor-{number}", threading.Event()
        url = f"sqlite:///{self.folder / 'dbos.sqlite'}"
        config = {
            "name": "calls",
            "system_database_url": url,
            "executor_id": self.executor,
            "application_version": "1",
        }
        DBOS(config={**config, "log_level": "ERROR"})

        @DBOS.step(name="send")
        def send(key, payload):
            self.gate.wait()
            return self.effect(key, payload)

        @DBOS.workflow(name="call", max_recovery_attempts=ATTEMPTS - 1)
        def call(key, payload):
            return send(key, payload)

        self.call = call
        DBOS.launch()

    def start(self, key, payload):
        self.gate.set()
        try:
            with SetWorkflowID(key):
                handle = DBOS.start_workflow(self.call, key, payload)
            status = self.wait(key)
            if status == "CANCELLED":
                raise Denied(status)
            if status in {"PENDING", "ENQUEUED"}:
                raise Pending(status)
            return handle.get_result()
        finally:
            self.gate.clear()

    def wait(self, key):
        began = time.monotonic()
        while (told := DBOS.get_workflow_status(key)).status in {"PENDING", "ENQUEUED"}:
            is_ours = told.status == "ENQUEUED" or told.executor_id == self.executor
            if time.monotonic() - began > PATIENCE[is_ours]:
                break
            time.sleep(0.02)
        return told.status

    def recover(self):
        self.gate.set()
        for told in DBOS.list_workflows(status=["PENDING", "ENQUEUED"]):
            self.wait(told.workflow_id)
        self.gate.clear()

    def cancel(self, key):
        DBOS.cancel_workflow(key)

    def observe(self, key):
        told = DBOS.get_workflow_status(key)
        return {"status": told.status, "output": told.output, "executor": told.executor_id}


serve(Dbos)
