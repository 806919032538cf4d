"""Emitted libraries for tests: linked once, called from Python and from C."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from autotune.contrib.emit.c_library import write_c
from autotune.contrib.emit.c_source import SharedLibrary
from autotune.contrib.emit.levels import LEVELS, level_of
from autotune.contrib.emit.linking import find_compiler
from autotune.contrib.emit.standalone import CallArgument, Function
from autotune.contrib.emit.variants import compile_level
from autotune.contrib.emit.weights import read_weights, write_weights
from autotune.core.host.machine import this_machine
from autotune.core.payload import DTYPES
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

NEEDS_LINKER = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
VALGRIND, QEMU = shutil.which("valgrind"), shutil.which("qemu-x86_64")
BASE, OURS = "x86-64", level_of(this_machine()).name


def library_of(folder, spec, levels, threads=1):
    """A library of a payload by default schedules, with weights of seed 0."""
    payload = open_payload(spec) if isinstance(spec, str) else spec
    weights = [argument for argument in payload.arguments if argument.role == "weight"]
    if weights:
        write_weights(folder / "weights.safetensors", weights, payload.make_inputs(0))
    like = replace(this_machine(), threads=threads)
    with Worker(MODEL_SECONDS) as worker:
        codes = tuple(compile_level(payload, LEVELS[level], None, worker, like) for level in levels)
    return SharedLibrary(payload, codes, read_weights(folder / "weights.safetensors", weights) if weights else None)


def described(library):
    """Arguments of a library's call, for Python."""
    kinds = {"bf16": "uint16"}
    arguments = library.call_arguments
    return [CallArgument(name, a.role, kinds.get(a.dtype, DTYPES[a.dtype].name), a.shape) for a, name in arguments]


def linked(folder, library):
    """The function of a library."""
    path, _ = write_c(library, folder)
    return Function(path, library.name, described(library), library.weights.path if library.weights else None)


def agrees(function, payload, seed=0):
    """Whether a call gives what the reference computes."""
    values = payload.make_inputs(seed)
    given = {a.name: values[a.name].copy() for a in payload.arguments if a.role in ("input", "state")}
    expected = payload.reference(**values)
    results = function(**given)
    outputs = dict(
        zip((a.name for a in payload.outputs), results if isinstance(results, tuple) else (results,), strict=True)
    )
    return all(
        np.allclose({**given, **outputs}[argument.name], value, atol=1e-4)
        for argument, value in zip(payload.written, expected, strict=True)
    )


def build(folder, source, name):
    """A C program that is linked with a library, every warning an error; C++ would read the header too."""
    (folder / "main.c").write_text(source)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]
    command = [*find_compiler(), *strict, "main.c", "-I.", "-L.", f"-l{name}", f"-Wl,-rpath,{folder}", "-lpthread"]
    done = subprocess.run([*command, "-o", "main"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "main"


def output_of(*command, cwd=None):
    """What a program prints, and says on stderr."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr
