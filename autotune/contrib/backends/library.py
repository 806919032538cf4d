"""Users' micro-kernels: C source or an object file, and a contract in TOML that says which tasks it computes.

    symbol = "fast_matmul"             the function
    source = "fast_matmul.c"           or object = "fast_matmul.o"
    flags = ["-O3", "-march=native"]   of the C compiler
    pass = ["m", "n", "k"]             sizes that follow the pointers, each an int64_t

    [computes]
    op = "matmul"                      or "batch_matmul"; or task = "softmax_*", a tag of `show --stage tasks`
    transposed_b = false
    sizes = { n = { multiple_of = 16 }, k = { least = 4, most = 4096 }, m = 128 }

    [knobs]
    ROWS = [4, 6, 8]                   each a macro of the compiler

Inputs come first, the output last; sizes of a product are macros too: ``M``, ``N``, ``K``, ``BATCH``.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.core.c_names import identifier
from autotune.core.errors import CompileError, ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.core.plugs.external_kernel import MadeObject
from autotune.core.printable import first_lines
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task

COMPILER = "cc"
MOST_BYTES = 1 << 20  # of a contract
KEYS = {"symbol", "source", "object", "flags", "pass", "computes", "knobs"}
COMPUTES = {"op", "task", "dtype", "transposed_a", "transposed_b", "sizes"}
BOUNDS = {"least", "most", "multiple_of"}
OPS = ("matmul", "batch_matmul")
SIZES = ("batch", "m", "n", "k")


@dataclass(frozen=True)
class Contract:
    """The description of a user's function.

    Attributes:
        path: File of the contract.
        symbol: Name of the function.
        source: C source file; empty for an object.
        object: Object file; empty for C source.
        flags: Flags of the C compiler.
        passes: Sizes that the function takes after its pointers.
        computes: Conditions on the tasks that it computes.
        knobs: Values of each macro that is a knob.
    """

    path: Path
    symbol: str
    source: str = ""
    object: str = ""
    flags: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    computes: Mapping[str, Any] = field(default_factory=dict)
    knobs: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)

    @property
    def code(self) -> Path:
        """Path of the C source or object file."""
        return self.path.parent / (self.source or self.object)


@dataclass(frozen=True)
class Library:
    """A user's function as a backend, named after the file of its contract."""

    contract: Contract

    @property
    def name(self) -> str:
        """Name of the contract's file without its suffix, as an identifier."""
        return identifier(self.contract.path.stem)

    def missing(self) -> str:
        """Return a sentence if the C compiler is required and missing."""
        if not self.contract.source or shutil.which(COMPILER):
            return ""
        return f"{self.contract.path} needs a C compiler, {COMPILER} is not there; install one, or give an object"

    def version(self) -> str:
        """Return the hash of contract and code, and the version of the compiler."""
        return f"{self._digest}{f', {self._compiler}' if self.contract.source else ''}"

    @cached_property
    def _digest(self) -> str:
        parts = (self.contract.path.read_bytes(), self.contract.code.read_bytes())
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    @cached_property
    def _compiler(self) -> str:
        done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=False)
        return first_lines(done.stdout, 1)

    def refuses(self, task: Task, machine: Machine) -> str:
        """Return why the function does not compute a task."""
        computes = self.contract.computes
        if "task" in computes:
            return "" if fnmatchcase(task.tag, computes["task"]) else f"is for tasks called {computes['task']}"
        product = task.contraction
        if product is None or len(task.payload.arguments) != 3 or product.batched != (computes["op"] == "batch_matmul"):
            return f"computes {computes['op']} alone, from zero"
        return next((why for why in broken_terms(product, computes)), "")

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the contract's knobs as a search space."""
        return Space(tuple(Knob(name, values) for name, values in self.contract.knobs.items()))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the first value of each knob."""
        return {name: values[0] for name, values in self.contract.knobs.items()}

    def make(self, task: Task, config: Config, machine: Machine) -> MadeObject:
        """Compile the function for the task's sizes, which are macros ``M``, ``N``, ``K``, ``BATCH``.

        Raises:
            CompileError: Stage ``lower``; the compiler fails.
        """
        contract, sizes_by_name = self.contract, sizes_of(task.contraction)
        sizes = tuple(sizes_by_name[name] for name in contract.passes)
        if not contract.source:
            code = contract.code.read_bytes()
            return MadeObject(
                contract.symbol, code, sizes, f"{contract.object}, an object of its own", str(contract.path)
            )
        macros = {name.upper(): size for name, size in sizes_by_name.items()} | dict(config)
        flags = [*contract.flags, *(f"-D{name}={value}" for name, value in macros.items())]
        made_by = f"{self._compiler}: {COMPILER} {' '.join(flags)} {contract.source}"
        return MadeObject(
            contract.symbol, compile_c(contract.code, flags), sizes, made_by, contract.code.read_text(encoding="utf-8")
        )


def open_library(argument: str) -> Library:
    """Kernels of your own C library, declared by a contract in TOML.

    Raises:
        ScheduleError: The contract does not exist or is invalid.
    """
    path = Path(argument)
    if not argument or not path.is_file():
        raise ScheduleError(f"back end library must be given a contract, as library:mine.toml; {argument!r} is no file")
    try:
        data = tomllib.loads(path.read_bytes()[:MOST_BYTES].decode())
    except ValueError as error:
        raise ScheduleError(f"{path} must be TOML, it is not: {error}") from error
    if wrong := next(broken_constraints(data, path.parent), ""):
        raise ScheduleError(f"{path} {wrong}")
    knobs = {name: tuple(values) for name, values in data.get("knobs", {}).items()}
    flags, passes = tuple(data.get("flags", ())), tuple(data.get("pass", ()))
    source, object_file = data.get("source", ""), data.get("object", "")
    return Library(Contract(path, data["symbol"], source, object_file, flags, passes, data["computes"], knobs))


def broken_constraints(data: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield the faults of a contract, each as the rest of a sentence that begins with its name."""
    for name in data.keys() - KEYS:
        yield f"must hold {', '.join(sorted(KEYS))} alone, it has {name!r}"
    if not isinstance(data.get("symbol"), str) or identifier(data["symbol"]) != data["symbol"]:
        yield f"must name the function as symbol, a name of C; got {data.get('symbol')!r}"
    files = [name for name in ("source", "object") if name in data]
    if len(files) != 1 or not isinstance(data[files[0]], str):
        yield "must name one file of C as source, or one object"
    elif not (folder / data[files[0]]).is_file():
        yield f"must name a file beside it, {data[files[0]]} is none"
    if not all(isinstance(each, str) for each in data.get("flags", ())):
        yield f"must list flags as texts, got {data['flags']!r}"
    yield from broken_constraints_of_task(data)
    for name, values in data.get("knobs", {}).items():
        plain = isinstance(values, list) and values and all(isinstance(v, int | str) for v in values)
        if identifier(name) != name or not plain or len(set(values)) < len(values):
            yield f"must give knob {name} a list of values that differ, got {values!r}"
    if data.get("knobs") and "object" in data:
        yield "must have knobs of C that is compiled, it names an object"


def broken_constraints_of_task(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a contract's conditions on tasks."""
    computes = data.get("computes")
    if not isinstance(computes, dict) or len({"op", "task"} & computes.keys()) != 1:
        yield "must say in [computes] which op, or which task, the function is of"
        return
    for name in computes.keys() - COMPUTES:
        yield f"must hold {', '.join(sorted(COMPUTES))} alone in [computes], it has {name!r}"
    if "op" in computes and computes["op"] not in OPS:
        yield f"must compute one of {', '.join(OPS)}, or name a task; got {computes['op']!r}"
    if "task" in computes and data.get("pass"):
        yield "must pass sizes of a matmul alone; leave out pass, the function of one task knows its sizes"
    for name in data.get("pass", ()):
        if name not in SIZES:
            yield f"must pass sizes of {', '.join(SIZES)}, got {name!r}"
    for name, bound_or_size in computes.get("sizes", {}).items():
        bounds = bound_or_size if isinstance(bound_or_size, dict) else {"least": bound_or_size}
        if name not in SIZES or not bounds.keys() <= BOUNDS or not all(is_size(bound) for bound in bounds.values()):
            pair = f"{name} = {bound_or_size!r}"
            yield f"must bound sizes {', '.join(SIZES)} by a number or {', '.join(sorted(BOUNDS))}; got {pair}"


def is_size(bound: object) -> bool:
    """Return whether a bound is a positive integer."""
    return type(bound) is int and bound > 0


def broken_terms(product: Contraction, computes: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a matrix product does not meet a contract's conditions."""
    dtype = computes.get("dtype", "f32")
    if product.dtype != dtype or product.stored_b:
        yield f"is for {dtype}"
    for name in ("transposed_a", "transposed_b"):
        if getattr(product, name) != computes.get(name, False):
            yield f"is for {name} = {str(computes.get(name, False)).lower()}"
    for name, required in computes.get("sizes", {}).items():
        size, bounds = (
            getattr(product, name),
            required if isinstance(required, dict) else {"least": required, "most": required},
        )
        if not bounds.get("least", 1) <= size <= bounds.get("most", size) or size % bounds.get("multiple_of", 1):
            yield f"is for {name} = {required}, this has {size}"


def sizes_of(product: Contraction | None) -> dict[str, int]:
    """Return the sizes of a matrix product by name; empty for another task."""
    return {name: getattr(product, name) for name in SIZES} if product is not None else {}


def compile_c(source: Path, flags: list[str]) -> bytes:
    """Compile a C source file to an object.

    Raises:
        CompileError: Stage ``lower``; the compiler fails.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        target = os.path.join(folder, "kernel.o")
        command = [COMPILER, "-c", "-fPIC", *flags, str(source), "-o", target]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError("lower", first_lines(done.stderr) or f"{COMPILER} ended with {done.returncode}")
        return Path(target).read_bytes()
