"""The kills engine against bare kills. It runs in an interpreter of its own: a fork costs what its parent has loaded."""

from __future__ import annotations

import gc
import itertools
import json
import subprocess
import sys

from benchmarks import floor
from benchmarks.rows import Row, by_turns, rate_of

EVERY = 4
"""One target in so many of the catalogue is swept."""
SEED = 1


def rows() -> list[Row]:
    """Kills a second, against bare kills from the same process and from one that has loaded next to nothing."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.kills"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the kills benchmark ended with status {done.returncode}:\n{done.stderr}")
    return [Row.from_json(row) for row in json.loads(done.stdout)]


def _measured() -> list[Row]:
    from model.contracts import Contracts
    from stateful.children import KillingGate
    from stateful.engines import kills
    from stateful.engines.catalogue import Target
    from stateful.order import Rig
    from stateful.subject import load_subject
    from stateful.verdict import Tally

    class KilledOnly(kills.Sweeper):
        """Sweeps deaths and no freezes."""

        def sweep(self, target: Target) -> None:
            if self._lead_up(target):
                self._each_boundary(target, KillingGate, self._killed)

    with Rig(load_subject(), Contracts(), in_memory=False, across_processes=True) as rig:
        catalogue = kills.catalogue(rig, SEED)

        def sweep() -> int:
            tally = Tally(kills.NAME)
            sweeper = KilledOnly(rig, tally)
            for target in itertools.islice(catalogue, 0, None, EVERY):
                sweeper.sweep(target)
            return sum(tally.boundaries.values())

        gc.collect()
        gc.freeze()  # as the engine's own shards do: a fork copies the pages that the collector writes to
        root = str(rig.medium.folder.parent)
        ours, loaded, small = by_turns(
            lambda: rate_of(sweep), lambda: floor.kill_rate(root), lambda: _in_a_small_process(root)
        )
    assert "hypothesis" not in sys.modules
    return [
        Row("kills", "bare kills, same process", "kills/s", ours, loaded, 0.5),
        Row("kills", "bare kills, small process", "kills/s", ours, small, 0.5),
    ]


def _in_a_small_process(root: str) -> float:
    command = [sys.executable, "-I", floor.__file__, root]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - our own


if __name__ == "__main__":
    print(json.dumps([row.to_json() for row in _measured()]))
