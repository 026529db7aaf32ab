# /// script
# requires-python = ">=3.10"
# dependencies = []
# ///
"""A dispatcher of one table, behind the adapter protocol: the smallest system that keeps what it claims.

survives check examples/adapters/toy.py
"""

import sqlite3

from survives_adapter import Claim, InDoubt, Refused, System, serve


class Toy(System):
    """It writes down that it sends before it sends; what it finds half done, it does not touch."""

    name, version = "toy", "1.0"
    claims = [
        Claim("at-most-once", "A key is never sent twice.", where="this file"),
        Claim("in-doubt", "After a death in the middle of a send it says that it does not know.", where="this file"),
        Claim("first-result", "A repetition is told the first receipt.", where="this file"),
        Claim("true-completion", "Done is what the sink has answered.", where="this file"),
        Claim("changed-payload", "Another payload is refused.", choice="refused", where="this file"),
        Claim("one-at-a-time", "Two workers send once.", where="this file"),
        Claim("progress", "What is in doubt waits for an operator.", choice="operator", where="this file"),
    ]

    def open(self):
        self.db = sqlite3.connect(self.folder / "toy.sqlite3", isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, payload TEXT, receipt TEXT)")

    def start(self, key, payload):
        text = repr(sorted(payload.items()))
        mine = self.db.execute("INSERT OR IGNORE INTO calls VALUES (?, ?, NULL)", (key, text)).rowcount
        stored, receipt = self.db.execute("SELECT payload, receipt FROM calls WHERE key = ?", (key,)).fetchone()
        if stored != text:
            raise Refused("another payload holds this key")
        if not mine and receipt is None:
            raise InDoubt("it was begun, and nobody knows how it ended")
        return receipt or self.send(key, payload)

    def send(self, key, payload):
        receipt = self.effect(key, payload, id=key)
        self.db.execute("UPDATE calls SET receipt = ? WHERE key = ?", (receipt, key))
        return receipt


if __name__ == "__main__":
    serve(Toy)
