"""Our packages have generic names: find out whether another module of the same name would be imported instead.

It imports none of them, so that it can be asked before the first import that might go wrong.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

OUR_PACKAGES = ("model", "impl", "stateful")
OUR_FOLDER = Path(__file__).resolve().parent.parent
ADVICE = "run survives in an environment of its own and from another folder, or rename the module"


def clash() -> str:
    """Why our own packages are not the ones that would be imported, or nothing if they are."""
    for package in OUR_PACKAGES:
        try:
            spec = importlib.util.find_spec(package)
        except ValueError:
            spec = None
        places = spec.submodule_search_locations if spec else None
        found = [str(Path(p).resolve()) for p in places or ()]
        if str(OUR_FOLDER / package) not in found[:1]:
            other = found[0] if found else (spec.origin if spec else "nowhere")
            return (
                f"package {package!r} would be taken from {other} and not from survives: another module of that name "
                f"comes first on the path; {ADVICE}"
            )
    return ""


def shadow_in(folder: Path) -> str:
    """Why a folder cannot be put on the path, or nothing: it has a module with the name of one of our packages."""
    if folder == OUR_FOLDER:
        return ""
    for package in OUR_PACKAGES:
        for candidate in (folder / f"{package}.py", folder / package):
            if candidate.is_file() or any(candidate.glob("*.py")):
                return (
                    f"{candidate} has the name of a package of survives ({package!r}), and only one of the two can be "
                    f"imported; {ADVICE}"
                )
    return ""


def refuse_clash() -> None:
    """End the process with status 2 and one line if another module would be imported instead of ours."""
    why = clash()
    if why:
        sys.stderr.write(f"survives: {why}\n")
        raise SystemExit(2)
