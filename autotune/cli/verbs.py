"""All verbs as one command, and the exit code of a command line.

What a verb needs is imported when it runs, so that help, `list` and `inspect` start fast and work without MLIR.
"""

import resource
import tempfile
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
from autotune.cli.help import GroupedOptions, GroupedVerbs, front
from autotune.cli.interrupt import INTERRUPTED, SENTENCE, Interrupts
from autotune.cli.say import complain
from autotune.core.errors import AutotuneError, MachineError, ProofError
from autotune.worker.scratch import sweep

NO_ROOM = ("failed to map segment", "annot allocate memory")  # as the system's loader puts it
# typer brings its own copy of click, older ones used click itself: these are the classes in use, either way
UsageFailure: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

# Verbs by what one wants to do, in the order of `--help`. A line must be whole at 80 columns.
VERBS: tuple[tuple[str, tuple[tuple[str, Callable[..., object], str], ...]], ...] = (
    (
        "Find schedules",
        (
            ("import", import_model.import_model, "Import a model from ONNX or PyTorch."),
            ("tune", tune.tune, "Search schedules for payloads, and keep the best as a bundle."),
            ("generate", generate.generate, "Generate tokens by tuned prefill and decode."),
            ("list", list_names.list_names, "List payloads, families, baselines and other plug-ins."),
            ("rules", rules.rules, "List rewrite rules, and where each applies."),
        ),
    ),
    (
        "Understand them",
        (
            ("inspect", inspect.inspect, "Show what a store or a bundle holds, a line a task."),
            ("show", show.show, "Print a payload after a stage, down to assembly."),
            ("explain", explain.explain, "Measure what each technique is worth to a bundle."),
            ("report", report.report, "Write a bundle or store as one self-contained page."),
        ),
    ),
    (
        "Compare",
        (("compare", compare.compare, "Time schedules beside other libraries, interleaved."),),
    ),
    (
        "Keep and check",
        (
            ("replay", replay.replay, "Build a bundle again, verify it and time it; or emit it."),
            ("regress", regress.regress, "Check bundles for regressions, as a CI gate does."),
            ("reproduce", reproduce.reproduce, "Write the files of one trial, and run it again."),
            ("record", record.record, "Measure a part of a space completely, for benchmarks."),
        ),
    ),
    (
        "Machines",
        (
            ("doctor", doctor.doctor, "Say what this machine can do: roofs, noise, sandbox."),
            ("selftest", selftest.selftest, "Measure what the tuner promises, by breaking it."),
            ("join", join.join, "Let this machine measure for a cluster."),
        ),
    ),
)

app = typer.Typer(
    cls=GroupedVerbs,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(front)
for heading, verbs in VERBS:
    for name, function, line in verbs:
        app.command(name, cls=GroupedOptions, short_help=line, rich_help_panel=heading)(function)
app.add_typer(store.app, name="store", short_help="Copy a store of trials.", rich_help_panel="Keep and check")


@cache
def command() -> Callable[..., object]:
    """All verbs as the command that typer makes of them: read from their signatures once, whoever calls it again."""
    return typer.main.get_command(app)


def run(interrupts: Interrupts) -> int:
    """Run the command line; every expected failure becomes one line and an exit code.

    Args:
        interrupts: What Ctrl-C did to this process so far.
    """
    try:
        interrupts.is_loading = False
        code = run_verb()
    except BaseException:
        if not interrupts.seen:  # else it is what an import, a process or a library made of the interrupt
            raise
        code = INTERRUPTED
    interrupts.end(code)
    if code == INTERRUPTED:
        complain(SENTENCE)
    return code


def run_verb() -> int:
    """Run the verb that the command line names; its exit code."""
    try:
        check_folder()
        sweep(Path(tempfile.gettempdir()))
        code = command()(standalone_mode=False)
    except typer.Exit as done:
        code = done.exit_code
    except UsageFailure as error:
        complain(f"{error.format_message()}; see --help")  # type: ignore[attr-defined]
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except ProofError as error:
        complain(str(error))
        code = 1
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
    return code if isinstance(code, int) else 0


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
