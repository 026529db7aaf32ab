"""Standard programs: what two or three workers do at the same time, by name.

A pair has one operation of each of two workers, after a short order that gives each what it needs. A life is a longer
piece of a key's life. On two keys the workers do the same to a key each, or cross each other's way.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement

from attrs import evolve

from model.actions import ALPHABET, Action, Alphabet, Step
from model.words import Capability
from stateful.schedules.program import Program

PAIRED: dict[str, tuple[str, ...]] = {
    "claim": ("claim {w} {k}",),
    "renew": ("renew {w} {k}",),
    "dispatch": ("dispatch {w} {k} done",),
    "acknowledge": ("acknowledge {w} {k}",),
    "cancel": ("cancel {k}",),
    "reap": ("reap_read {w}", "reap_apply {w}"),
    "approve": ("revoke {k}", "approve {k} p1"),
}
"""The operations that are paired, as calls of worker ``w`` on key ``k``."""
_NEEDS_LEASE = frozenset({"renew", "dispatch", "acknowledge"})
_LIVES: dict[str, tuple[int, str, tuple[str, ...], str]] = {
    "life and rival": (
        1,
        "submit k1 p1; approve k1 p1",
        (
            "claim w1 k1; renew w1 k1; dispatch w1 k1 done; acknowledge w1 k1",
            "claim w2 k1; reap_read w2; reap_apply w2; cancel k1",
        ),
        "advance k1 lease",
    ),
    "two lives": (
        1,
        "submit k1 p1; approve k1 p1",
        (
            "claim w1 k1; dispatch w1 k1 done; acknowledge w1 k1",
            "claim w2 k1; reconcile w2 k1; dispatch w2 k1 done",
        ),
        "advance k1 lease",
    ),
    "recovery": (
        1,
        "submit k1 p1; approve k1 p1; claim w1 k1; dispatch w1 k1 silent; advance k1 lease",
        ("acknowledge w1 k1; reconcile w1 k1", "claim w2 k1; reconcile w2 k1; checkpoint w2 k1"),
        "",
    ),
    "same wish": (1, "", ("submit k1 p1; approve k1 p1; claim w1 k1", "submit k1 p2; cancel k1"), ""),
    "checkpoints": (
        1,
        "submit k1 p1; approve k1 p1; claim w1 k1; dispatch w1 k1 done",
        ("checkpoint w1 k1; acknowledge w1 k1", "claim w2 k1; reconcile w2 k1; checkpoint w2 k1"),
        "advance k1 lease",
    ),
    "release in time": (
        1,
        "submit k1 p1; approve k1 p1; claim w1 k1",
        ("release w1 k1", "claim w2 k1; dispatch w2 k1 done"),
        "advance k1 lease-1",
    ),
    "policy": (
        1,
        "submit k1 p1; approve k1 p1; claim w1 k1",
        ("dispatch w1 k1 done; acknowledge w1 k1", "bump_policy; approve k1 p1"),
        "advance k1 approval",
    ),
    "a key each": (
        2,
        "submit k1 p1; approve k1 p1; submit k2 p1; approve k2 p1",
        (
            "claim w1 k1; dispatch w1 k1 done; acknowledge w1 k1",
            "claim w2 k2; dispatch w2 k2 done; acknowledge w2 k2",
        ),
        "",
    ),
    "crossing": (
        2,
        "submit k1 p1; approve k1 p1; submit k2 p1; approve k2 p1",
        ("claim w1 k1; claim w1 k2", "claim w2 k2; claim w2 k1"),
        "advance k1 lease",
    ),
    "sweep of two keys": (
        2,
        "submit k1 p1; submit k2 p1; claim w1 k1; claim w1 k2; advance k1 lease",
        ("reap_read w1; reap_apply w1", "claim w2 k1; claim w2 k2"),
        "",
    ),
}
_OF_THREE: dict[str, tuple[int, str, tuple[str, ...], str]] = {
    "three claims": (1, "submit k1 p1; approve k1 p1", ("claim w1 k1", "claim w2 k1", "claim w3 k1"), ""),
    "three at one key": (
        1,
        "submit k1 p1; approve k1 p1; claim w1 k1",
        ("dispatch w1 k1 done; acknowledge w1 k1", "cancel k1", "reap_read w3; reap_apply w3; claim w3 k1"),
        "advance k1 lease",
    ),
}


def pairs(alphabet: Alphabet, keys: int) -> dict[str, Program]:
    """Every pair of operations: both workers on one key, or each on its own."""
    out = {}
    for one, other in combinations_with_replacement(PAIRED, 2):
        at = "k1" if keys == 1 else "k2"
        setup = [f"{verb} {key} p1" for key in dict.fromkeys(("k1", at)) for verb in ("submit", "approve")]
        needing = [(w, k, op) for w, k, op in (("w1", "k1", one), ("w2", at, other)) if op in _NEEDS_LEASE]
        for number, (worker, key, operation) in enumerate(needing):
            if number and key == "k1":  # the second owner takes over from the first
                setup.append("advance k1 lease")
            setup.append(f"claim {worker} {key}")
            if operation == "acknowledge":
                setup.append(f"dispatch {worker} {key} done")
        if not needing and "reap" in {one, other}:
            setup.append("claim w1 k1")
        lanes = [
            [call.format(w="w1", k="k1") for call in PAIRED[one]],
            [c.format(w="w2", k=at) for c in PAIRED[other]],
        ]
        out[f"{one} | {other}"] = _program(alphabet, setup, lanes, ["advance k1 lease"])
    return out


def lives(alphabet: Alphabet, workers: int, keys: int) -> dict[str, Program]:
    """The longer programs for so many workers and keys."""
    table = _LIVES if workers < 3 else _OF_THREE
    out = {}
    for name, (of_keys, setup, lanes, moves) in table.items():
        if of_keys == keys:
            calls = [_split(lane) for lane in lanes]
            out[name] = _program(alphabet, _split(setup), calls, _split(moves))
    return out


def programs(alphabet: Alphabet, keys: int, capabilities: frozenset[Capability]) -> dict[str, Program]:
    """All standard programs on so many keys that a subject with these capabilities has the parts for."""
    two = alphabet.workers < 3
    every = {**(pairs(alphabet, keys) if two else {}), **lives(alphabet, alphabet.workers, keys)}
    return {name: p for name, one in every.items() if (p := fitting(one, capabilities)) is not None}


def fitting(program: Program, capabilities: frozenset[Capability]) -> Program | None:
    """The program without what the subject has no part for; None if fewer than two lanes are left with calls."""

    def has(action: Action) -> bool:
        needs = ALPHABET[action.verb].needs
        return needs is None or needs in capabilities

    lanes = tuple(tuple(a for a in calls if has(a)) for calls in program.lanes)
    if sum(bool(calls) for calls in lanes) < 2:
        return None
    return evolve(program, lanes=lanes, setup=tuple(s for s in program.setup if has(s.action)))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _program(alphabet: Alphabet, setup: Iterable[str], lanes: list[list[str]], moves: Iterable[str]) -> Program:
    by = alphabet.by_label
    return Program(
        tuple(Step(by[label]) for label in setup),
        tuple(tuple(by[label] for label in lane) for lane in lanes),
        tuple(by[label] for label in moves),
    )
