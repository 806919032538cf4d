"""Execution of backends, in a separate process only: this module does not import MLIR, whose LLVM may be another.

Question(spec, tasks) --ask_offers--> Offers; Order(spec, task, config) --make--> ExternalKernel
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

from autotune.compiler.codegen.llvm_tools import find_tool
from autotune.contrib.backends.backend import BACKENDS, Backend, Offer
from autotune.core.c_names import identifier
from autotune.core.errors import AutotuneError, CompileError, MachineError, ScheduleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import ExternalKernel, MadeObject, operand_types
from autotune.core.printable import first_lines
from autotune.core.space import Config
from autotune.core.task import Task
from autotune.core.trial import Outcome
from autotune.registry import find_point, load_point

ELF = b"\x7fELF"
FAILED_AT: dict[str, Outcome] = {"verify": "verify-failed", "lower": "lowering-failed", "jit": "jit-failed"}


@dataclass(frozen=True)
class Question:
    """A query for a backend's offers.

    Attributes:
        spec: Backend, ``NAME`` or ``NAME:ARGUMENT``.
        tasks: Tasks that it may cover.
        machine: Target machine.
    """

    spec: str
    tasks: tuple[Task, ...]
    machine: Machine


@dataclass(frozen=True)
class Offers:
    """A backend's offers.

    Attributes:
        name: Name in records.
        version: Everything that determines the generated code besides task and config.
        offers: Offer for each task, in order.
    """

    name: str
    version: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Order:
    """A request to generate code."""

    spec: str
    task: Task
    config: Config
    machine: Machine


@cache
def open_backend(spec: str) -> Backend:
    """Open the backend that a spec names.

    Raises:
        ScheduleError: No backend of that name is installed, or its argument is wrong.
        MachineError: A requirement is missing.
    """
    name, _, argument = spec.partition(":")
    opened = cast(Callable[[str], Backend], load_point(find_point(BACKENDS, "back end", name, ScheduleError)))(argument)
    if missing := opened.missing():
        raise MachineError(missing)
    return opened


def ask_offers(question: Question) -> Offers:
    """Query a backend's offers for tasks.

    Raises:
        ScheduleError: The backend is not installed or fails.
        MachineError: A requirement is missing.
    """
    backend, machine = open_backend(question.spec), question.machine
    try:
        return Offers(backend.name, backend.version(), tuple(offer_of(backend, t, machine) for t in question.tasks))
    except AutotuneError:
        raise
    except Exception as error:  # external code
        raise ScheduleError(f"back end {question.spec} must not fail, it raised {message_of(error)}") from error


def offer_of(backend: Backend, task: Task, machine: Machine) -> Offer:
    """Return a backend's offer for a task; tasks must have one output, static sizes and no gathers."""
    if len(task.payload.outputs) != 1 or task.grows or task.root.gathers or len(task.payload.arguments) < 2:
        return Offer("takes only tasks of one output with static sizes and indices")
    if refusal := backend.refuses(task, machine):
        return Offer(refusal)
    return Offer("", backend.space(task, machine), backend.default(task, machine))


def make(order: Order) -> ExternalKernel | Evaluation:
    """Generate a task's kernel with a unique symbol; on failure, return an `Evaluation` with the reason."""
    try:
        backend = open_backend(order.spec)
        code = backend.make(order.task, order.config, order.machine)
        types = operand_types(order.task.payload)
        return ExternalKernel(order.task.tag, backend.name, types, named(code, symbol_of(backend.name, order.task.tag)))
    except CompileError as error:
        return Evaluation(FAILED_AT.get(error.stage, "transform-failed"), diagnostic=str(error))
    except AutotuneError:
        raise
    except Exception as error:  # external code
        return Evaluation("transform-failed", diagnostic=message_of(error))


def message_of(error: Exception) -> str:
    """Return the message of an exception of external code, as one line."""
    return first_lines(f"{type(error).__name__}: {error}")


def symbol_of(backend: str, tag: str) -> str:
    """Return the unique symbol of a kernel in a program."""
    return f"autotune_kernel_{identifier(backend)}_{identifier(tag)}"


def named(made: MadeObject, symbol: str) -> MadeObject:
    """Rename the function of an object and hide all other symbols; LLVM IR is compiled to an object first.

    Raises:
        CompileError: Stage ``jit``; the code is neither an object nor LLVM IR.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        before, after = os.path.join(folder, "before.o"), os.path.join(folder, "after.o")
        Path(before).write_bytes(made.code)
        if not made.code.startswith(ELF):
            text = os.path.join(folder, "before.ll")
            Path(text).write_bytes(made.code)
            run_tool("llc", "-O3", "-mcpu=native", "-relocation-model=pic", "-filetype=obj", text, "-o", before)
        rename = [f"--redefine-sym={made.symbol}={symbol}", f"--keep-global-symbol={made.symbol}", "--strip-debug"]
        run_tool("llvm-objcopy", *rename, before, after)
        return replace(made, symbol=symbol, code=Path(after).read_bytes())


def run_tool(name: str, *arguments: str) -> None:
    """Run an LLVM tool on the code of a backend.

    Raises:
        CompileError: Stage ``jit``; the tool fails.
    """
    done = subprocess.run([find_tool(name), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError("jit", f"a back end must make an object or LLVM IR, {name} says: {first_lines(done.stderr)}")
