"""The command line: ``survives check``, ``replay``, ``interleave``, ``mistakes`` and the others.

Exit status: 0 survived, 1 violated, 2 wrong use or bad input, 3 unknown or vacuous.
"""

from __future__ import annotations

import signal
from typing import Any

import click

from stateful.clash import refuse_clash

refuse_clash()  # before the first import that another module of the same name would take over

from model.contracts import UnknownContractError  # noqa: E402
from stateful.commands.attempts import attempts  # noqa: E402
from stateful.commands.check import check  # noqa: E402
from stateful.commands.explore import explore  # noqa: E402
from stateful.commands.faults import faults  # noqa: E402
from stateful.commands.interleave import interleave  # noqa: E402
from stateful.commands.lists import list_  # noqa: E402
from stateful.commands.matrix import matrix  # noqa: E402
from stateful.commands.mistakes import mistakes  # noqa: E402
from stateful.commands.new_adapter import new_adapter  # noqa: E402
from stateful.commands.options import UNKNOWN, WRONG_USE  # noqa: E402
from stateful.commands.power import power  # noqa: E402
from stateful.commands.replay import replay  # noqa: E402
from stateful.commands.table import table  # noqa: E402
from stateful.spoken import hush  # noqa: E402


class _Commands(click.Group):
    """Commands, each of which Ctrl-C ends with one line and the status of what is unknown."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run one of them."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            early = ctx.invoked_subcommand == "check"
            click.echo("survives: interrupted" + " before anything ran" * early, err=True)
            raise SystemExit(UNKNOWN) from None


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(package_name="survives")
def cli() -> None:
    """What survives failure? Drive a dispatcher through failure orders and see which promises hold.

    Exit status: 0 survived, 1 violated, 2 wrong use or bad input, 3 unknown or vacuous.
    """


for command in (
    check,
    replay,
    interleave,
    power,
    faults,
    attempts,
    table,
    new_adapter,
    mistakes,
    matrix,
    explore,
    list_,
):
    cli.add_command(command)


def main() -> None:
    """The console command. Every mistake of a user's ends in one line and status 2."""
    from stateful.foreign.channel import AdapterError
    from stateful.foreign.naming import NoAdapterError
    from stateful.foreign.trace import ForeignTraceError
    from stateful.subject import SubjectError
    from stateful.trace import TraceError
    from stateful.trouble import NoRoomError, ReplayError

    try:
        cli(standalone_mode=True)
    except (ReplayError, NoRoomError, AdapterError) as error:
        _complain(str(error), UNKNOWN)
    except (SubjectError, TraceError, UnknownContractError, ValueError) as error:
        if isinstance(
            error, SubjectError | TraceError | ForeignTraceError | NoAdapterError | UnknownContractError
        ) or type(error).__module__.startswith("impl."):
            _complain(str(error))
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            hush()
            raise SystemExit(1) from None
        _complain(f"{error.filename or 'a file'}: {error.strerror or error}; check that it exists and can be written")


def _complain(message: str, status: int = WRONG_USE) -> None:
    click.echo(f"survives: {message.encode(errors='backslashreplace').decode()}", err=True)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
