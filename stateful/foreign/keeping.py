"""Where the findings of an examination go: a folder a violation, with its trace and its story."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from stateful.foreign.examine import Examined, Violation
from stateful.foreign.trace import ForeignTrace

NAME_MAX = 60


def keep(examined: Examined, words: tuple[str, ...], out: Path) -> dict[str, str]:
    """Write each violation down; claim -> the trace's file. Raises OSError if that cannot be."""
    hello, kept = examined.hello, dict[str, str]()
    for row in examined.rows:
        if row.violation is None or hello is None:
            continue
        trace = ForeignTrace(words, hello.system, hello.system_version, row.claim_id, row.violation.order)
        name = hashlib.sha256(json.dumps(trace.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        folder = out / f"{_as_file_name(hello.system)}-{row.claim_id}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        trace.write(folder / "trace.json")
        (folder / "story.txt").write_text(story(row.claim_id, row.violation), "utf-8")
        kept[row.claim_id] = str(folder / "trace.json")
    return kept


def _as_file_name(system: str) -> str:
    """A system's name, fit to be a part of a folder's."""
    return re.sub(r"[^\w.+-]+", "-", system).strip("-.")[:NAME_MAX] or "system"


def story(claim_id: str, violation: Violation) -> str:
    """A violation, a line a step."""
    lines = [f"{claim_id}: {violation.detail}"]
    for number, line in enumerate(violation.lines, start=1):
        rest = "at rest, " if line.is_rest else ""
        lines.append(f"  {rest}{number}  {line.label}: {line.outcome}")
    return "\n".join([*lines, f"  seen again {violation.again} times", ""])
