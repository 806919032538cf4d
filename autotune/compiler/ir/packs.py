"""Lower ``linalg.pack`` and ``linalg.unpack`` to pads, reshapes and transposes, which bufferization supports.

Upstream offers this lowering as transform ops only, so it is a script. It serves payloads without a schedule,
partitioned ones, and packs that a user script leaves.
"""

from textwrap import indent

from mlir import ir

from autotune.compiler.ir.module import every_name
from autotune.compiler.ir.scripts import run_script

PACKS = {"linalg.pack", "linalg.unpack"}

# `%module` is a handle to an op that contains the packs.
LOWER_PACKS = """\
// Packs become pads, reshapes and transposes.
%packs = transform.structured.match ops{["linalg.pack"]} in %module
  : (!transform.any_op) -> !transform.op<"linalg.pack">
transform.foreach %packs : !transform.op<"linalg.pack"> {
^bb0(%pack: !transform.op<"linalg.pack">):
  %pad, %expand, %transpose = transform.structured.lower_pack %pack : (!transform.op<"linalg.pack">)
    -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
}
%unpacks = transform.structured.match ops{["linalg.unpack"]} in %module
  : (!transform.any_op) -> !transform.op<"linalg.unpack">
transform.foreach %unpacks : !transform.op<"linalg.unpack"> {
^bb0(%unpack: !transform.op<"linalg.unpack">):
  %empty, %transpose, %collapse, %slice = transform.structured.lower_unpack %unpack
    : (!transform.op<"linalg.unpack">) -> (!transform.op<"tensor.empty">, !transform.op<"linalg.transpose">,
      !transform.op<"tensor.collapse_shape">, !transform.op<"tensor.extract_slice">)
}
"""

SCRIPT = f"""\
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: !transform.any_op {{transform.readonly}}) {{
{indent(LOWER_PACKS, "    ")}    transform.yield
  }}
}}
"""


def lower_packs(module: ir.Module) -> None:
    """Lower every pack and unpack of a module, in place.

    Raises:
        CompileError: Stage ``lower``; a pack or unpack cannot be lowered.
    """
    if PACKS.isdisjoint(every_name(module)):
        return
    run_script(module, SCRIPT)
