"""The attempt runner: takes one operation to its end over attempts, back-off, deadline and cancellation.

- ``policy``: ``Policy``, how long an attempt may take and how long to wait between two;
- ``runner``: ``OperationRunner``, from the claim to the end, over ``attempting``, one attempt, and ``leasing``, the lease
  and its heartbeat; ``run``: what one run knows; ``needs``: what a runner is given; ``ending``: ``Ending``, what became
  of an operation.

What is counted, and whether an attempt may start, stands in the ledger: the runner asks it before each send, and so
keeps its promises across restarts. It may import the protocol and the attempts of ``impl``, never the ledger itself.
"""

from impl.runner.ending import Ending, Standing
from impl.runner.policy import Draws, Policy, PolicyError
from impl.runner.runner import AlreadyRunningError, OperationRunner

__all__ = ["AlreadyRunningError", "Draws", "Ending", "OperationRunner", "Policy", "PolicyError", "Standing"]
