"""Evaluate scalar operations on loop indices and constants at compile time, for all iterations of a loop."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mlir import ir

from autotune.compiler.ir.values import maker
from autotune.core.payload import Array

Table = Array
OPS: dict[str, Callable[..., Any]] = {
    **{f"arith.{name}": lambda x: x for name in ("index_cast", "index_castui", "sitofp", "uitofp", "extf", "truncf")},
    **{f"arith.{name}": lambda x: x for name in ("extsi", "trunci")},
    "arith.fptosi": np.trunc,
    **{f"arith.add{kind}": np.add for kind in "fi"},
    **{f"arith.sub{kind}": np.subtract for kind in "fi"},
    **{f"arith.mul{kind}": np.multiply for kind in "fi"},
    "arith.divf": np.divide,
    "arith.floordivsi": np.floor_divide,
    **{f"arith.{name}": np.maximum for name in ("maximumf", "maxnumf", "maxsi")},
    **{f"arith.{name}": np.minimum for name in ("minimumf", "minnumf", "minsi")},
    **{f"arith.{name}": op for name, op in (("andi", np.bitwise_and), ("ori", np.bitwise_or))},
    "arith.select": np.where,
    "arith.negf": np.negative,
    **{f"math.{name}": op for name, op in (("floor", np.floor), ("ceil", np.ceil), ("roundeven", np.rint))},
}
SIGNED = {0: np.equal, 1: np.not_equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}
ORDERED = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal}
DTYPES = {"f32": "float32", "f64": "float64", "index": "int64", "i64": "int64", "i32": "int32", "i1": "bool"}


def loops_of(value: ir.Value) -> frozenset[int] | None:
    """Return the loops whose indices a value in a body depends on; `None` if it depends on anything but indices."""
    producer = maker(value)
    if producer is None or str(value.type) not in DTYPES:
        return None
    if producer.name == "arith.constant":
        return frozenset()
    if producer.name == "linalg.index":
        return frozenset({int(ir.IntegerAttr(producer.attributes["dim"]).value)})
    if producer.name not in (*OPS, "arith.cmpi", "arith.cmpf") or comparison(producer) is None:
        return None
    operand_loops = [loops_of(operand) for operand in producer.operands]
    known = [loops for loops in operand_loops if loops is not None]
    return frozenset().union(*known) if len(known) == len(operand_loops) else None


def comparison(op: ir.Operation) -> Callable[..., Any] | None:
    """Return the NumPy function of a scalar operation or comparison; `None` if it is not supported."""
    predicates: Mapping[str, Mapping[int, Callable[..., Any]]] = {"arith.cmpi": SIGNED, "arith.cmpf": ORDERED}
    if op.name not in predicates:
        return OPS.get(op.name)
    return predicates[op.name].get(int(ir.IntegerAttr(op.attributes["predicate"]).value))


def table_of(value: ir.Value, size: int) -> Table:
    """Return the value in every iteration of the one loop that it depends on, in the dtype of the operation."""
    producer, dtype = value.owner.operation, DTYPES[str(value.type)]
    if producer.name == "linalg.index":
        return np.arange(size, dtype=dtype)
    if producer.name == "arith.constant":
        constant = producer.attributes["value"]
        return np.full(
            size, ir.FloatAttr(constant).value if "float" in dtype else ir.IntegerAttr(constant).value, dtype=dtype
        )
    function = comparison(producer)
    if function is None:
        raise TypeError(f"a table must be made by known ops, got {producer.name}")
    with np.errstate(all="ignore"):
        return np.asarray(function(*(table_of(operand, size) for operand in producer.operands))).astype(dtype)
