# /// script
# requires-python = ">=3.10"
# ///
"""A liar, planted: it claims everything, keeps an honest journal, and sends again whenever it is not sure."""

import sqlite3

from survives_adapter import Claim, System, serve

WHERE = "this file's docstring"


class Liar(System):
    """Effect first, record second, and no question asked."""

    name, version = "liar", "1"
    claims = [
        Claim("at-most-once", "A key is sent once.", where=WHERE),
        Claim("effect-kept", "What was accepted is sent.", where=WHERE),
        Claim("true-completion", "Done means sent.", where=WHERE),
        Claim("first-result", "A repeated call returns the first result.", where=WHERE),
        Claim("changed-payload", "Another payload is refused.", choice="refused", where=WHERE),
        Claim("one-at-a-time", "Two workers send once.", where=WHERE),
        Claim("in-doubt", "After a crash it asks.", where=WHERE),
        Claim("progress", "Every call ends.", choice="alone", where=WHERE),
    ]

    def open(self):
        self.db = sqlite3.connect(self.folder / "journal.sqlite3", isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS journal (key TEXT PRIMARY KEY, result TEXT)")

    def start(self, key, payload):
        row = self.db.execute("SELECT result FROM journal WHERE key = ?", (key,)).fetchone()
        if row:
            return row[0]
        receipt = self.effect(key, payload)
        self.db.execute("INSERT OR IGNORE INTO journal VALUES (?, ?)", (key, receipt))
        return receipt

    def observe(self, key):
        row = self.db.execute("SELECT result FROM journal WHERE key = ?", (key,)).fetchone()
        return {"state": "done" if row else "absent", "sent": 1 if row else 0}


serve(Liar)
