"""What a host does with the kernels of a payload of several tasks: a list of launches, on views of its buffers.

    tagged payload --stand-ins--> one op a kernel --bufferize, arena--> memrefs --walk--> launches

Loops are run here, so that the list is flat. All intermediates lie in one buffer; arguments are never copied as a
whole, so that weights stay where they are. Views with gaps, or that begin where no binding may, are copied by a kernel.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlir import ir

from autotune.compiler.ir.module import context, find_function, parse, run_passes
from autotune.compiler.passes.arena import NAME, plan_arena
from autotune.compiler.tasks.carried import BUFFERIZE
from autotune.compiler.tasks.stand_ins import close_gaps, stand_in_for_tasks
from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.kernel import Kernel, outline, read_kernel, width_of
from autotune.core.errors import CompileError
from autotune.core.payload import Payload
from autotune.core.scripts.marks import KERNEL

ALIGNMENT = (
    64  # bytes at whose multiples bindings begin; Vulkan lets devices ask for up to 256, most ask for 64 or less
)
MOVE_THREADS = 64  # of a block that copies or fills
PREPARED = f"builtin.module(canonicalize,cse,{BUFFERIZE},canonicalize,cse,lower-affine,canonicalize)"

WHOLE = {"arith.addi": operator.add, "arith.subi": operator.sub, "arith.muli": operator.mul}
VIEWS = ("memref.view", "memref.subview", "memref.expand_shape", "memref.collapse_shape", "memref.cast")

MOVE = """
func.func @{verb}({arguments}) {{
  %one = arith.constant 1 : index
  %blocks = arith.constant {blocks} : index
  %threads = arith.constant {threads} : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %one, %gz = %one)
      threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %one, %sz = %one) {{
    %n = affine.apply affine_map<(d0, d1) -> (d0 * {threads} + d1)>(%bx, %tx)
    %count = arith.constant {count} : index
    %inside = arith.cmpi ult, %n, %count : index
    scf.if %inside {{
      %w = affine.apply affine_map<(d0) -> ({index})>(%n)
{lines}
      memref.store %v, %to[%w] : {kind}
    }}
    gpu.terminator
  }}
  return
}}"""


@dataclass(frozen=True)
class HostSource:
    """A payload whose tasks all have kernels.

    Attributes:
        payload: The payload, its tasks tagged.
        kernels: Kernel of every task, by tag.
        types: Memref types of the operands of every task, by tag.
        device: What kernels are for.
    """

    payload: Payload
    kernels: Mapping[str, Kernel]
    types: Mapping[str, tuple[str, ...]]
    device: Device


@dataclass(frozen=True)
class Binding:
    """What a launch gives a kernel: bytes of a buffer.

    Attributes:
        buffer: Number of an argument of the payload; one more than the last is the buffer of intermediates.
        offset: First byte of them.
        size: Bytes.
    """

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True)
class Launch:
    """A kernel on buffers.

    Attributes:
        kernel: Name of the kernel: the tag of its task, or that of a copy.
        bindings: Binding of each of the kernel's arguments, in its order.
    """

    kernel: str
    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class NamedKernel:
    """A kernel under the name that launches know it by."""

    name: str
    kernel: Kernel


@dataclass(frozen=True)
class HostPlan:
    """What a host must do.

    Attributes:
        launches: Launches in order, each after the last one is done.
        arena_bytes: Bytes of the buffer of intermediates.
        separate_bytes: Bytes that they would take each alone.
        copies: Kernels that copy or fill.
    """

    launches: tuple[Launch, ...]
    arena_bytes: int
    separate_bytes: int
    copies: tuple[NamedKernel, ...]

    @property
    def copied(self) -> int:
        """Number of launches that copy or fill."""
        names = {copy.name for copy in self.copies}
        return sum(launch.kernel in names for launch in self.launches)


@dataclass(frozen=True)
class BufferView:
    """A view of a buffer; numbers but that of the buffer count elements.

    Attributes:
        buffer: Number of the buffer.
        offset: First element, in bytes.
        kind: Type, for shape and strides.
    """

    buffer: int
    offset: int
    kind: ir.MemRefType

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return width_of(self.kind.element_type) // 8

    @property
    def shape(self) -> list[int]:
        """Its sizes."""
        return list(self.kind.shape)

    @property
    def strides(self) -> list[int]:
        """Elements from one to the next, of every dimension."""
        return list(self.kind.get_strides_and_offset()[0])

    @property
    def span(self) -> int:
        """Bytes from the first to behind the last element."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.width

    def moved(self, elements: int, kind: ir.MemRefType) -> "BufferView":
        """A view of it."""
        return BufferView(self.buffer, self.offset + elements * self.width, kind)


def plan_host(source: HostSource) -> HostPlan:
    """Plan the launches of a payload.

    Raises:
        CompileError: An op is left that no kernel computes.
    """
    payload = source.payload
    with context():
        module = parse(payload.text, payload.name)
        stand_in_for_tasks(find_function(module, payload.entry), source.types)
        run_passes(module, PREPARED)
        close_gaps(module)
        arena = plan_arena(module)
        walk = HostWalk(source, arena.peak_bytes)
        entry = find_function(module, payload.entry).regions[0].blocks[0]
        for number, argument in enumerate(entry.arguments):
            walk.values[argument] = BufferView(number, 0, ir.MemRefType(argument.type))
        walk.run(entry)
        copies = tuple(NamedKernel(name, kernel) for name, kernel in walk.copies.items())
        return HostPlan(tuple(walk.launches), walk.arena_bytes, arena.naive_bytes, copies)


@dataclass
class HostWalk:
    """The ops of a host, one after the other.

    Attributes:
        source: Kernels.
        arena_bytes: Bytes of intermediates so far.
        values: Numbers and views, by SSA value.
        launches: What was launched.
        copies: Kernels that copy or fill, by name.
        fills: What those that fill write, and where.
    """

    source: HostSource
    arena_bytes: int
    values: dict[ir.Value, Any] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    copies: dict[str, Kernel] = field(default_factory=dict)
    fills: dict[str, tuple[str, list[int], list[int]]] = field(default_factory=dict)

    def run(self, block: ir.Block) -> list[Any]:
        """Run a block; gives what it yields."""
        for each in block.operations:
            op = each.operation
            if op.name in ("scf.yield", "func.return"):
                return [self.values[value] for value in op.operands]
            self.step(op)
        return []

    def step(self, op: ir.Operation) -> None:
        """Run one op.

        Raises:
            CompileError: A host has no form of it.
        """
        if op.name == "arith.constant":
            self.values[op.results[0]] = number_of(op)
        elif op.name in WHOLE:
            first, second = (self.values[value] for value in op.operands)
            self.values[op.results[0]] = WHOLE[op.name](first, second)
        elif op.name == "memref.get_global" and NAME in str(op.attributes["name"]):
            kind = ir.MemRefType(op.results[0].type)
            self.values[op.results[0]] = BufferView(len(self.source.payload.arguments), 0, kind)
        elif op.name in VIEWS:
            self.view(op)
        elif op.name == "scf.for":
            self.repeat(op)
        elif KERNEL in op.attributes:
            self.launch(ir.StringAttr(op.attributes[KERNEL]).value, [self.values[value] for value in op.operands])
        elif op.name in ("linalg.copy", "memref.copy"):
            self.copy(*(self.values[value] for value in list(op.operands)[:2]))
        elif op.name == "linalg.fill":
            self.fill(*(self.values[value] for value in op.operands))
        elif op.name != "memref.dealloc":
            raise CompileError("lower", f"a host of kernels must launch and copy alone, {op.name} has no kernel")

    def view(self, op: ir.Operation) -> None:
        """An op that gives a part or another shape of a buffer."""
        region, kind = self.values[op.operands[0]], ir.MemRefType(op.results[0].type)
        if op.name == "memref.view":
            self.values[op.results[0]] = BufferView(region.buffer, region.offset + self.values[op.operands[1]], kind)
            return
        elements = 0
        if op.name == "memref.subview":
            given = iter([self.values[value] for value in list(op.operands)[1:]])
            offsets = [int(each) for each in ir.DenseI64ArrayAttr(op.attributes["static_offsets"])]
            dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
            offsets = [next(given) if each == dynamic else each for each in offsets]
            elements = sum(at * stride for at, stride in zip(offsets, region.strides, strict=True))
        self.values[op.results[0]] = region.moved(elements, kind)

    def repeat(self, op: ir.Operation) -> None:
        """A loop, all of its turns."""
        low, high, step, *carried = (self.values[value] for value in op.operands)
        body = op.regions[0].blocks[0]
        for number in range(low, high, step):
            for argument, value in zip(body.arguments, [number, *carried], strict=True):
                self.values[argument] = value
            carried = self.run(body)
        for result, value in zip(op.results, carried, strict=True):
            self.values[result] = value

    def launch(self, tag: str, regions: list[BufferView]) -> None:
        """Launch a kernel; what begins where no binding may goes by way of a copy."""
        *read, written = regions
        near = [region if region.offset % ALIGNMENT == 0 else self.aside(region) for region in read]
        for region, other in zip(read, near, strict=True):
            if other is not region:
                self.copy(region, other)
        into = written if written.offset % ALIGNMENT == 0 else self.aside(written)
        whole = [Binding(region.buffer, region.offset, region.span) for region in (*near, into)]
        self.launches.append(Launch(tag, tuple(whole[number] for number in self.source.kernels[tag].arguments)))
        if into is not written:
            self.copy(into, written)

    def aside(self, region: BufferView) -> BufferView:
        """Memory like a view, without gaps, behind all other intermediates."""
        offset = -(-self.arena_bytes // ALIGNMENT) * ALIGNMENT
        self.arena_bytes = offset + prod(region.shape) * region.width
        kind = ir.MemRefType.get(region.shape, region.kind.element_type)
        return BufferView(len(self.source.payload.arguments), offset, kind)

    def copy(self, read: BufferView, written: BufferView) -> None:
        """Launch a copy."""
        name = named("copy", read.shape, layout(read), layout(written))
        if name not in self.copies:
            self.copies[name] = copy_kernel(read, written, self.source.device)
        both = [whole_of(each) for each in (read, written)]
        self.launches.append(Launch(name, tuple(both[number] for number in self.copies[name].arguments)))

    def fill(self, number: str, written: BufferView) -> None:
        """Launch what writes a number everywhere."""
        same = next(
            (name for name, known in self.fills.items() if known == (number, written.shape, layout(written))), ""
        )
        name = same or f"{named('fill', written.shape, layout(written))}_{len(self.fills)}"
        if not same:
            self.fills[name] = (number, written.shape, layout(written))
            self.copies[name] = fill_kernel(number, written, self.source.device)
        self.launches.append(Launch(name, (whole_of(written),)))


def named(verb: str, *sizes: list[int]) -> str:
    """Name of a kernel that does something with views of some sizes."""
    return "_".join((verb, *("x".join(map(str, each)) for each in sizes)))


def number_of(op: ir.Operation) -> int | str:
    """A constant: a whole number that a host counts with, or the text of one that it writes."""
    value = op.attributes["value"]
    return int(ir.IntegerAttr(value).value) if isinstance(value, ir.IntegerAttr) else str(value)


def start_of(region: BufferView) -> int:
    """The last byte before a view at which a binding may begin."""
    return region.offset // ALIGNMENT * ALIGNMENT


def whole_of(region: BufferView) -> Binding:
    """A binding that holds a view."""
    start = start_of(region)
    return Binding(region.buffer, start, region.offset + region.span - start)


def layout(region: BufferView) -> list[int]:
    """Strides of a view, and how many elements its binding begins before it."""
    return [*region.strides, (region.offset - start_of(region)) // region.width]


def copy_kernel(read: BufferView, written: BufferView, device: Device) -> Kernel:
    """A kernel that copies the elements of a view to another one, a thread each."""
    kind = flat_type(read)
    lines = f"""
      %r = affine.apply affine_map<(d0) -> ({index_expr(read.shape, read)})>(%n)
      %v = memref.load %from[%r] : {kind}"""
    return move_kernel("copy", f"%from: {kind}, ", lines, written, device)


def fill_kernel(number: str, written: BufferView, device: Device) -> Kernel:
    """A kernel that writes one number to all elements of a view, a thread each."""
    return move_kernel("fill", "", f"      %v = arith.constant {number}", written, device)


def move_kernel(verb: str, arguments: str, lines: str, written: BufferView, device: Device) -> Kernel:
    """A kernel whose threads write ``%v`` to an element of a view each.

    Args:
        verb: What it is called.
        arguments: Arguments besides the view that is written.
        lines: What makes ``%v`` of the element's number ``%n``.
        written: The view.
        device: What it is for.
    """
    count, kind = prod(written.shape), flat_type(written)
    text = MOVE.format(
        verb=verb,
        arguments=f"{arguments}%to: {kind}",
        lines=lines,
        kind=kind,
        index=index_expr(written.shape, written),
        count=count,
        threads=MOVE_THREADS,
        blocks=-(-count // MOVE_THREADS),
    )
    module = parse(text, verb)
    outline(module)
    return read_kernel(module, device)


def flat_type(region: BufferView) -> str:
    """Type of the binding that holds a view, as a memref of one dimension."""
    return f"memref<{whole_of(region).size // region.width}x{region.kind.element_type}>"


def index_expr(shape: list[int], region: BufferView) -> str:
    """Where element ``d0`` of a shape lies in the binding of a view, as an affine expression."""
    *strides, first = layout(region)
    terms, inner = [str(first)], 1
    for size, stride in reversed(list(zip(shape, strides, strict=True))):
        terms.append(f"((d0 floordiv {inner}) mod {size}) * {stride}")
        inner *= size
    return " + ".join(terms)
