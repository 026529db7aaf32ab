# /// script
# requires-python = ">=3.10"
# dependencies = ["unhinged==0.2.0"]
# ///
"""unhinged: a task with one step, spawned under our key as its idempotency key, and a worker in the same process.

The effect gets the id that docs/durability.md advises: the task's id and the step's name. The clock is the engine's
own (``Engine.set_fake_now``), so that a lease runs out only where an order says so.
"""

from datetime import UTC, datetime, timedelta

from survives_adapter import Claim, Denied, Pending, System, serve
from unhinged import Unhinged

LEASE_SECONDS = 30
DURABILITY = "docs/durability.md, "


class UnhingedSystem(System):
    """One queue, a task with one step, and a worker that stops when it is idle."""

    name, version = "unhinged", "0.2.0"
    passes_id = True
    lease_ms = LEASE_SECONDS * 1000
    claims = [
        Claim("effect-kept", "A step runs at least once.", where=DURABILITY + "The window that always exists"),
        Claim("stable-id", "Task id and step name make a key.", where=DURABILITY + "The window that always exists"),
        Claim(
            "exactly-once-deduplicated",
            "A step may run twice; an effect made idempotent by the key from task and step is not doubled.",
            where=DURABILITY + "The window that always exists",
        ),
        Claim(
            "first-result",
            "A known idempotency key attaches to the one task, and a finished step returns its stored value.",
            where="unhinged/engine.py, Engine.spawn_task; examples/release/README.md",
        ),
        Claim(
            "true-completion", "A step is done once its result is stored.", where=DURABILITY + "What survives what"
        ),
        Claim(
            "changed-payload",
            "With a known idempotency key the existing task is returned.",
            choice="replayed",
            where="unhinged/engine.py, Engine.spawn_task",
        ),
        Claim("one-at-a-time", "No run is executed by two processes.", where="README.md, How it works"),
        Claim(
            "late-owner",
            "A checkpoint of a later attempt is never overwritten by an earlier one.",
            where="unhinged/engine.py, Engine.set_task_checkpoint_state",
        ),
        Claim("retry-budget", "A lost lease is a failed attempt.", limit=5, where=DURABILITY + "Retries"),
        Claim(
            "progress",
            "A dead worker's run is reclaimed.",
            choice="alone",
            where=DURABILITY + "Leases and long steps",
        ),
    ]

    def open(self):
        self.app = Unhinged(str(self.folder / "unhinged.db"), queue_name="calls")
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.advance(0)

        @self.app.register_task("call")
        def call(params, ctx):
            return ctx.step("send", lambda: self.effect(**params, id=f"{ctx.task_id}:send"))

    def start(self, key, payload):
        task = self.app.spawn("call", {"key": key, "payload": payload}, idempotency_key=key)
        self.handles.set(key, task["task_id"])
        self.recover()
        told = self.app.fetch_task_result(task["task_id"])
        if told.state == "completed":
            return told.result
        if told.state == "failed":
            raise RuntimeError(told.failure)
        raise (Denied if told.state == "cancelled" else Pending)(told.state)

    def recover(self):
        self.app.start_worker(worker_id=self.worker, claim_timeout=LEASE_SECONDS, stop_when_idle=True)

    def cancel(self, key):
        self.app.cancel_task(self.handles.get(key))

    def advance(self, ms):
        self.now += timedelta(milliseconds=ms)
        self.app.engine.set_fake_now(self.now)

    def observe(self, key):
        return vars(self.app.fetch_task_result(self.handles.get(key)))


serve(UnhingedSystem)
