"""Mistakes that only a power cut shows: a file or a name that was not synced, a file that was not replaced.

A process that is killed loses nothing that it wrote, so that an engine which only kills passes all of them.
"""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.sqlite import CheckpointFile


@mistake(
    "M131",
    "K23",
    "The checkpoint's draft takes the file's name without having been synced.",
    breaks="ack-durable",
    shown_by="power",
)
class DraftNotSynced(CheckpointFile):
    """The name is there after a power cut, and what it names is torn or empty."""

    def _replace(self, data: bytes) -> None:
        self._files.write_new(self._draft, data)
        self._files.rename(self._draft, self.path)


@mistake(
    "M206",
    "K23",
    "The checkpoint's folder is not synced after the draft has taken the file's name.",
    breaks="ack-durable",
    shown_by="power",
)
class FolderNotSynced(CheckpointFile):
    """What was acknowledged is in a file that has no name after a power cut."""

    def _is_kept(self) -> bool:
        return True


@mistake(
    "M207",
    "K23",
    "The checkpoint is written in place.",
    breaks="ack-durable",
    shown_by="power",
)
class WrittenInPlace(CheckpointFile):
    """Halfway through there is neither the old one nor the new one."""

    def _replace(self, data: bytes) -> None:
        self._files.write_new(self.path, data)
        self._files.sync(self.path)
