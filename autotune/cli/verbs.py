"""Assembly of all verbs into one command, and mapping of failures to exit codes.

Verbs import their dependencies when they run, so that help, `list` and `inspect` start fast and work without MLIR.
"""

import logging
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path

import typer

from autotune.cli import (
    compare,
    doctor,
    import_model,
    inspect,
    list_names,
    regress,
    replay,
    report,
    reproduce,
    show,
    store,
    tune,
)
from autotune.cli.help import GroupedOptions, GroupedVerbs, front
from autotune.cli.interrupt import INTERRUPTED, OF_SIGNALS, Interrupts
from autotune.cli.output import NAME as OUTPUT
from autotune.cli.output import STDOUT, end_output
from autotune.cli.plugged import with_options, with_sections
from autotune.cli.say import complain
from autotune.cli.system_errors import out_of_memory, sentence_of
from autotune.core.errors import AutotuneError, MachineError, ProofError
from autotune.core.host.scratch import sweep
from autotune.core.plugs.verb import HEADINGS, LAB, Verb
from autotune.registry import plugged_options, plugged_sections, plugged_verbs

NO_READER = OF_SIGNALS + signal.SIGPIPE  # exit code if the reader of stdout is gone, as of `cat`
NO_ROOM = ("failed to map segment", "annot allocate memory")  # messages of the dynamic loader
# typer brings its own copy of click, older ones used click itself: these are the classes in use, either way
UsageFailure: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

REPORT = with_sections(report.report, plugged_sections(complain))
# Built-in verbs; plug-ins add theirs. A help line must fit 80 columns.
VERBS: dict[str, Verb] = {
    "import": Verb(import_model.import_model, "Find schedules", "Import a model from ONNX or PyTorch."),
    "tune": Verb(tune.tune, "Find schedules", "Search schedules for payloads, and keep the best as a bundle."),
    "list": Verb(list_names.list_names, "Find schedules", "List payloads, families, baselines and other plug-ins."),
    "inspect": Verb(inspect.inspect, "Understand them", "Show what a store or a bundle holds, a line a task."),
    "show": Verb(show.show, "Understand them", "Print a payload after a stage, down to assembly."),
    "report": Verb(REPORT, "Understand them", "Write a bundle or store as one self-contained page."),
    "compare": Verb(compare.compare, "Compare", "Time schedules beside other libraries, interleaved."),
    "replay": Verb(replay.replay, "Keep and check", "Build a bundle again, verify it and time it; or a trial."),
    "regress": Verb(regress.regress, "Keep and check", "Check bundles for regressions, as a CI gate does."),
    "reproduce": Verb(
        reproduce.reproduce,
        "Keep and check",
        "Write the files of one trial, and run it again.",
        instead="replay KEY --store STORE",
    ),
    "doctor": Verb(doctor.doctor, "Machines", "Say what this machine can do: roofs, noise, sandbox."),
    "copy": Verb(store.copy, "Machines", "Copy a store of trials, into a file or a database.", group=LAB),
}


# Groups of verbs: help line and heading.
GROUPS = {LAB: ("Record spaces, copy stores, join a cluster.", "Machines")}
NEVER_ALONE = {"copy"}  # verbs of groups without a former top-level name


def in_order(verbs: Mapping[str, Verb]) -> dict[str, Verb]:
    """Sort verbs by heading; within one, a verb follows the one named by `after`, others keep their order."""
    names: list[str] = [name for name, verb in verbs.items() if verb.after not in verbs]
    for name, verb in verbs.items():
        if verb.after in verbs:
            names.insert(names.index(verb.after) + 1, name)
    return {name: verbs[name] for heading in HEADINGS for name in names if verbs[name].heading == heading}


def group(line: str) -> typer.Typer:
    """Return a group of verbs that prints its help if no verb is given.

    Args:
        line: Help line of the group.
    """

    def print_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
            raise typer.Exit

    verb_group = typer.Typer(cls=GroupedVerbs, invoke_without_command=True)
    verb_group.callback(help=line)(print_help)
    return verb_group


def renamed(function: Callable[..., object], name: str, instead: str) -> Callable[..., object]:
    """Return a verb under its former name, which prints the new command and runs.

    Args:
        function: Function of the verb, in typer's form.
        name: Former name.
        instead: New command, without ``autotune``.
    """

    @wraps(function)
    def run(*arguments: object, **named: object) -> None:
        complain(f"`autotune {name}` is `autotune {instead}` now")
        function(*arguments, **named)

    return run


app = typer.Typer(
    cls=GroupedVerbs,
    invoke_without_command=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(front)
plugged = plugged_options(complain)
groups = {name: group(line) for name, (line, _) in GROUPS.items()}
for name, verb in in_order(VERBS | plugged_verbs(complain)).items():
    function = with_options(verb.function, [option for option in plugged if option.verb == name])
    now = verb.instead or (f"{verb.group} {name}" if verb.group else "")
    if verb.group:
        groups[verb.group].command(name, cls=GroupedOptions, short_help=verb.line)(function)
    if name not in NEVER_ALONE:
        app.command(name, cls=GroupedOptions, short_help=verb.line, rich_help_panel=verb.heading, hidden=bool(now))(
            renamed(function, name, now) if now else function
        )
for name, (line, heading) in GROUPS.items():
    app.add_typer(groups[name], name=name, short_help=line, rich_help_panel=heading)
before = group("Copy a store of trials.")
before.command("copy", cls=GroupedOptions)(renamed(store.copy, "store copy", f"{LAB} copy"))
app.add_typer(before, name="store", hidden=True)


@cache
def command() -> Callable[..., object]:
    """Return typer's command of all verbs, built once in a process."""
    return typer.main.get_command(app)


def run(interrupts: Interrupts) -> int:
    """Run the command line; expected failures print one line and set the exit code.

    Args:
        interrupts: Signal handlers of this process.
    """
    try:
        interrupts.is_loading = False
        code = run_verb()
    except BaseException:
        if not interrupts.seen:  # else the exception is a consequence of the interrupt
            raise
        code = INTERRUPTED
    code = interrupts.ended if code == INTERRUPTED else code
    interrupts.end(code)
    if code == interrupts.ended:
        complain(interrupts.sentence)
    return code


def run_verb() -> int:
    """Run the verb of the command line, flush its results, and return its exit code."""
    code = code_of_verb()
    try:
        sys.stdout.flush()
    except OSError as error:
        end_output()
        if has_no_reader(error):
            return NO_READER
        complain(sentence_of(error))
        return code or 2
    return code


def code_of_verb() -> int:
    """Run the verb of the command line and return its exit code; results may still be buffered."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # suppresses warnings if the home directory is not writable
    try:
        check_folder()
        sweep(Path(tempfile.gettempdir()))
        code = command()(prog_name="autotune", standalone_mode=False)
    except typer.Exit as done:
        code = done.exit_code
    except (SystemExit, BrokenPipeError) as ended:  # click turns the latter into the former
        if not has_no_reader(ended):
            raise
        end_output()
        code = NO_READER
    except UsageFailure as error:
        complain(f"{said_of(error)}; see --help")
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
        complain(sentence_of(error))
        if error.filename == OUTPUT:
            end_output()
        code = 2
    return code if isinstance(code, int) else 0


def said_of(error: Exception) -> str:
    """Return the message of a usage error; a sentence of typer's own ends with a period, ours may end with a name."""
    message: str = error.format_message()  # type: ignore[attr-defined]
    is_ours = type(error) is typer.BadParameter and error.param is None
    return message if is_ours else message.removesuffix(".")


def has_no_reader(error: BaseException) -> bool:
    """Return whether an error is a broken pipe, and standard output is a pipe without a reader."""
    if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
        return False
    poll = select.poll()
    poll.register(STDOUT, 0)  # errors are always reported
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def check_folder() -> None:
    """Check that the current folder exists, since relative paths depend on it.

    Raises:
        MachineError: The current folder was deleted.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise MachineError("the current folder must exist, it was deleted; change to one that does") from error
