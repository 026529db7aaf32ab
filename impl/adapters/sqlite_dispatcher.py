"""This project's own dispatcher through the protocol: a control, whose verdict must be the one that it gets in process.

survives check -- python impl/adapters/sqlite_dispatcher.py [MISTAKE]
"""

import base64
import sqlite3
import sys
from pathlib import Path

from survives_steps import Steps, serve_steps

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from impl.mistakes import seeded
from impl.protocol import (
    Answer,
    Decision,
    NoAnswerError,
    Overdue,
    Permit,
    Request,
    SinkAnswer,
    Site,
    StoppedError,
    Verdict,
)
from impl.sqlite import RealFiles, SqliteDispatcher
from model.contracts import Limits, contracts_from
from model.words import Kind

MISTAKE = sys.argv[1] if len(sys.argv) > 1 else ""


class Sink:
    """The suite's sink, behind the wire."""

    def __init__(self, steps):
        self.steps = steps

    def apply(self, request):
        return self._told(self.steps.apply(request.key, request.payload, request.token, request.not_after_ms))

    def lookup(self, key, payload, token):
        return self._told(self.steps.lookup(key, payload, token))

    @staticmethod
    def _told(message):
        if "said" not in message:
            raise NoAnswerError(message["no_answer"])
        said = message["said"]
        return SinkAnswer(Verdict(said["verdict"]), said["receipt"], said["retry_after_ms"])


class Control(Steps):
    """The SQLite dispatcher."""

    name, version = "survives' SQLite dispatcher", "1"
    capabilities = sorted(SqliteDispatcher.capabilities)
    stopped = StoppedError

    def made(self, name, raw):
        if name == "answer":
            return Answer(**{**raw, "kind": Kind(raw["kind"])})
        if name == "permit":
            return Permit(Request(**raw))
        return {"decision": Decision, "overdue": Overdue}[name](**raw)

    def open(self):
        settings = self.settings
        make = seeded(MISTAKE) if MISTAKE else SqliteDispatcher
        limits = {**settings["limits"], "approvers": tuple(settings["limits"]["approvers"])}
        keys = {name: base64.b64decode(key) for name, key in settings["approver_keys"].items()}
        return make(
            Site(
                folder=self.folder,
                worker=self.worker,
                contracts=contracts_from(settings["contracts"]),
                limits=Limits(**limits),
                clock=self.clock,
                files=RealFiles(),
                sink=Sink(self),
                connect=lambda path: sqlite3.connect(path, isolation_level=None),
                approver_keys=keys,
                lease_ms=settings["lease_ms"],
                live_settings=settings["live_settings"],
            )
        )


serve_steps(Control)
