"""Payloads and scripts to be looked at step by step."""

import math
import re
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path

import mlir
from mlir import ir

from autotune.compiler.ir.module import context, copy_module, every_op
from autotune.contrib.debug.debugged import open_source
from autotune.contrib.debug.leaf import OPS, kind_of
from autotune.contrib.debug.record import DebugRequest, prepared, record_here
from autotune.contrib.debug.script_facts import ScriptFacts, matchers_in, probes_fit, sequence_of
from autotune.contrib.debug.stepper import DebugLimits

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
VALUE = re.compile(r"(%[\w.$-]+)((?=(?::\d+)? ?=)|(?=: ))?")  # with what follows it where it is defined
FORALL = re.compile(r"(?<=scf\.forall )\(%[^)]*\)")
ENTERED = ("transform.include", "transform.foreach", "transform.sequence")

MATMUL = """
func.func @f(%a: memref<{m}x{k}xf32>, %b: memref<{k}x{n}xf32>, %c: memref<{m}x{n}xf32>) {{
  %ta = bufferization.to_tensor %a restrict : memref<{m}x{k}xf32> to tensor<{m}x{k}xf32>
  %tb = bufferization.to_tensor %b restrict : memref<{k}x{n}xf32> to tensor<{k}x{n}xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %mm = linalg.matmul ins(%ta, %tb : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
    outs(%fill : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %out = tensor.empty() : tensor<{m}x{n}xf32>
  %twice = linalg.elementwise kind=#linalg.elementwise_kind<add>
    ins(%mm, %mm : tensor<{m}x{n}xf32>, tensor<{m}x{n}xf32>)
    outs(%out : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  bufferization.materialize_in_destination %twice in restrict writable %c
    : (tensor<{m}x{n}xf32>, memref<{m}x{n}xf32>) -> ()
  return
}}
"""


def payload_file(folder, m=32, n=32, k=32):
    """A file with a product and twice its result."""
    path = folder / "payload.mlir"
    path.write_text(MATMUL.format(m=m, n=n, k=k))
    return str(path)


def script(body, more=""):
    """A script of the whole payload."""
    return f"""module attributes {{transform.with_named_sequence}} {{
{more}
  transform.named_sequence @__transform_main(%module: !transform.any_op {{transform.readonly}}) {{
{body}
    transform.yield
  }}
}}
"""


def match(name, kind, where="%module"):
    """A match of ops of a kind."""
    return (
        f'%{name} = transform.structured.match ops{{["{kind}"]}} in {where} : (!transform.any_op) -> !transform.any_op'
    )


def tile(results, handle, sizes):
    """A tiling: results are the tile and a loop for each size that is not 0."""
    kinds = ", ".join(["!transform.any_op"] * len(results.split(",")))
    return (
        f"{results} = transform.structured.tile_using_for {handle} tile_sizes {sizes}"
        f" : (!transform.any_op) -> ({kinds})"
    )


def look(source, schedule=None, *, lowering=False):
    """A recording made here, and what mlir-opt prints behind each of its steps."""
    payload, candidate = open_source(source, schedule, None, "")
    request = DebugRequest(payload, candidate, lowering, DebugLimits(seconds=math.inf, cost_seconds=math.inf))
    return record_here(request), printed_by_mlir_opt(request)


def printed_by_mlir_opt(request):
    """What mlir-opt prints in one run of the script: behind every op that is applied, the payload and its handles."""
    with context():
        unit = prepared(request)
        own, facts = copy_module(unit.script), ScriptFacts.read(unit.script, unit.text)
        matchers, names = matchers_in(own), []
        for op, original in zip(every_op(own), every_op(unit.script), strict=True):
            names.append(facts.names_of(original))
            if probes_fit(op) and sequence_of(op) not in matchers and op.name not in ENTERED and is_a_step(op):
                print_behind(op, len(names) - 1)
        script, payload = str(own), str(unit.module)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in ("script.mlir", "payload.mlir")}
        files["script.mlir"].write_text(script)
        files["payload.mlir"].write_text(payload)
        library = f"--transform-preload-library=transform-library-paths={files['script.mlir']}"
        command = [MLIR_OPT, library, "--transform-interpreter", files["payload.mlir"]]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return [read_print(part, names) for part in done.stdout.split("[[[ IR printer: ")[1:]]


def is_a_step(op):
    """Whether an op is applied by itself, not by one around it."""
    return op.parent.name in ("transform.named_sequence", *ENTERED)


def print_behind(op, number):
    """Let a script print the payload behind an op, and remark upon what each of its handles points at."""
    behind = list(op.block.operations)
    place = next(index for index, each in enumerate(behind) if each.operation == op)
    with ir.InsertionPoint(behind[place + 1]), ir.Location.unknown():
        ir.Operation.create("transform.print", attributes={"name": ir.StringAttr.get(f"op {number}")})
        for index, result in enumerate(op.results):
            if kind_of(result.type) == OPS:
                message = {"message": ir.StringAttr.get(f"handle {index}")}
                ir.Operation.create("transform.debug.emit_remark_at", operands=[result], attributes=message)


@dataclass
class Printed:
    """What mlir-opt prints behind an op: lines of the payload, and the first line of every op of each handle."""

    lines: list[str]
    handles: dict[str, list[str]]


def read_print(text, names):
    """A print, and the remarks behind it."""
    head, _, rest = text.partition(" top-level ]]]\n")
    names = names[int(head.removeprefix("op "))]
    module, _, said = rest.partition("\n}\n")
    handles = {}
    for remark in re.split(r"^.*remark: handle ", said, flags=re.M)[1:]:
        about = remark.partition("note: see current operation: ")[2].splitlines()
        line = next(line for line in about if line and not line.startswith("#"))
        handles.setdefault(names[int(remark.split("\n")[0])], []).append(line.strip())
    return Printed(without_aliases([*module.splitlines(), "}"]), handles)


def without_aliases(lines):
    """Lines of a module with the attributes themselves in place of their names."""
    named = dict(line.split(" = ", 1) for line in lines if line.startswith("#"))
    rest = [line for line in lines if not line.startswith("#")]
    pattern = re.compile("|".join(rf"{re.escape(name)}(?!\w)" for name in sorted(named, key=len, reverse=True)))
    return [pattern.sub(lambda found: named[found[0]], line) for line in rest] if named else rest


def numbered(lines):
    """Lines with values numbered as they are defined, so that names make no difference; names may come again."""
    seen, defined = {}, count()

    def number(found):
        if found[2] is not None or found[1] not in seen:
            seen[found[1]] = f"%{next(defined)}"
        return seen[found[1]]

    return [VALUE.sub(number, FORALL.sub(as_definitions, line)) for line in lines]


def as_definitions(found):
    """Indices of a loop in the form that other definitions have."""
    return found[0].replace(",", "= ,").replace(")", "= )")


def check_every_step(found, printed):
    """Hold every step, and every handle that it makes, against what mlir-opt prints."""
    assert not found.message
    assert not found.notes
    counts = [sum(line.startswith(("%", "transform.")) for line in step.text.splitlines()) for step in found.steps]
    assert len(printed) == sum(counts)
    handles = 0
    for number, place in enumerate(accumulate(counts), 1):
        text, step, theirs = found.payload_after(number), found.steps[number - 1], printed[place - 1]
        assert numbered(text.lines) == numbered(theirs.lines), f"step {number}"
        ours = {each.name: each for each in found.handles_after(number) if each.frame == step.frame}
        at = defaultdict(set)  # names come again in other loops, so that a line may be that of several ops
        for line, op in zip(theirs.lines, text.ops, strict=True):
            at[line.strip()].add(op)
        for name, lines in theirs.handles.items():
            pointed, where = ours[name].ops, f"step {number}, {name}"
            assert len(set(pointed)) == len(pointed) == len(lines), where
            assert all(op in at[line] for op, line in zip(pointed, lines, strict=True)), where
            handles += 1
    return handles
