"""Compiles a payload with a plain lowering to scalar loops, and calls it."""

import ctypes
import re
from pathlib import Path

import mlir._mlir_libs as libraries
import numpy as np
from mlir.execution_engine import ExecutionEngine
from mlir.ir import Context, Location, Module, UnitAttr
from mlir.passmanager import PassManager
from mlir.runtime import get_ranked_memref_descriptor

from autotune.core.payload import DTYPES
from payload.weights import BLOCK, FINAL, TABLES

PIPELINE = (
    "builtin.module(eliminate-empty-tensors,one-shot-bufferize{bufferize-function-boundaries},canonicalize,"
    "ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations,cse,canonicalize,convert-linalg-to-loops,expand-strided-metadata,lower-affine,"
    "convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts)"
)
ENDLESS = """func.func @endless(%a: memref<1xf32>, %out: memref<1xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %most = arith.constant 1000000000000000 : index
  %begin = memref.load %a[%zero] : memref<1xf32>
  %end = scf.for %i = %zero to %most step %one iter_args(%x = %begin) -> f32 {
    %y = math.sin %x : f32
    scf.yield %y : f32
  }
  memref.store %end, %out[%zero] : memref<1xf32>
  return
}"""


def runner_library():
    return str(Path(libraries.__file__).parent.parent / "lib" / "libmlir_c_runner_utils.so")


class Program:
    """A payload as a callable: arrays of the non-output arguments by name, to its outputs."""

    def __init__(self, payload):
        self.payload = payload
        with Context(), Location.unknown():
            module = Module.parse(payload.text)
            for op in module.body.operations:
                op.operation.attributes["llvm.emit_c_interface"] = UnitAttr.get()
            PassManager.parse(PIPELINE).run(module.operation)
            self.engine = ExecutionEngine(module, opt_level=0, shared_libs=[runner_library()])
        self.function = self.engine.lookup(payload.entry)

    def __call__(self, **arrays):
        filled = {a.name: np.full(a.shape, np.nan, DTYPES[a.dtype]) for a in self.payload.outputs}
        arrays = {**{name: np.ascontiguousarray(array) for name, array in arrays.items()}, **filled}
        descriptors = [
            ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(arrays[a.name]))) for a in self.payload.arguments
        ]
        self.function((ctypes.c_void_p * len(descriptors))(*(ctypes.cast(d, ctypes.c_void_p) for d in descriptors)))
        return tuple(filled.values())


def outputs_and_reference(payload, seed=0):
    arrays = payload.make_inputs(seed)
    return Program(payload)(**arrays), payload.reference(**arrays)


def documented_payload():
    """The payload in Python that docs/how-to/payload.md shows."""
    page = Path(__file__).parent.parent / "docs" / "how-to" / "payload.md"
    (text,) = [text for text in re.findall(r"```python\n(.*?)```", page.read_text(), re.S) if "graph = (" in text]
    names = {"__name__": "documented"}
    exec(compile(text, page.name, "exec"), names)
    return names["perceptron"]({})


def hugging_face(weights, config, prefix="", dtype=np.float32):
    """Tensors by the names of a Hugging Face GPT-2 file, with those that are to be ignored."""
    tensors = {prefix + name: weights[ours] for ours, name in (TABLES | FINAL).items()}
    for layer in range(config.layers):
        tensors |= {f"{prefix}h.{layer}.{name}": weights[ours][layer] for ours, name in BLOCK.items()}
        size = config.positions
        tensors[f"{prefix}h.{layer}.attn.bias"] = np.tri(size, dtype=np.float32)[None, None]
    tensors["lm_head.weight"] = weights["wte"]
    return {name: np.ascontiguousarray(tensor, dtype) for name, tensor in tensors.items()}
