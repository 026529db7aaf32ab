"""Which dispatcher is put to the test: found by ``module:Class``, checked before anything runs."""

from __future__ import annotations

import importlib
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from model.contracts import ApprovalGate, Contracts, Deadline, Fencing, Limits, contracts_from
from model.words import Capability
from stateful.clash import OUR_PACKAGES, shadow_in
from stateful.spoken import clean, raised, shown

DEFAULT_SUBJECT = "impl.sqlite:SqliteDispatcher"
NEEDED = ("submit", "claim", "dispatch", "acknowledge", "close")
"""What every dispatcher has; see ``impl.protocol.Dispatcher``."""
CAPABILITY_METHODS: dict[Capability, tuple[str, ...]] = {
    Capability.LEASES: ("renew", "release"),
    Capability.APPROVALS: ("decide", "set_policy"),
    Capability.CANCELLATION: ("cancel",),
    Capability.STALL: ("authorise", "apply"),
    Capability.CHECKPOINT: ("checkpoint",),
    Capability.RECONCILE: ("reconcile",),
    Capability.REAPING: ("overdue", "reap"),
}
IMPORT_SECONDS = 30
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class SubjectError(ValueError):
    """The subject cannot be tested: the message says which, why, and what to do."""


@frozen
class Subject:
    """A dispatcher class, and the seeded mistake that was put into it, if any."""

    name: str
    mistake: str
    make: Any = field(repr=False)
    capabilities: frozenset[Capability]
    is_remote: bool = False
    """Whether its processes are real ones, of a program that speaks the adapter protocol."""
    permits: int | None = None
    """How many permits its mistake takes to show, if it takes a limit."""

    @property
    def is_limited(self) -> bool:
        """Whether it can be given a limit on what is in hand at once."""
        return frozenset({Capability.PERMITS, Capability.LEASES}) <= self.capabilities

    def limited(self, limits: Limits | None) -> Limits:
        """The limits to run it under: those given, or its own; no permits where it has no part for them."""
        chosen = limits if limits is not None else Limits(permits=self.permits)
        return chosen if self.is_limited else evolve(chosen, permits=None)

    @property
    def has_ledger(self) -> bool:
        """Whether an oracle can read its rows, so that each is compared with the model."""
        return Capability.LEDGER in self.capabilities

    def as_new_process(self) -> Any:
        """The class as a process of its own would have it: from modules that nobody else has imported.

        What a subject keeps in its module or its class is memory of one process. Our own modules keep nothing there.
        """
        module_name, _, class_name = self.name.partition(":")
        if self.is_remote or self.mistake or module_name.partition(".")[0] in OUR_PACKAGES:
            return self.make
        held = {name: sys.modules.pop(name) for name in _own_modules(module_name)}
        try:
            return getattr(importlib.import_module(module_name), class_name)
        finally:
            for name in _own_modules(module_name):
                del sys.modules[name]
            sys.modules.update(held)

    def chosen(self, contracts: Contracts) -> Contracts:
        """The contracts with the choice without which the subject's mistake makes no difference."""
        if not self.mistake:
            return contracts
        from impl.mistakes import MISTAKES

        name, _, choice = MISTAKES[self.mistake].under.partition("=")
        return evolve(contracts, **{name: getattr(contracts_from({name: choice}), name)}) if name else contracts

    def relaxed(self, contracts: Contracts) -> Contracts:
        """The contracts without those that this subject has no part for, and with what its mistake needs to show."""
        contracts = self.chosen(contracts)
        if Capability.LEASES not in self.capabilities:
            contracts = evolve(contracts, fencing=Fencing.NONE)
        if Capability.APPROVALS not in self.capabilities:
            contracts = evolve(contracts, approval=ApprovalGate.ADVISORY)
        if Capability.DEADLINE not in self.capabilities:
            contracts = evolve(contracts, deadline=Deadline.PER_ATTEMPT)
        return contracts


def _own_modules(module_name: str) -> list[str]:
    """The modules that were imported from the folder of a subject's module, or from its package."""
    top = module_name.partition(".")[0]
    module = sys.modules.get(module_name)
    folder = str(Path(getattr(module, "__file__", None) or "/nowhere/at all").parent)
    if "site-packages" in folder or folder == _STANDARD_LIBRARY:  # its neighbours are other people's
        folder = "/nowhere"
    return [
        name
        for name, one in list(sys.modules.items())
        if name.partition(".")[0] not in OUR_PACKAGES
        and (
            name == top or name.startswith(f"{top}.") or str(getattr(one, "__file__", None)).startswith(f"{folder}/")
        )
        and name != "__main__"
    ]


def load_subject(
    name: str = DEFAULT_SUBJECT, mistake: str = "", *, folder: Path | None = None, probe: bool = True
) -> Subject:
    """The subject called ``module:Class``, looked for in ``folder`` (default: the current one) and on the path.

    With ``probe`` its module is first imported in a process of its own: it may end its process or never return.

    Raises SubjectError if there is no such class, if it lacks what a dispatcher needs, or if its folder holds a
    module with the name of one of our packages.
    """
    if name.startswith("-- ") or name.partition(" ")[0].endswith(".py"):
        from stateful.foreign.dispatcher import load_remote

        if mistake:
            raise SubjectError(
                f"mistake {mistake!r} is seeded into {DEFAULT_SUBJECT}, not into {name!r}; drop one of them"
            )
        return load_remote(name)
    module_name, colon, class_name = name.partition(":")
    if not colon or not module_name or not class_name:
        raise SubjectError(f"subject {name!r} is not of the form module:Class, such as {DEFAULT_SUBJECT}")
    if module_name.partition(".")[0] not in OUR_PACKAGES:
        _look_in((folder or Path.cwd()).resolve(), name)
        if probe:
            _import_elsewhere(module_name, name)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise SubjectError(
            f"subject {name!r}: importing {module_name!r} failed with {raised(error)}; "
            "run it from the folder that holds the module, or install the module into this environment"
        ) from error
    make = getattr(module, class_name, None)
    if make is None:
        raise SubjectError(f"subject {name!r}: module {module_name!r} has no {class_name!r}; check the spelling")
    permits = None
    if mistake:
        make, permits = _with_mistake(name, mistake)
    return Subject(name, mistake, make, _capabilities(make, name), permits=permits)


def _with_mistake(name: str, mistake: str) -> tuple[Any, int | None]:
    """The class with the mistake, and how many permits that takes to show."""
    from impl.mistakes import MISTAKES, seeded

    if name != DEFAULT_SUBJECT:
        raise SubjectError(
            f"mistake {mistake!r} is seeded into {DEFAULT_SUBJECT}, not into {name!r}; drop one of them"
        )
    return seeded(mistake), MISTAKES[mistake].permits


def _capabilities(make: Any, name: str) -> frozenset[Capability]:
    lacking = [m for m in NEEDED if not callable(getattr(make, m, None))]
    if not callable(make) or lacking:
        raise SubjectError(
            f"subject {name!r} is not a dispatcher: it has no {', '.join(lacking) or 'constructor'}; "
            "see impl.protocol.Dispatcher, or derive from impl.BaseDispatcher"
        )
    declared: Any = getattr(make, "capabilities", frozenset())
    try:
        capabilities = frozenset(Capability(c) for c in declared)
    except (TypeError, ValueError) as error:
        raise SubjectError(
            f"subject {name!r} declares capabilities {shown(declared)}: {raised(error)}; they are {', '.join(Capability)}"
        ) from error
    for capability in sorted(capabilities):
        missing = [m for m in CAPABILITY_METHODS.get(capability, ()) if not callable(getattr(make, m, None))]
        if missing:
            raise SubjectError(
                f"subject {name!r} declares {str(capability)!r} and has no {', '.join(missing)}; "
                "add what is missing, or do not declare it"
            )
    return capabilities


def _look_in(folder: Path, name: str) -> None:
    """Put the subject's folder on the path, unless a module there would be mistaken for one of our packages."""
    why = shadow_in(folder)
    if why:
        raise SubjectError(f"subject {name!r}: {why}")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import_elsewhere(module_name: str, name: str) -> None:
    """Import the module in a process of its own first: it may end its process or never return."""
    script = f"import sys; sys.path[:] = {sys.path!r}; import {module_name}; sys.stdout.write('imported')"
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
            timeout=IMPORT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SubjectError(
            f"subject {name!r}: importing {module_name!r} did not end within {IMPORT_SECONDS} s; "
            "move what it does at import into its constructor"
        ) from error
    if not done.stdout.endswith("imported"):
        last = (done.stderr.strip().splitlines() or [f"the process ended with status {done.returncode}"])[-1]
        raise SubjectError(
            f"subject {name!r}: importing {module_name!r} failed: {clean(last)}; run survives from the folder that "
            "holds the module, or install the module into this environment"
        )
