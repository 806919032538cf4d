"""The command line, a module a verb: results to stdout, progress to stderr.

Exit codes: 0 fine, 1 the check failed, 2 misuse, 130 interrupted. What a verb needs is imported when it runs, so that
help, `list` and `inspect` start fast and work without MLIR.
"""

import resource
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import typer

from autotune.cli import (
    compare,
    doctor,
    explain,
    generate,
    import_model,
    inspect,
    join,
    list_names,
    record,
    regress,
    replay,
    report,
    reproduce,
    rules,
    selftest,
    show,
    store,
    tune,
)
from autotune.cli.say import complain
from autotune.core.errors import AutotuneError, MachineError

INTERRUPTED = 130
NO_ROOM = ("failed to map segment", "annot allocate memory")  # as the system's loader puts it
# typer brings its own copy of click, older ones used click itself: these are the classes in use, either way
UsageFailure: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(
    help="Explore and autotune MLIR transform-dialect schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("import")(import_model.import_model)
app.command()(tune.tune)
app.command()(record.record)
app.command()(inspect.inspect)
app.command()(replay.replay)
app.command()(regress.regress)
app.command()(reproduce.reproduce)
app.command()(compare.compare)
app.command()(show.show)
app.command()(explain.explain)
app.command()(report.report)
app.command()(generate.generate)
app.command()(doctor.doctor)
app.command()(join.join)
app.command()(selftest.selftest)
app.command()(rules.rules)
app.add_typer(store.app, name="store")
app.command("list")(list_names.list_names)


@cache
def command() -> Callable[..., object]:
    """All verbs as the command that typer makes of them: read from their signatures once, whoever calls it again."""
    return typer.main.get_command(app)


def main() -> None:
    """Entry point: every expected failure becomes one line and an exit code."""
    try:
        check_folder()
        code = command()(standalone_mode=False)
    except typer.Exit as done:
        code = done.exit_code
    except UsageFailure as error:
        complain(f"{error.format_message()}; see --help")  # type: ignore[attr-defined]
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except AutotuneError as error:
        complain(str(error))
        code = 2
    except MemoryError:
        complain(out_of_memory())
        code = 2
    except ImportError as error:
        if not any(sign in str(error) for sign in NO_ROOM):
            raise
        complain(out_of_memory())
        code = 2
    except OSError as error:
        complain(f"{error.filename or 'the file system'}: {error.strerror or error}")
        code = 2
    if code == INTERRUPTED:  # which typer may also return or raise as an exit code
        complain("interrupted; every finished trial is kept, and a sweep resumes by the same command")
    sys.exit(code if isinstance(code, int) else 0)


def out_of_memory() -> str:
    """What to say where this process itself got no memory."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    limit = "" if most == resource.RLIM_INFINITY else f", the limit is {most / 2**30:.2g} GiB of address space"
    return f"this process must get the memory it asks for, it did not{limit}; raise ulimit -v, or end other programs"


def check_folder() -> None:
    """Refuse to work in a folder that is gone, where every relative path would be missing.

    Raises:
        MachineError: The current folder was deleted.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise MachineError("the current folder must exist, it was deleted; change to one that does") from error
