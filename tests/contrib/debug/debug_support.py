"""Payloads and scripts to be looked at step by step."""

import os
import re
import tempfile

from mlir import ir
from mlir.dialects.transform import interpreter

from autotune.compiler.ir.module import context, copy_module, every_op, symbol
from autotune.compiler.script.user_module import MAIN
from autotune.contrib.debug.record import DebugRequest, prepared
from autotune.contrib.debug.script_facts import matchers_in, probes_fit, sequence_of

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


def printed_by_upstream(payload, candidate, *, lowering=False):
    """What upstream's interpreter prints of the payload behind every op that a step is, in one run of the script."""
    with context():
        unit = prepared(DebugRequest(payload, candidate, lowering))
        own = copy_module(unit.script)
        matchers = matchers_in(own)
        for op in [each for each in every_op(own) if probes_fit(each) and sequence_of(each) not in matchers]:
            if op.name not in ENTERED and op.parent.name in ("transform.named_sequence", *ENTERED):
                behind = list(op.block.operations)
                place = next(i for i, each in enumerate(behind) if each.operation == op)
                with ir.InsertionPoint(behind[place + 1]), ir.Location.unknown():
                    ir.Operation.create("transform.print", attributes={"name": ir.StringAttr.get("step")})
        entry = next(op.operation for op in own.body.operations if symbol(op) == MAIN)
        with tempfile.TemporaryFile() as file:
            kept = os.dup(1)
            os.dup2(file.fileno(), 1)
            try:
                interpreter.apply_named_sequence(unit.module.operation, entry, own.operation)
            finally:
                os.dup2(kept, 1)
                os.close(kept)
            file.seek(0)
            said = file.read().decode()
    return re.split(r"\[\[\[ IR printer: step top-level \]\]\]\n", said)[1:]


def as_printed(texts):
    """Payloads as MLIR prints them."""
    with context():
        return [str(ir.Module.parse(text)) for text in texts]
