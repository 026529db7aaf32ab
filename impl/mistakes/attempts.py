"""Mistakes of retrying: how often, after what, and until when."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Answer
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from impl.sqlite.rules import Operation
from model.words import IN_FLIGHT


@mistake(
    "M028",
    "K14",
    "An attempt that was lost is counted when it starts and again when it is found to be lost.",
    breaks="bounded-attempts",
)
class DeathCountedTwice(Ledger):
    """One death uses up two attempts."""

    DOUBT = "UPDATE intents SET state = 'unknown', in_doubt = 1, attempts = attempts + 1 WHERE key = ?"


@mistake("M075", "K12", "A passing error of the sink is kept as the final answer.", breaks="conforms")
class PassingErrorIsFinal(Ledger):
    """A busy minute of the sink ends an intent for good."""

    def _is_final(self, answer: Answer) -> bool:
        return answer.reason == "transient" or super()._is_final(answer)


@mistake(
    "M098",
    "K14",
    "An attempt is counted when its outcome is recorded, so that one which ends in a crash never counts.",
    breaks="bounded-attempts",
)
class CountedAfterTheRun(Ledger):
    """What crashes its worker is tried for ever."""

    def _attempts_counted(self, entry: Entry) -> int:
        return entry.attempts if entry.state in IN_FLIGHT else entry.attempts + 1


@mistake("M099", "K14", "The number of attempts is off by one.", breaks="bounded-attempts")
class OneAttemptTooMany(Ledger):
    """The limit is compared with the attempts that were, and not with those that will have been."""

    def _has_attempts_left(self, entry: Entry) -> bool:
        return entry.attempts <= self.limits.max_attempts


@mistake("M100", "K14", "A permanent error is retried.", breaks="bounded-attempts")
class PermanentErrorRetried(Ledger):
    """No is taken for not yet."""

    def _is_final(self, answer: Answer) -> bool:
        return False


@mistake(
    "M103",
    "K15",
    "An attempt that follows another is not held against the deadline, which was looked at before the back-off.",
    breaks="deadline-kept",
)
class RetryPastDeadline(Ledger):
    """A back-off sleeps past the deadline, and then tries once more."""

    def _is_past_deadline(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        retries = operation == "dispatch" and entry.attempts > 0
        return not retries and super()._is_past_deadline(entry, now_ms, operation)


@mistake(
    "M104",
    "K15",
    "The deadline is reckoned from the claim at hand, so that it starts anew whenever the work is resumed.",
    breaks="deadline-kept",
)
class DeadlineStartsAtClaim(Ledger):
    """Whoever restarts often enough is never late."""

    def _is_past_deadline(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        if operation != "dispatch":
            return super()._is_past_deadline(entry, now_ms, operation)
        claimed_ms = entry.lease_expiry_ms - self.site.lease_ms
        return now_ms >= claimed_ms + self.limits.deadline_ms


@mistake(
    "M105",
    "K15",
    "The deadline is not looked at again between the authorisation and the effect.",
    breaks="deadline-kept",
)
class DeadlineNotSent(Ledger):
    """A send that is frozen on its way is as good the day after."""

    def _not_after_ms(self, entry: Entry) -> int | None:
        return None
