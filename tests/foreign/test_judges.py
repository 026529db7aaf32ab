"""Each judge on facts made by hand: where its claim holds, where it is broken, and where it is not at stake."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from model.claims import CLAIMS, Ability, all_claimed
from stateful.foreign.adapter import Hello
from stateful.foreign.facts import Call, Entry, Facts, Send
from stateful.foreign.judges import JUDGES, judged, stuck
from stateful.foreign.order import Do, Order

NOT_AT_STAKE = None
HELD = ""


def facts_of(script: str, name: str = "an order") -> Facts:
    """Facts from a script: ``w1 start k1 p1; w1 enters; w1 sends; w1 done r1``, each a line of ``;``-separated words."""
    facts, under_way, is_rest = Facts(Order(name, ())), {}, False
    for line in filter(None, (part.strip() for part in script.replace("\n", ";").split(";"))):
        words = line.split()
        if line == "rest":
            is_rest = True
        elif line == "expired":
            facts.expired_at = facts.tick()
        elif words[1] in set(Do):
            under_way[words[0]] = _begun(facts, words, is_rest)
        else:
            _goes_on(facts, under_way[words[0]], words[1:], is_rest)
    return facts


def _begun(facts: Facts, words: list[str], is_rest: bool) -> Call:
    worker, do, *rest = words
    key, payload, choice = (*rest, "", "", "")[:3]
    call = Call(facts.tick(), Do(do), int(worker[1:]), int(key[1:] or 0), payload, choice, is_rest)
    facts.calls.append(call)
    return call


def _goes_on(facts: Facts, call: Call, words: list[str], is_rest: bool) -> None:
    """It enters (``k2 p2``), sends (``under ID``), dies (where), or is told (outcome, result)."""
    what, *rest = words
    if what == "enters":
        key, payload = rest or (f"k{call.key}", call.payload)
        call.last_entry = facts.tick()
        facts.entries.append(Entry(call.last_entry, call.worker, int(key[1:]), payload))
    elif what == "sends":
        entry, effect_id = facts.entries[-1], rest[-1] if rest else ""
        receipt = f"r{len(facts.sends) + 1}"
        facts.sends.append(Send(facts.tick(), call.worker, entry.key, entry.payload, effect_id, receipt, is_rest))
    elif what == "died":
        call.died = " ".join(rest)
        facts.tick()
    else:
        call.outcome, call.told_at, call.result = what, facts.tick(), rest[0] if rest else None


@frozen
class Case:
    """A run, and what is found: None, "" or the beginning of what is wrong."""

    finding: str | None
    script: str
    choice: str = ""
    limit: int = 0
    also: tuple[dict[str, Any], ...] = ()
    """Other claims of the same system."""
    order: str = "an order"
    excludes: tuple[str, ...] = ()


SENT = "w1 start k1 p1; w1 enters; w1 sends; w1 done r1"
AGAIN = SENT + "; w9 start k1 p1; w9 enters; w9 sends; w9 done r2"
OTHER = SENT + "; w1 start k1 p2"
LOST = "w1 start k1 p1; w1 enters; w1 sends; w1 died after the send"
UNDER = (
    "w1 start k1 p1; w1 enters; w1 sends under A; w1 died after the send; w9 start k1 p1; w9 enters; w9 sends under"
)
PAUSE = "pause: frozen"
PART = ({"id": "changed-payload", "choice": "part-of-key"},)
TWO = "w1 start k1 p1; w1 enters; w2 start k1 p1"
ASKED = "w1 start k1 p1; w1 pending"
GRANTED = ASKED + "; w1 decide k1 p1 grant; w1 enters k1 p1; w1 sends; w1 done r1"
OVERTAKEN = "w1 start k1 p1; w1 enters; w2 start k1 p1; w2 enters; w2 sends; w2 done r1; "

CASES = {
    "at-most-once": [
        Case(HELD, SENT),
        Case(
            HELD, "w1 start k1 p1; w1 enters; w1 died before the send; w9 start k1 p1; w9 enters; w9 sends; w9 done"
        ),
        Case("k1 was sent 2 times: by w1, by w9", AGAIN),
        Case("k1 was sent 2 times", OTHER + "; w1 enters; w1 sends; w1 done r2"),
        Case(HELD, OTHER + "; w1 enters; w1 sends; w1 done r2", also=PART),
        Case(HELD, SENT + "; w1 start k2 p1; w1 enters; w1 sends; w1 done r2"),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 refused"),
        Case(NOT_AT_STAKE, AGAIN, order=PAUSE, excludes=("pause",)),
    ],
    "effect-kept": [
        Case(HELD, SENT),
        Case("k1 was accepted and never sent; the last call was told pending", ASKED),
        Case(
            "k1 was accepted and never sent; the last call was told refused", ASKED + "; w9 start k1 p1; w9 refused"
        ),
        Case("k1 with p2 was accepted and never sent", OTHER + "; w1 pending", also=PART),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 refused"),
        Case(NOT_AT_STAKE, ASKED + "; w9 start k1 p1; w9 unknown"),
        Case(NOT_AT_STAKE, ASKED + "; w1 cancel k1; w1 done"),
    ],
    "stable-id": [
        Case(HELD, UNDER + " A; w9 done r1"),
        Case("k1 was sent under 2 ids: A, B", UNDER + " B; w9 done r2"),
        Case("k1 was sent without an id", SENT),
        Case(
            "k1 and k2 were sent under one id, A",
            "w1 start k1 p1; w1 enters; w1 sends under A; w1 done; w1 start k2 p1; w1 enters; w1 sends under A; w1 done",
        ),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 enters; w1 died before the send"),
    ],
    "exactly-once-deduplicated": [
        Case(HELD, UNDER + " A; w9 done r1"),
        Case("k1 has 2 effects at a sink that deduplicates", UNDER + " B; w9 done r2"),
        Case("k1 has 2 effects at a sink that deduplicates", AGAIN),
        Case(
            "k2 has no effect at a sink that deduplicates: it was sent under the id of k1",
            "w1 start k1 p1; w1 enters; w1 sends under A; w1 done; w1 start k2 p1; w1 enters; w1 sends under A; w1 done",
        ),
        Case("k1 was accepted and never sent", ASKED),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 refused"),
    ],
    "in-doubt": [
        Case(HELD, LOST + "; w9 start k1 p1; w9 unknown"),
        Case(HELD, LOST + "; w9 start k1 p1; w9 pending"),
        Case(
            "k1 entered its effect again after a death in the middle of it, and was sent 2 times",
            LOST + "; w9 start k1 p1; w9 enters; w9 sends; w9 done r2",
        ),
        Case("k1 was told done although nobody can know: r1", LOST + "; w9 start k1 p1; w9 done r1"),
        Case("k1 was told failed although nobody can know", LOST + "; w9 start k1 p1; w9 failed"),
        Case(
            "k1 entered its effect again after a death",
            ASKED
            + "; w1 recover; w1 enters k1 p1; w1 sends; w1 died after the send; w9 recover; w9 enters k1 p1; w9 done",
        ),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 pending; w1 start k2 p1; w1 pending; w1 recover; w1 died by a kill"),
        Case(NOT_AT_STAKE, SENT),
        Case(NOT_AT_STAKE, LOST + "; w9 reconcile k1; w9 done; w9 start k1 p1; w9 done r1"),
    ],
    "first-result": [
        Case(HELD, SENT + "; w9 start k1 p1; w9 done r1"),
        Case("k1 was told done 'r1', and then done 'r2'", SENT + "; w9 start k1 p1; w9 done r2"),
        Case("k1 was told done 'r1', and then unknown None", SENT + "; w9 start k1 p1; w9 unknown"),
        Case("k1 was sent again after it was told done", SENT + "; w9 start k1 p1; w9 enters; w9 sends; w9 done r1"),
        Case(HELD, TWO + "; w1 sends; w1 done r1; w2 refused; w9 start k1 p1; w9 done r1"),
        Case(NOT_AT_STAKE, SENT),
        Case(NOT_AT_STAKE, SENT + "; w9 start k1 p1; w9 done r2", order=PAUSE),
    ],
    "true-completion": [
        Case(HELD, SENT),
        Case(HELD, LOST + "; w9 start k1 p1; w9 done r1"),
        Case("k1 was told done, and the sink has seen nothing of it", "w1 start k1 p1; w1 done r1"),
        Case(
            "k1 was told done, and the sink has seen nothing of it",
            "w1 start k1 p1; w1 done; w1 start k1 p1; w1 enters; w1 sends; w1 done",
        ),
        Case(HELD, OTHER + "; w1 done r1"),
        Case(
            "k1 with p2 was told done, and the sink has seen nothing of it",
            OTHER + "; w1 done r1",
            also=({"id": "changed-payload", "choice": "refused"},),
        ),
        Case(HELD, OTHER + "; w1 done r1", also=({"id": "changed-payload", "choice": "replayed"},)),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 enters; w1 sends; w1 pending"),
    ],
    "changed-payload": [
        Case(HELD, OTHER + "; w1 refused", choice="refused"),
        Case("k1 with p2 instead of p1 was not refused: it was told done 'r1'", OTHER + "; w1 done r1", "refused"),
        Case("k1 with p2 instead of p1 was sent", OTHER + "; w1 enters; w1 sends; w1 refused", "refused"),
        Case("k1 with p2 instead of p1 was not refused", LOST + "; w9 start k1 p2; w9 pending", "refused"),
        Case(NOT_AT_STAKE, SENT, choice="refused"),
        Case(NOT_AT_STAKE, OTHER + "; w1 done r1", choice="refused", excludes=("ended",)),
        Case(HELD, OTHER + "; w1 done r1", choice="replayed"),
        Case(
            "k1 with p2 instead of p1 was told done 'r2', and not the first result",
            OTHER + "; w1 done r2",
            "replayed",
        ),
        Case("k1 with p2 instead of p1 was told refused None, and not the first", OTHER + "; w1 refused", "replayed"),
        Case(NOT_AT_STAKE, "w1 start k1 p1; w1 refused; w1 start k1 p2; w1 done", choice="replayed"),
        Case(
            HELD,
            "w1 start k1 p1; w1 enters; w2 start k1 p2; w1 sends; w1 done r1; w2 refused; w9 start k1 p2; w9 done r1",
            choice="replayed",
        ),
        Case(HELD, OTHER + "; w1 enters; w1 sends; w1 done r2", choice="part-of-key"),
        Case("k1 with p2 instead of p1 was told done , and not sent", OTHER + "; w1 done r1", choice="part-of-key"),
        Case("k1 with p2 instead of p1 was told refused", OTHER + "; w1 refused", choice="part-of-key"),
        Case(NOT_AT_STAKE, SENT, choice="part-of-key"),
    ],
    "one-at-a-time": [
        Case(HELD, TWO + "; w2 pending; w1 sends; w1 done r1"),
        Case("w2 entered the effect of k1 while w1 was in it", TWO + "; w2 enters; w1 sends; w1 done r1"),
        Case(
            "k1 was sent 2 times: by w1, by w2",
            TWO + "; w1 sends; w1 done r1; w2 enters; w2 sends; w2 done r2",
        ),
        Case(NOT_AT_STAKE, TWO.replace("w2 start k1", "w2 start k2") + "; w2 enters; w1 sends; w1 done r1"),
        Case(
            NOT_AT_STAKE,
            TWO.replace("w2 start k1 p1", "w2 start k1 p2") + "; w2 enters; w1 sends; w1 done",
            also=PART,
        ),
        Case(NOT_AT_STAKE, TWO + "; w2 enters; w1 sends; w1 done r1", order=PAUSE),
        Case(NOT_AT_STAKE, SENT + "; w2 start k1 p1; w2 done r1"),
        Case(NOT_AT_STAKE, SENT),
    ],
    "late-owner": [
        Case(HELD, OVERTAKEN + "w1 sends; w1 refused; w9 start k1 p1; w9 done r1", order=PAUSE),
        Case(HELD, OVERTAKEN + "w1 sends; w1 done r1", order=PAUSE),
        Case("k1 was told done 'r1' by w2, and then 'r2' by w1", OVERTAKEN + "w1 sends; w1 done r2", order=PAUSE),
        Case(
            "k1 was told done 'r1' by w2, and then 'r2' by w9",
            OVERTAKEN + "w1 sends; w1 refused; w9 start k1 p1; w9 done r2",
            order=PAUSE,
        ),
        Case(NOT_AT_STAKE, SENT, order=PAUSE),
        Case(NOT_AT_STAKE, OVERTAKEN + "w1 sends; w1 done r2"),
    ],
    "approval-needed": [
        Case(HELD, ASKED),
        Case(HELD, GRANTED),
        Case("k1 was sent before anybody had granted it", SENT),
        Case(
            "k2 was sent before anybody had granted it", GRANTED + "; w1 start k2 p1; w1 enters; w1 sends; w1 done r2"
        ),
        Case(
            "k1 was sent although it had been denied",
            ASKED + "; w1 decide k1 p1 deny; w1 done; w1 decide k1 p1 grant; w1 enters k1 p1; w1 sends; w1 done",
        ),
        Case(HELD, GRANTED + "; w1 decide k1 p1 deny; w1 done; w1 start k1 p1; w1 enters"),
        Case(NOT_AT_STAKE, "w1 recover; w1 done"),
    ],
    "approval-payload": [
        Case(HELD, ASKED + "; w1 decide k1 p2 grant; w1 refused"),
        Case(
            "k1 was sent with p1: only p2 was granted",
            ASKED + "; w1 decide k1 p2 grant; w1 enters k1 p1; w1 sends; w1 done r1",
        ),
        Case(NOT_AT_STAKE, GRANTED),
        Case(NOT_AT_STAKE, SENT),
    ],
    "approval-expires": [
        Case(HELD, ASKED + "; expired; w1 decide k1 p1 grant; w1 refused"),
        Case(
            "k1 was sent after its approval had expired", ASKED + "; expired; w1 decide k1 p1 grant; w1 enters k1 p1"
        ),
        Case(NOT_AT_STAKE, GRANTED),
    ],
    "approval-once": [
        Case(HELD, GRANTED + "; w1 decide k1 p1 grant; w1 refused"),
        Case(
            "k1 was sent 2 times: by w1, by w2",
            GRANTED + "; w2 decide k1 p1 grant; w2 enters k1 p1; w2 sends; w2 done",
        ),
        Case(NOT_AT_STAKE, GRANTED),
        Case(NOT_AT_STAKE, AGAIN),
    ],
    "retry-budget": [
        Case(
            HELD,
            "w1 start k1 p1; w1 enters; w1 died; w1 start k1 p1; w1 enters; w1 died; w1 start k1 p1; w1 denied",
            limit=2,
        ),
        Case("k1 was attempted 2 times; 1 were promised", AGAIN, limit=1),
        Case(HELD, OTHER + "; w1 enters; w1 done", limit=1, also=PART),
        Case(NOT_AT_STAKE, SENT, limit=2),
    ],
    "cancel-honoured": [
        Case(HELD, ASKED + "; w1 cancel k1; w1 done; w9 start k1 p1; w9 denied"),
        Case(HELD, GRANTED + "; w1 cancel k1; w1 done"),
        Case(
            "k1 was sent after its cancellation was acknowledged",
            ASKED + "; w1 cancel k1; w1 done; w9 start k1 p1; w9 enters; w9 sends; w9 done",
        ),
        Case(HELD, ASKED + "; w1 cancel k1; w1 done; w9 start k2 p1; w9 enters; w9 sends; w9 done"),
        Case(NOT_AT_STAKE, SENT),
        Case(NOT_AT_STAKE, ASKED + "; w1 cancel k1; w1 refused; w9 start k1 p1; w9 enters; w9 sends; w9 done"),
    ],
    "progress": [
        Case(HELD, SENT, choice="alone"),
        Case("k1 does not come to an end: the last call was told pending", ASKED, choice="alone"),
        Case(
            "k1 does not come to an end: the last call was told refused",
            SENT + "; w9 start k1 p1; w9 refused",
            "alone",
        ),
        Case(
            "k1 does not come to an end: the last call was told unknown",
            LOST + "; w9 start k1 p1; w9 unknown",
            "alone",
        ),
        Case(HELD, LOST + "; w9 start k1 p1; w9 unknown", choice="operator"),
        Case(
            "k1 does not come to an end: the last call was told unknown",
            LOST + "; w9 start k1 p1; w9 unknown; w9 reconcile k1; w9 done; w9 start k1 p1; w9 unknown",
            choice="operator",
        ),
        Case(NOT_AT_STAKE, LOST, choice="alone"),
        Case(NOT_AT_STAKE, ASKED + "; w1 cancel k1; w1 done; w9 start k1 p1; w9 pending", choice="alone"),
        Case(NOT_AT_STAKE, ASKED + "; expired; w9 start k1 p1; w9 pending", choice="alone"),
    ],
}
ALL = [(claim, case) for claim, cases in CASES.items() for case in cases]


def found(claim_id: str, case: Case, *, trouble: str = "", abilities: tuple[Ability, ...] = ()) -> str | None:
    """What the judge finds."""
    raw: dict[str, Any] = {
        "id": claim_id,
        "choice": case.choice,
        "limit": case.limit,
        "excludes": list(case.excludes),
    }
    claims = all_claimed([raw, *case.also])
    hello = Hello("by hand", "", "call", frozenset(abilities), claims)
    claimed = hello.claimed(claim_id)
    assert claimed is not None
    facts = facts_of(case.script, case.order)
    facts.trouble = trouble
    return judged(facts, claimed, hello)


def test_each_claim_has_a_judge():
    """There is a judge for each claim, and no other."""
    assert list(CLAIMS) == list(JUDGES)


@pytest.mark.parametrize("claim_id", CLAIMS)
def test_each_way_has_a_case(claim_id):
    """Of each claim, in each of its choices, there is a case that holds, one that breaks it, and one not at stake."""
    for choice in CLAIMS[claim_id].choices or ("",):
        ways = {
            c.finding if c.finding in {HELD, NOT_AT_STAKE} else "violated"
            for c in CASES[claim_id]
            if c.choice == choice
        }
        missing = {HELD, NOT_AT_STAKE, "violated"} - ways

        assert (choice, set() if choice != "operator" else {NOT_AT_STAKE}) == (choice, missing)


@pytest.mark.parametrize(("claim_id", "case"), ALL, ids=[f"{c}-{n}" for n, (c, _) in enumerate(ALL)])
def test_a_judge_finds_what_there_is(claim_id, case):
    """A judge finds what was planted, and nothing else."""
    finding = found(claim_id, case)

    if case.finding:
        assert case.finding == (finding or "")[: len(case.finding)]
    else:
        assert case.finding == finding


@pytest.mark.parametrize("claim_id", CLAIMS)
def test_a_run_in_trouble_says_nothing(claim_id):
    """Nothing is held against a system of which a run ended in trouble."""
    broken = next(c for c in CASES[claim_id] if c.finding)

    assert NOT_AT_STAKE is found(claim_id, broken, trouble="line 3 is noise")


@pytest.mark.parametrize(
    ("words", "finding"),
    [
        ("", NOT_AT_STAKE),
        ("; w1 decide k1 p1 deny; w1 done", NOT_AT_STAKE),
        ("; w1 decide k1 p2 grant; w1 refused", NOT_AT_STAKE),
        ("; w1 decide k1 p1 grant; w1 refused", NOT_AT_STAKE),
        ("; w1 decide k1 p1 grant; w1 pending", "k1 does not come to an end"),
        ("; w1 decide k1 p1 grant; w1 done", "k1 does not come to an end"),
    ],
)
def test_what_waits_for_a_word_need_not_end(words, finding):
    """A call that needs an approver's word need not end before it is granted and the grant was heard."""
    case = Case(finding, ASKED + words + "; w9 start k1 p1; w9 pending", choice="alone")
    said = found("progress", case, abilities=(Ability.DECIDE,))

    assert finding == (said and said[: len(finding or "")])


def test_a_key_that_may_be_used_again_is_judged_by_nobody():
    """Where a key is free again once its call has ended, two payloads under it are not held to be one call."""
    free = ({"id": "changed-payload", "choice": "refused", "excludes": ["ended"]},)
    script = OTHER + "; w1 enters; w1 sends; w1 done r2"
    before = "w1 start k1 p1; w1 pending; w1 start k1 p2; w1 pending"

    assert HELD == found("at-most-once", Case(HELD, script, also=free))
    assert "k1 with p2 instead of p1 was not refused" in (
        found("changed-payload", Case("", before, choice="refused", excludes=("ended",))) or ""
    )


@pytest.mark.parametrize(("outcome", "is_stuck"), [("unknown", True), ("done r1", False), ("pending", False)])
def test_who_waits_for_an_operator_is_stuck(outcome, is_stuck):
    """A key whose last call was told that nobody knows waits for an operator."""
    assert is_stuck is stuck(facts_of(LOST + "; w9 start k1 p1; w9 " + outcome))
