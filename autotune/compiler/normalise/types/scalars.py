"""Scalar ops on what is known beforehand: a value that follows from the counter of a loop, for all its iterations."""

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
    """The loops that a value in the body of an op follows from; `None` if it follows from something else."""
    made_by = maker(value)
    if made_by is None or str(value.type) not in DTYPES:
        return None
    if made_by.name == "arith.constant":
        return frozenset()
    if made_by.name == "linalg.index":
        return frozenset({int(ir.IntegerAttr(made_by.attributes["dim"]).value)})
    if made_by.name not in (*OPS, "arith.cmpi", "arith.cmpf") or comparison(made_by) is None:
        return None
    found = [loops_of(operand) for operand in made_by.operands]
    known = [loops for loops in found if loops is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def comparison(op: ir.Operation) -> Callable[..., Any] | None:
    """What an op does, also one that compares; `None` if that is not known."""
    kinds: Mapping[str, Mapping[int, Callable[..., Any]]] = {"arith.cmpi": SIGNED, "arith.cmpf": ORDERED}
    if op.name not in kinds:
        return OPS.get(op.name)
    return kinds[op.name].get(int(ir.IntegerAttr(op.attributes["predicate"]).value))


def table_of(value: ir.Value, size: int) -> Table:
    """A value that follows from one loop, in every iteration of it; as the op would compute it."""
    made_by, dtype = value.owner.operation, DTYPES[str(value.type)]
    if made_by.name == "linalg.index":
        return np.arange(size, dtype=dtype)
    if made_by.name == "arith.constant":
        held = made_by.attributes["value"]
        return np.full(size, ir.FloatAttr(held).value if "float" in dtype else ir.IntegerAttr(held).value, dtype=dtype)
    does = comparison(made_by)
    if does is None:
        raise TypeError(f"a table must be made by known ops, got {made_by.name}")
    with np.errstate(all="ignore"):
        return np.asarray(does(*(table_of(operand, size) for operand in made_by.operands))).astype(dtype)
