"""What a back end does, in a process of its own only: nothing here imports MLIR, whose LLVM may be another.

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
    """Tasks that a back end may cover.

    Attributes:
        spec: The back end, ``NAME`` or ``NAME:ARGUMENT``.
        tasks: The tasks.
        machine: Host that code is made for.
    """

    spec: str
    tasks: tuple[Task, ...]
    machine: Machine


@dataclass(frozen=True)
class Offers:
    """What a back end answers.

    Attributes:
        name: How records know it.
        version: What decides, besides task and config, which code it makes.
        offers: What it has for each task, in order.
    """

    name: str
    version: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Order:
    """Code that a back end is to make."""

    spec: str
    task: Task
    config: Config
    machine: Machine


@cache
def open_backend(spec: str) -> Backend:
    """The back end that a spec names.

    Raises:
        ScheduleError: No back end of that name is installed, or its argument is wrong.
        MachineError: Something that it needs is missing.
    """
    name, _, argument = spec.partition(":")
    opened = cast(Callable[[str], Backend], load_point(find_point(BACKENDS, "back end", name, ScheduleError)))(argument)
    if missing := opened.missing():
        raise MachineError(missing)
    return opened


def ask_offers(question: Question) -> Offers:
    """What a back end has for some tasks.

    Raises:
        ScheduleError: There is no such back end, or it fails.
        MachineError: Something that it needs is missing.
    """
    backend, machine = open_backend(question.spec), question.machine
    try:
        return Offers(backend.name, backend.version(), tuple(offer_of(backend, t, machine) for t in question.tasks))
    except AutotuneError:
        raise
    except Exception as error:  # external code
        raise ScheduleError(f"back end {question.spec} must not fail, it raised {message_of(error)}") from error


def offer_of(backend: Backend, task: Task, machine: Machine) -> Offer:
    """What a back end has for a task that is one output of inputs of known sizes; for others none has anything."""
    if len(task.payload.outputs) != 1 or task.grows or task.root.gathers or len(task.payload.arguments) < 2:
        return Offer("takes only tasks of one output with static sizes and indices")
    if refusal := backend.refuses(task, machine):
        return Offer(refusal)
    return Offer("", backend.space(task, machine), backend.default(task, machine))


def make(order: Order) -> ExternalKernel | Evaluation:
    """A task's code, under a name of its own; where it cannot be made, an `Evaluation` that says why."""
    try:
        backend = open_backend(order.spec)
        made = backend.make(order.task, order.config, order.machine)
        types = operand_types(order.task.payload)
        return ExternalKernel(order.task.tag, backend.name, types, named(made, symbol_of(backend.name, order.task.tag)))
    except CompileError as error:
        return Evaluation(FAILED_AT.get(error.stage, "transform-failed"), diagnostic=str(error))
    except AutotuneError:
        raise
    except Exception as error:  # external code
        return Evaluation("transform-failed", diagnostic=message_of(error))


def message_of(error: Exception) -> str:
    """Message of what external code raised, in a line."""
    return first_lines(f"{type(error).__name__}: {error}")


def symbol_of(backend: str, tag: str) -> str:
    """The name that a kernel has in a program: one that no other code has."""
    return f"autotune_kernel_{identifier(backend)}_{identifier(tag)}"


def named(made: MadeObject, symbol: str) -> MadeObject:
    """An object whose function has another name, the only one that it shows; made of LLVM IR where that is given.

    Raises:
        CompileError: Stage ``jit``; the bytes are neither.
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
    """Run a tool of LLVM's on what a back end made.

    Raises:
        CompileError: Stage ``jit``; the tool refuses it.
    """
    done = subprocess.run([find_tool(name), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError("jit", f"a back end must make an object or LLVM IR, {name} says: {first_lines(done.stderr)}")
