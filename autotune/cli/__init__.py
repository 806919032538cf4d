"""The command line, a module a verb: results to stdout, progress to stderr.

Exit codes: 0 fine, 1 the check failed, 2 misuse, 130 interrupted. What a verb needs is imported when it runs, so that
help, `list` and `inspect` start fast and work without MLIR.
"""

import sys

import typer

from autotune.cli import (
    compare,
    doctor,
    explain,
    generate,
    inspect,
    list_names,
    regress,
    replay,
    report,
    reproduce,
    selftest,
    show,
    tune,
)
from autotune.cli.say import complain
from autotune.core.errors import AutotuneError

INTERRUPTED = 130
# typer brings its own copy of click, older ones used click itself: these are the classes in use, either way
UsageFailure: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(
    help="Explore and autotune MLIR transform-dialect schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(tune.tune)
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
app.command()(selftest.selftest)
app.command("list")(list_names.list_names)


def main() -> None:
    """Entry point: every expected failure becomes one line and an exit code."""
    try:
        code = app(standalone_mode=False)
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
    except OSError as error:
        complain(f"{error.filename or 'the file system'}: {error.strerror or error}")
        code = 2
    if code == INTERRUPTED:  # which typer may also return or raise as an exit code
        complain("interrupted; every finished trial is kept, and a sweep resumes by the same command")
    sys.exit(code if isinstance(code, int) else 0)
