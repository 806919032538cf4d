"""Calling an emitted program from C, as somebody who has nothing but its object and its header."""

import shutil
import subprocess

import numpy as np
import pytest

from autotune.bundles.c_header import c_header
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.core.c_names import c_name
from autotune.core.candidate import Claim
from autotune.core.payload import DTYPES
from autotune.tuning.stages.record import weight_record

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
NEEDS_C = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler: cc, gcc or clang")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
EXPECTED_TYPES = {
    "f32": "float",
    "f64": "double",
    "i32": "int32_t",
    "i64": "int64_t",
    "i8": "int8_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
}


def emit(payload, candidate, folder, about="a test"):
    """Write a payload's object and header as `replay --emit` does; gives the weights that are stored in panels."""
    stem = c_name(payload.entry)
    found = emit_program(Emission(Claim(payload, candidate), "object"))
    (folder / f"{stem}.o").write_bytes(found.data)
    weights = [weight_record(payload, weight) for weight in found.weights]
    (folder / f"{stem}.h").write_text(c_header(payload.entry, payload.arguments, weights, about, found))
    return weights


def build(folder, source, stem):
    """Compile a C program with every warning an error, and link it with the object."""
    (folder / "main.c").write_text(source)
    command = [COMPILER, "-std=c11", *STRICT, "-O1", "-pie", "-fPIE", "main.c", f"{stem}.o", "-lm", "-o", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def call_from_c(folder, payload, weights, values):
    """What a C program finds in the written arguments after one call, by name."""
    stem = c_name(payload.entry)
    build(folder, c_program(payload, weights, stem), stem)
    values = [values[a.name] for a in payload.arguments if a.role != "output"]
    (folder / "in").write_bytes(b"".join(np.ascontiguousarray(value).tobytes() for value in values))
    subprocess.run(["./main"], cwd=folder, check=True)
    out = np.fromfile(folder / "out", np.uint8)
    ends = np.cumsum([a.bytes for a in payload.written])
    assert len(out) == ends[-1]
    parts = np.split(out, ends[:-1])
    return {a.name: part.view(DTYPES[a.dtype]).reshape(a.shape) for a, part in zip(payload.written, parts, strict=True)}


def c_program(payload, weights, stem):
    """A C program that reads inputs and states from a file, and writes states and outputs to another.

    The function pointer is of the only type that is right: a missing or needless ``const`` does not compile.
    """
    dtypes = {a.name: a.dtype for a in payload.arguments}
    arrays, types, reads, prepares, writes = [], [], [], [], []
    for i, a in enumerate(payload.arguments):
        kind = EXPECTED_TYPES[a.dtype]
        arrays.append(f"static {kind} a{i}[{int(np.prod(a.shape))}];")
        types.append(f"{'' if a.role in ('state', 'output') else 'const '}{kind} *")
        if a.role != "output":
            reads.append(f"if (fread(a{i}, sizeof a{i}, 1, source) != 1) return 1;")
        if a.role in ("state", "output"):
            writes.append(f"fwrite(a{i}, sizeof a{i}, 1, target);")
    place = {a.name: i for i, a in enumerate(payload.arguments)}
    for i, w in enumerate(weights):
        kind = EXPECTED_TYPES[w.dtype(dtypes[w.argument])]
        arrays.append(f"static {kind} p{i}[{int(np.prod(w.stored_shape))}];")
        types.append(f"const {kind} *")
        prepares.append(f"{stem}_prepare_{w.argument}_panels_{i}(a{place[w.argument]}, p{i});")
    names = [f"a{i}" for i in range(len(payload.arguments))] + [f"p{i}" for i in range(len(weights))]
    body = [
        f"void (*const call)({', '.join(types)}) = {stem};",
        'FILE *source = fopen("in", "rb"), *target = fopen("out", "wb");',
        *reads,
        *prepares,
        f"call({', '.join(names)});",
        *writes,
        "return fclose(target);",
    ]
    lines = [f'#include "{stem}.h"', "#include <stdio.h>", *arrays, "int main(void) {", *(f"  {s}" for s in body), "}"]
    return "\n".join(lines) + "\n"
