"""The exhaustive explorer: searches over any transition system, and the model's own state space.

It may import the rest of ``model`` and must never know a clock, a meter or a file: time and memory end a search through
``Bounds.tick``, which its caller hands in.
"""

from model.search.bounds import ModelBounds
from model.search.breadth import search
from model.search.concrete import concrete
from model.search.faults import FaultSpace
from model.search.layout import SpaceTooLargeError
from model.search.liveness import eventually
from model.search.power import PowerSpace
from model.search.space import ModelEdge, ModelSpace
from model.search.symmetry import Symmetric, interchangeable, unsound
from model.search.system import Bounds, Edge, Progress, Result, System, Verdict

__all__ = [
    "Bounds",
    "Edge",
    "FaultSpace",
    "ModelBounds",
    "ModelEdge",
    "ModelSpace",
    "PowerSpace",
    "Progress",
    "Result",
    "SpaceTooLargeError",
    "Symmetric",
    "System",
    "Verdict",
    "concrete",
    "eventually",
    "interchangeable",
    "search",
    "unsound",
]
