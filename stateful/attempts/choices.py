"""Every way through the questions of a run: depth first, by running it again from the start."""

from __future__ import annotations

from collections.abc import Callable


class Choices:
    """Answers a run's questions, each with the number of an option, so that all ways are gone once.

    ``advance`` after each run; it says whether there is another way. A run must ask the same after the same answers.
    """

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []
        self._at = 0

    def __call__(self, options: int) -> int:
        """The number of one of so many options."""
        assert options > 0
        if self._at == len(self._path):
            self._path.append((0, options))
        chosen, before = self._path[self._at]
        assert before == options, "a run asks otherwise than it did after the same answers"
        self._at += 1
        return chosen

    def advance(self) -> bool:
        """Turn to the next way; False if there is none."""
        del self._path[self._at :]
        while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
            self._path.pop()
        if not self._path:
            return False
        chosen, options = self._path[-1]
        self._path[-1] = (chosen + 1, options)
        self._at = 0
        return True


Choose = Callable[[int], int]
