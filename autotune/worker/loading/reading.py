"""Reading: MLIR that people give us is parsed in an isolated process, and nowhere else; what comes back is data.

One process reads for all of the program, as long as it lives: a text that ends it costs a new one. A fork of the
program has one of its own.

    payload, module, script --text--> isolated process --Payload, Partition, OpenScript, Stage--> tuner
"""

import atexit
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.dry_run import DryRun, dry_run
from autotune.compiler.guard import BundleTexts, check_texts
from autotune.compiler.lowering.stages import Stage
from autotune.compiler.lowering.stages import compile_to as compile_here
from autotune.compiler.script.instantiate import concrete_sequences, concrete_text
from autotune.compiler.script.parametric import read_open_script
from autotune.compiler.tasks.partition import partition as partition_here
from autotune.compiler.tasks.payload_file import read_payload
from autotune.compiler.tasks.payload_folder import load_payload_folder
from autotune.compiler.tasks.read_op import names_in
from autotune.core.candidate import Candidate, Script
from autotune.core.errors import AutotuneError, BundleError, CompileError, PayloadError, ScheduleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.files import read_text
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.plugs.imported import DESCRIPTION, TEXT
from autotune.core.scripts.parametric import ChosenScript, OpenScript
from autotune.core.task_names import tell_apart
from autotune.registry import dialect_of, dialect_reader, is_importable, is_registered, load_payload, may_open_file
from autotune.worker.isolation.limits import READ_SECONDS, SCRIPT_SECONDS, read_seconds
from autotune.worker.loading.imports import import_once
from autotune.worker.loading.paths import remember
from autotune.worker.worker import Worker

A = TypeVar("A")
T = TypeVar("T")
MOST_BYTES = 256 << 20  # of a payload's text
MOST_SCRIPT_BYTES = 4 << 20


@dataclass(frozen=True)
class ScriptFile:
    """A user's own script, not yet parsed.

    Attributes:
        source: Name of the file.
        text: Text of the file.
    """

    source: str
    text: str

    @classmethod
    def read(cls, path: Path) -> "ScriptFile":
        """A file as it is.

        Raises:
            ScheduleError: The file cannot be read, is no text, or is far longer than any script.
        """
        requirement = "a schedule must be a readable MLIR file"
        return cls(str(path), read_text(path, MOST_SCRIPT_BYTES, requirement, ScheduleError))


@cache
def reader() -> Worker:
    """The worker that reads."""
    worker = Worker(READ_SECONDS)
    atexit.register(worker.close)
    return worker


os.register_at_fork(after_in_child=reader.cache_clear)


def read_apart(
    function: Callable[[A], T],
    argument: A,
    what: str,
    error: type[AutotuneError],
    *,
    requirement: str = "be readable by the compiler, it is not ({})",
    seconds: float = READ_SECONDS,
) -> T:
    """Call a function of untrusted text in the isolated process.

    Args:
        function: Function to call.
        argument: Argument of the call.
        what: What is read, for the message.
        error: Class of the error where the process does not survive the text.
        requirement: What it must, and the outcome of the process instead.
        seconds: Seconds that the call may take.

    Raises:
        AutotuneError: The function raised it, or the process failed.
    """
    found = reader().call(function, argument, seconds)
    if isinstance(found, Evaluation):
        raise error(f"{what} must {requirement.format(f'{found.outcome}: {found.diagnostic}')}")
    return found


def open_payload(source: str | Path) -> Payload:
    """The payload a user names.

    Args:
        source: A registered name with parameters, a path to an ``.mlir`` file or to an imported folder, or a model's
            file with its open sizes, ``model.onnx,batch=1``, which is then imported once.

    Raises:
        PayloadError: The name is unknown, its parameters are impossible, or the file is no payload.
    """
    spec = str(source)
    if is_registered(spec) and not may_open_file(spec):
        return load_payload(spec)
    if is_registered(spec):
        found = load_payload(spec)
    elif is_importable(spec):
        found = open_model(import_once(spec), spec)
    elif is_path(spec) or is_folder(spec):
        found = open_path(spec)
    else:
        return load_payload(spec)
    remember(spec, found.sha256)
    return found


def open_model(folder: Path, spec: str) -> Payload:
    """The payload of a model's file that was imported into a folder; what others run of it is the file itself.

    Raises:
        PayloadError: A file of the folder is missing or damaged.
    """
    return replace(open_folder(folder, spec), model=os.path.abspath(spec.partition(",")[0]))


def open_path(spec: str) -> Payload:
    """The payload of a file of MLIR, or of an imported folder.

    Raises:
        PayloadError: The file or folder holds no payload.
    """
    return open_folder(Path(spec), spec) if is_folder(spec) else open_text(spec)


def is_folder(spec: str) -> bool:
    """Return whether an importer wrote a folder."""
    return os.path.isfile(os.path.join(spec, DESCRIPTION))


def open_folder(folder: Path, spec: str) -> Payload:
    """The payload in a folder that an importer wrote; its functions are made here, from the names of its files.

    Raises:
        PayloadError: A file is missing or damaged, or the text is no payload.
    """
    return load_payload_folder(folder, spec, open_text(str(folder / TEXT)))


def open_text(path: str) -> Payload:
    """The payload in an ``.mlir`` file, parsed apart; what is in a dialect is then lowered here, from what was read.

    Raises:
        PayloadError: The file is no payload.
    """
    text = read_text(path, MOST_BYTES, "a payload file must be readable MLIR text", PayloadError)
    if (dialect := dialect_of(text)) is not None:
        work = partial(dialect_reader(), path, dialect.name, dialect.definition)
        written = read_apart(work, text, path, PayloadError, seconds=read_seconds(text))
        return dialect.payload(path, written)
    return bare(read_apart(partial(read_payload, path), text, path, PayloadError, seconds=read_seconds(text)))


def is_path(spec: str) -> bool:
    """Whether a spec names a file."""
    return spec.endswith(".mlir") or "/" in spec.partition(",")[0]


def partition(payload: Payload) -> Partition:
    """The distinct tunable units of a payload, as `compiler.tasks.partition` finds them.

    Raises:
        CompileError: The text does not parse.
        PayloadError: The entry function is not there, or the compiler does not survive the text.
        RuleError: Rewrite rules of the payload cannot be applied.
    """
    found = read_apart(partition_here, bare(payload), payload.rules.source or payload.name, PayloadError)
    return replace(found, payload=replace(payload, text=found.payload.text))


def task_names(texts: Mapping[str, str | None]) -> dict[str, str]:
    """A name for people for every task, no two the same: a short hash follows where they would be.

    Args:
        texts: Module of every task, by tag; `None` where only the tag is known.

    Raises:
        PayloadError: The compiler does not survive the texts.
    """
    known = any(texts.values())
    return tell_apart(read_apart(names_in, dict(texts), "modules of tasks", PayloadError) if known else names_in(texts))


def bare(payload: Payload) -> Payload:
    """A payload without its functions and its model's file, which an isolated process must not give back."""
    return replace(payload, reference=None, inputs=None, model="")


def check_bundle(texts: BundleTexts) -> None:
    """Refuse a bundle's MLIR, as `guard.check_texts` does.

    Raises:
        BundleError: A file is refused; the error names it.
    """
    read_apart(check_texts, texts, texts.folder, BundleError, seconds=read_seconds(*texts.texts.values()))


def compile_to(stage: str, payload: Payload, candidate: Candidate) -> Stage:
    """A candidate after a stage of its compilation, as `compiler.lowering.stages`; ``code`` as text, too.

    Raises:
        CompileError: The compiler refused the program, or did not survive it.
        ScheduleError: The script lowers otherwise than this release.
        MachineError: There is no llvm-objdump.
    """
    work = partial(compile_here, stage, bare(payload))
    found = reader().call(work, candidate)
    if isinstance(found, Evaluation):
        raise CompileError("compile", f"{found.outcome}: {found.diagnostic}")
    return Stage(disassemble(found.code, payload.entry), found.buffers) if stage == "code" else found


def read_script(file: ScriptFile) -> OpenScript:
    """The knobs and constraints of a user's own script.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
    """
    return script_apart(partial(read_open_script, source=file.source), file.text, file.source)


def script_text(script: Script | None) -> str:
    """A script as text; a user's own with what is chosen.

    Raises:
        CompileError: A value is none that its op takes.
        ScheduleError: The process failed over the script.
    """
    return script_apart(concrete_text, script, script.source) if isinstance(script, ChosenScript) else script or ""


def script_sequences(chosen: ChosenScript, prefix: str) -> tuple[str, str]:
    """A user's own script of one op as named sequences, and the ops that include them; raises as `script_text`.

    Args:
        chosen: The script.
        prefix: What the names of its sequences are to begin with.
    """
    return script_apart(concrete_sequences, (chosen, prefix), chosen.source)


def dry_run_script(wanted: DryRun) -> tuple[str, ...]:
    """What a user's own script does to a payload, once, before it is searched: notes, a sentence each.

    Raises:
        ScheduleError: The process failed over the script.
    """
    return script_apart(dry_run, wanted, wanted.script.source)


def script_apart(function: Callable[[A], T], argument: A, source: str) -> T:
    """Call a function of a user's own script in the isolated process.

    Raises:
        AutotuneError: The function raised it.
        ScheduleError: The process failed over the script.
    """
    requirement = "be a script that MLIR takes and ends, it {}"
    return read_apart(function, argument, source, ScheduleError, requirement=requirement, seconds=SCRIPT_SECONDS)
