"""Mistakes of the send: how many requests go out for one authorisation, under which key, and when."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Answer, NoAnswerError, Permit
from impl.sqlite import Ledger, SqliteDispatcher
from impl.sqlite.rows import Entry
from model.words import Kind


@mistake(
    "M040", "K05", "The key under which an effect is sent is made anew for each attempt.", breaks="effect-has-intent"
)
class KeyPerAttempt(Ledger):
    """The sink cannot see that two requests are one wish."""

    def _sink_key(self, entry: Entry) -> str:
        return f"{entry.key}#{entry.attempts + 1}"


@mistake(
    "M047",
    "K06",
    "The effect is sent inside the transaction that authorises it, before that is committed.",
    breaks="valid-approval",
)
class SentBeforeCommit(SqliteDispatcher):
    """A rollback takes back the record, and not the effect."""

    def dispatch(self, key: str, token: int) -> Answer:
        """Authorise and apply in one transaction of the ledger."""

        def both(now_ms: int) -> Answer:
            permit = self.ledger._authorise(now_ms, key, token)  # noqa: SLF001 - the mistake is made inside
            return permit if isinstance(permit, Answer) else self.apply(permit)

        return self.ledger._operate(both)  # noqa: SLF001 - the mistake is made inside


@mistake("M056", "K07", "The checkpoint is written before the sink has answered.", breaks="true-completion")
class CheckpointBeforeAnswer(SqliteDispatcher):
    """The worker's record runs ahead of its effect."""

    def dispatch(self, key: str, token: int) -> Answer:
        """Authorise, write the checkpoint, and apply."""
        permit = self.authorise(key, token)
        if isinstance(permit, Answer):
            return permit
        self.checkpoint(key, token, "")
        return self.apply(permit)


@mistake(
    "M096",
    "K14",
    "The transport repeats a request that got no answer, unknown to whoever counts the attempts.",
    breaks="bounded-attempts",
)
class TransportRepeats(SqliteDispatcher):
    """A read timeout is handled where nobody sees it."""

    def apply(self, permit: Permit) -> Answer:
        """Send, and send again after a silence."""
        try:
            return self.understood(self.site.sink.apply(permit.request))
        except NoAnswerError:
            return super().apply(permit)


@mistake("M097", "K14", "Two layers retry, each with a budget of its own.", breaks="bounded-attempts")
class TwoLayersRetry(SqliteDispatcher):
    """Three attempts of three sends are nine sends."""

    def apply(self, permit: Permit) -> Answer:
        """Send up to three times."""
        answer = super().apply(permit)
        for _ in range(2):
            if answer != Answer(Kind.ERROR, "transient"):
                break
            answer = super().apply(permit)
        return answer
