"""A finding's folder: the trace, the story, and the stores as the failure order left them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from attrs import frozen

from stateful.order import Rig
from stateful.story import Story, tell
from stateful.subject import Subject, load_subject
from stateful.trace import Trace


@frozen
class Kept:
    """A finding that was told and, where that was possible, kept in a folder; ``trouble`` says why it was not."""

    story: Story
    folder: Path | None
    trouble: str = ""

    @property
    def replay(self) -> str:
        """The command that replays it."""
        return f"survives replay {self.folder / 'trace.json'}" if self.folder else "survives replay FILE"


def told_again(trace: Trace, subject: Subject | None = None) -> Story:
    """Replay a trace on real files and tell what happened."""
    chosen = subject or load_subject(trace.subject, trace.mistake)
    with Rig(chosen, trace.contracts, in_memory=False, workers=trace.workers, keys=trace.keys) as rig:
        return tell(rig, trace)


def keep(trace: Trace, subject: Subject, out: Path) -> Kept:
    """Replay a trace, and write trace, story and stores into a folder of its own below ``out``.

    A folder that cannot be written loses no finding: the story comes back all the same, with the trouble.
    """
    name = hashlib.sha256(json.dumps(trace.to_json(), sort_keys=True).encode()).hexdigest()[:8]
    folder = out / f"{trace.expect}-{name}"
    with Rig(subject, trace.contracts, in_memory=False, workers=trace.workers, keys=trace.keys) as rig:
        story = tell(rig, trace)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            trace.write(folder / "trace.json")
            (folder / "story.txt").write_text(story.text() + "\n", "utf-8")
            for relative, data in rig.medium.snapshot().items():
                target = folder / "stores" / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        except OSError as error:
            reason = f"the finding cannot be kept in {folder}: {error.strerror or error}"
            return Kept(story, None, f"{reason}; choose another folder with --out. The trace itself follows.")
    return Kept(story, folder)
