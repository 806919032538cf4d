"""Reading of user-supplied MLIR: it is parsed only in an isolated process, which returns data.

One process reads for the whole program; a text that crashes it costs a restart. A fork of the program has its own.

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
    """Unparsed user script.

    Attributes:
        source: Name of the file.
        text: Text of the file.
    """

    source: str
    text: str

    @classmethod
    def read(cls, path: Path) -> "ScriptFile":
        """Read a script file without parsing it.

        Raises:
            ScheduleError: The file cannot be read, is not text, or is longer than `MOST_SCRIPT_BYTES`.
        """
        requirement = "a schedule must be a readable MLIR file"
        return cls(str(path), read_text(path, MOST_SCRIPT_BYTES, requirement, ScheduleError))


@cache
def reader() -> Worker:
    """Return the worker that parses all untrusted texts of this process."""
    worker = Worker(READ_SECONDS)
    atexit.register(worker.close)
    return worker


os.register_at_fork(after_in_child=reader.cache_clear)


def read_apart(
    function: Callable[[A], T],
    argument: A,
    name: str,
    error: type[AutotuneError],
    *,
    requirement: str = "be readable by the compiler, it is not ({})",
    seconds: float = READ_SECONDS,
) -> T:
    """Call a function on untrusted text in the isolated process.

    Args:
        function: Function to call.
        argument: Argument of the call.
        name: Name of the text, for the message.
        error: Class of the exception if the process fails on the text.
        requirement: Format string of the message: what the text must be, and the outcome of the process.
        seconds: Time limit of the call in seconds.

    Raises:
        AutotuneError: The function raised it, or the process failed.
    """
    answer = reader().call(function, argument, seconds)
    if isinstance(answer, Evaluation):
        raise error(f"{name} must {requirement.format(f'{answer.outcome}: {answer.diagnostic}')}")
    return answer


def open_payload(source: str | Path) -> Payload:
    """Open the payload that a user names, and register its path.

    Args:
        source: A registered name with parameters, a path to an ``.mlir`` file or to an imported folder, or a model
            file with its dynamic sizes, ``model.onnx,batch=1``, which is imported into the cache.

    Raises:
        PayloadError: The name is unknown, its parameters are invalid, or the file holds no payload.
    """
    spec = str(source)
    if is_registered(spec) and not may_open_file(spec):
        return load_payload(spec)
    if is_registered(spec):
        payload = load_payload(spec)
    elif is_importable(spec):
        payload = open_model(import_once(spec), spec)
    elif is_path(spec) or is_folder(spec):
        payload = open_path(spec)
    else:
        return load_payload(spec)
    remember(spec, payload.sha256)
    return payload


def open_model(folder: Path, spec: str) -> Payload:
    """Open the imported folder of a model file; other libraries run the model file itself.

    Raises:
        PayloadError: A file of the folder is missing or damaged.
    """
    return replace(open_folder(folder, spec), model=os.path.abspath(spec.partition(",")[0]))


def open_path(spec: str) -> Payload:
    """Open the payload of an MLIR file or of an imported folder.

    Raises:
        PayloadError: The file or folder holds no payload.
    """
    return open_folder(Path(spec), spec) if is_folder(spec) else open_text(spec)


def is_folder(spec: str) -> bool:
    """Return whether a path is a folder that an importer wrote."""
    return os.path.isfile(os.path.join(spec, DESCRIPTION))


def open_folder(folder: Path, spec: str) -> Payload:
    """Open the payload in an imported folder; its oracle and inputs are set up here, from the files of the folder.

    Raises:
        PayloadError: A file is missing or damaged, or the text is no payload.
    """
    return load_payload_folder(folder, spec, open_text(str(folder / TEXT)))


def open_text(path: str) -> Payload:
    """Open the payload in an ``.mlir`` file, parsed in the isolated process.

    A file in a registered dialect is lowered in this process from the data that was read.

    Raises:
        PayloadError: The file holds no payload.
    """
    text = read_text(path, MOST_BYTES, "a payload file must be readable MLIR text", PayloadError)
    if (dialect := dialect_of(text)) is not None:
        work = partial(dialect_reader(), path, dialect.name, dialect.definition)
        written = read_apart(work, text, path, PayloadError, seconds=read_seconds(text))
        return dialect.payload(path, written)
    return bare(read_apart(partial(read_payload, path), text, path, PayloadError, seconds=read_seconds(text)))


def is_path(spec: str) -> bool:
    """Return whether a spec is the path of a file."""
    return spec.endswith(".mlir") or "/" in spec.partition(",")[0]


def partition(payload: Payload) -> Partition:
    """Partition a payload into tasks with `compiler.tasks.partition`, in the isolated process.

    Raises:
        CompileError: The text does not parse.
        PayloadError: The entry function is missing, or the compiler crashes on the text.
        RuleError: Rewrite rules of the payload cannot be applied.
    """
    parts = read_apart(partition_here, bare(payload), payload.rules.source or payload.name, PayloadError)
    return replace(parts, payload=replace(payload, text=parts.payload.text))


def task_names(texts: Mapping[str, str | None]) -> dict[str, str]:
    """Return a unique, readable name for every task; equal names get a short hash as suffix.

    Args:
        texts: Module of every task, by tag; `None` if only the tag is known.

    Raises:
        PayloadError: The compiler crashes on the texts.
    """
    known = any(texts.values())
    return tell_apart(read_apart(names_in, dict(texts), "modules of tasks", PayloadError) if known else names_in(texts))


def bare(payload: Payload) -> Payload:
    """Return a payload without its functions and model file, which an isolated process must not return."""
    return replace(payload, reference=None, inputs=None, model="")


def check_bundle(texts: BundleTexts) -> None:
    """Check a bundle's MLIR with `guard.check_texts`, in the isolated process.

    Raises:
        BundleError: A file is refused; the error names it.
    """
    read_apart(check_texts, texts, texts.folder, BundleError, seconds=read_seconds(*texts.texts.values()))


def compile_to(stage: str, payload: Payload, candidate: Candidate) -> Stage:
    """Return the program of a candidate after a stage of `compiler.lowering.stages`; stage ``code`` is disassembled.

    Raises:
        CompileError: The compiler refused the program or crashed on it.
        ScheduleError: The script's lowering differs from this release's.
        MachineError: llvm-objdump is not installed.
    """
    work = partial(compile_here, stage, bare(payload))
    result = reader().call(work, candidate)
    if isinstance(result, Evaluation):
        raise CompileError("compile", f"{result.outcome}: {result.diagnostic}")
    return Stage(disassemble(result.code, payload.entry), result.buffers) if stage == "code" else result


def read_script(file: ScriptFile) -> OpenScript:
    """Read the knobs and constraints of a user script.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
    """
    return script_apart(partial(read_open_script, source=file.source), file.text, file.source)


def script_text(script: Script | None) -> str:
    """Return a script as text; a user script with its chosen values filled in.

    Raises:
        CompileError: A value is not valid for its op.
        ScheduleError: The process failed on the script.
    """
    return script_apart(concrete_text, script, script.source) if isinstance(script, ChosenScript) else script or ""


def script_sequences(chosen: ChosenScript, prefix: str) -> tuple[str, str]:
    """Return a user script of one op as named sequences, and the ops that include them; raises as `script_text`.

    Args:
        chosen: The script with its chosen values.
        prefix: Prefix of the names of its sequences.
    """
    return script_apart(concrete_sequences, (chosen, prefix), chosen.source)


def dry_run_script(wanted: DryRun) -> tuple[str, ...]:
    """Apply a user script to a payload once before the search; return notes on its effect, one sentence each.

    Raises:
        ScheduleError: The process failed on the script.
    """
    return script_apart(dry_run, wanted, wanted.script.source)


def script_apart(function: Callable[[A], T], argument: A, source: str) -> T:
    """Call a function on a user script in the isolated process.

    Raises:
        AutotuneError: The function raised it.
        ScheduleError: The process failed on the script.
    """
    requirement = "be a script that MLIR takes and ends, it {}"
    return read_apart(function, argument, source, ScheduleError, requirement=requirement, seconds=SCRIPT_SECONDS)
