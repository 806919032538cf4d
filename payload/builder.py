"""Write MLIR text: fresh SSA names, indentation, one function per module."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from autotune.core.payload import WRITTEN, Argument


class DynamicSize(int):
    """A tensor size known only at run time; as an integer, its upper bound.

    Attributes:
        name: SSA value of type ``index`` that holds the size.
    """

    name: str

    def __new__(cls, bound: int, name: str) -> "DynamicSize":
        """Create a size of at most `bound`, held by the index value `name`."""
        extent = super().__new__(cls, bound)
        extent.name = name
        return extent

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return int(self), self.name


@dataclass(frozen=True)
class Value:
    """An SSA value of tensor type.

    Attributes:
        name: Name of the value with its percent sign, such as ``%qkv``.
        shape: Sizes, outermost first; one known only at run time is a `DynamicSize`.
        dtype: MLIR element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def type(self) -> str:
        """MLIR type, such as ``tensor<32x64xf32>``."""
        return tensor_type(self.shape, self.dtype)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


class Builder:
    """Builder of one function body: collects its lines and generates unique SSA names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._uses: dict[str, int] = {}
        self._indent = "    "

    def fresh(self, name: str) -> str:
        """Return a name that is not in use: ``%scores``, then ``%scores_2``, and so on."""
        self._uses[name] = self._uses.get(name, 0) + 1
        return f"%{name}" if self._uses[name] == 1 else self.fresh(f"{name}_{self._uses[name]}")

    def emit(self, *lines: str) -> None:
        """Append lines at the current indentation."""
        self.lines.extend(self._indent + line for line in lines)

    def define(self, name: str, shape: tuple[int, ...], op: str, dtype: str = "f32") -> Value:
        """Emit ``%name = op`` and return the tensor it defines."""
        value = Value(self.fresh(name), shape, dtype)
        self.emit(f"{value.name} = {op}")
        return value

    def index(self, name: str, value: int) -> str:
        """Emit an index constant and return its name."""
        name = self.fresh(name)
        self.emit(f"{name} = arith.constant {value} : index")
        return name

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent what is emitted inside the ``with`` block by one level."""
        outer, self._indent = self._indent, self._indent + "  "
        yield
        self._indent = outer


def tensor_type(shape: Sequence[int], dtype: str = "f32") -> str:
    """Return the MLIR tensor type of a shape."""
    sizes = ("?" if isinstance(size, DynamicSize) else str(size) for size in shape)
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{dtype}>"


def affine_map(rank: int, dims: Sequence[int]) -> str:
    """Return the projection of `rank` dimensions onto `dims`: ``affine_map<(d0, d1) -> (d1)>``."""
    loops = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({loops}) -> ({', '.join(f'd{i}' for i in dims)})>"


def for_each(
    f: Builder, count: int, carried: Sequence[Value], body: Callable[[str, list[Value]], Sequence[Value]]
) -> list[Value]:
    """Emit an ``scf.for`` over ``0..count`` with tensor iteration arguments, each of which bufferizes in place.

    The first value that an iteration yields is materialized in its iteration argument, because one-shot bufferization
    rejects a loop that yields another buffer. The other yielded values must be the iteration arguments themselves with
    slices inserted.

    Args:
        f: Builder that ops are appended to.
        count: Trip count.
        carried: Initial values of the iteration arguments.
        body: Callback that emits one iteration from the induction variable and the iteration arguments, and returns
            the values to yield.
    """
    start, stop, step = f.index("start", 0), f.index("stop", count), f.index("step", 1)
    index = f.fresh("layer")
    iter_args = [replace(value, name=f.fresh(f"{value.name[1:]}_in")) for value in carried]
    results_name = f.fresh(f"{carried[0].name[1:]}_out")
    inits = ", ".join(f"{argument.name} = {value.name}" for argument, value in zip(iter_args, carried, strict=True))
    types = ", ".join(value.type for value in carried)
    results = f"{results_name}:{len(carried)}" if len(carried) > 1 else results_name
    f.emit(f"{results} = scf.for {index} = {start} to {stop} step {step} iter_args({inits}) -> ({types}) {{")
    with f.indented():
        first, *updated = body(index, iter_args)
        same = f"({first.type}, {first.type}) -> {first.type}"
        text = f"bufferization.materialize_in_destination {first.name} in {iter_args[0].name} : {same}"
        yielded = [f.define("kept", first.shape, text), *updated]
        f.emit(f"scf.yield {', '.join(value.name for value in yielded)} : {types}")
    f.emit("}")
    names = [f"{results_name}#{i}" for i in range(len(carried))] if len(carried) > 1 else [results_name]
    return [replace(value, name=name) for value, name in zip(carried, names, strict=True)]


def write_function(
    entry: str,
    arguments: Sequence[Argument],
    body: Callable[[Builder, dict[str, Value]], Sequence[Value]],
    *,
    ranged: Collection[str] = (),
) -> list[str]:
    """Write a public function over memrefs whose body computes on tensors.

    Args:
        entry: Name of the function.
        arguments: Memref arguments of the function; all but the outputs are read as tensors.
        body: Callback that emits the computation from the tensors by argument name, and returns the final values of
            states and outputs in the order of the arguments. A state must be its own tensor with slices inserted.
        ranged: Names of integer arguments whose value range is written as attributes, for a reader of the text alone.
    """
    f = Builder()
    memrefs = {argument.name: f.fresh(f"{argument.name}_memref") for argument in arguments}
    tensors = {a.name: read_argument(f, a, memrefs[a.name]) for a in arguments if a.role != "output"}
    written = [argument for argument in arguments if argument.role in WRITTEN]
    for argument, result in zip(written, body(f, tensors), strict=True):
        f.emit(
            f"bufferization.materialize_in_destination {result.name} in restrict writable {memrefs[argument.name]} : "
            f"({result.type}, {argument.type}) -> ()"
        )
    f.emit("return")
    ranges = {a.name: f" {{autotune.low = {int(a.low)}, autotune.high = {int(a.high)}}}" for a in arguments}
    signature = ",\n      ".join(
        f"{memrefs[a.name]}: {a.type}{ranges[a.name] if a.name in ranged else ''}" for a in arguments
    )
    return [f"  func.func @{entry}(", f"      {signature}) {{", *f.lines, "  }"]


def read_argument(f: Builder, argument: Argument, memref: str) -> Value:
    """Read a memref argument as a tensor (``bufferization.to_tensor``)."""
    writable = " writable" if argument.role == "state" else ""
    result_type = tensor_type(argument.shape, argument.dtype)
    text = f"bufferization.to_tensor {memref} restrict{writable} : {argument.type} to {result_type}"
    return f.define(argument.name, argument.shape, text, argument.dtype)


def write_module(*functions: Sequence[str]) -> str:
    """Write a module from functions, each a sequence of lines."""
    return "\n".join(["module {", *(line for function in functions for line in function), "}"]) + "\n"
