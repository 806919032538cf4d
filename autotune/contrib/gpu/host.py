"""Host program of a payload of several tasks: a list of kernel launches on views of its buffers.

    tagged payload --stand-ins--> one op a kernel --bufferize, arena--> memrefs --walk--> launches

Host loops are unrolled, so that the list is flat. All intermediates are in one buffer. Arguments are never copied as a
whole, so that weights stay in place. Non-contiguous or misaligned views are copied by a kernel.
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

ALIGNMENT = 64  # of bindings, in bytes; Vulkan allows devices to require up to 256, most require 64 or less
MOVE_THREADS = 64  # of a block of a copy or fill kernel
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
    """A payload all of whose tasks have kernels.

    Attributes:
        payload: Payload whose tasks are tagged.
        kernels: Kernel of every task, by tag.
        types: Memref types of the operands of every task, by tag.
        device: Target device.
    """

    payload: Payload
    kernels: Mapping[str, Kernel]
    types: Mapping[str, tuple[str, ...]]
    device: Device


@dataclass(frozen=True)
class Binding:
    """A byte range of a buffer that a launch binds to a kernel argument.

    Attributes:
        buffer: Index of an argument of the payload; one past the last is the buffer of intermediates.
        offset: Offset of the first byte.
        size: Size in bytes.
    """

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: Name of the kernel: the tag of its task, or the name of a copy or fill kernel.
        bindings: Binding of each of the kernel's arguments, in order.
    """

    kernel: str
    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class NamedKernel:
    """A kernel and the name by which launches refer to it."""

    name: str
    kernel: Kernel


@dataclass(frozen=True)
class HostPlan:
    """A host program.

    Attributes:
        launches: Launches in order; each starts after the previous one has finished.
        arena_bytes: Size of the buffer of intermediates, in bytes.
        separate_bytes: Total size of the intermediates without sharing memory, in bytes.
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
    """A strided view of a buffer.

    Attributes:
        buffer: Index of the buffer.
        offset: Offset of the first element, in bytes.
        kind: Memref type, for element type, shape and strides.
    """

    buffer: int
    offset: int
    kind: ir.MemRefType

    @property
    def width(self) -> int:
        """Size of an element, in bytes."""
        return width_of(self.kind.element_type) // 8

    @property
    def shape(self) -> list[int]:
        """Sizes of the dimensions."""
        return list(self.kind.shape)

    @property
    def strides(self) -> list[int]:
        """Stride of every dimension, in elements."""
        return list(self.kind.get_strides_and_offset()[0])

    @property
    def span(self) -> int:
        """Number of bytes from the first to the end of the last element."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.width

    def moved(self, elements: int, memref_type: ir.MemRefType) -> "BufferView":
        """Return a subview of another type, at an offset in elements."""
        return BufferView(self.buffer, self.offset + elements * self.width, memref_type)


def plan_host(source: HostSource) -> HostPlan:
    """Plan the launches of a payload.

    Raises:
        CompileError: An operation has no kernel.
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
    """Abstract execution of the host function, which collects launches.

    Attributes:
        source: Payload and kernels.
        arena_bytes: Size of the buffer of intermediates so far, in bytes.
        values: Integer or `BufferView` of every SSA value.
        launches: Launches so far.
        copies: Kernels that copy or fill, by name.
        fills: Constant, shape and layout of each fill kernel, by name.
    """

    source: HostSource
    arena_bytes: int
    values: dict[ir.Value, Any] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    copies: dict[str, Kernel] = field(default_factory=dict)
    fills: dict[str, tuple[str, list[int], list[int]]] = field(default_factory=dict)

    def run(self, block: ir.Block) -> list[Any]:
        """Run the operations of a block and return the values that it yields."""
        for each in block.operations:
            op = each.operation
            if op.name in ("scf.yield", "func.return"):
                return [self.values[value] for value in op.operands]
            self.step(op)
        return []

    def step(self, op: ir.Operation) -> None:
        """Run one operation.

        Raises:
            CompileError: The operation is not supported on the host.
        """
        if op.name == "arith.constant":
            self.values[op.results[0]] = number_of(op)
        elif op.name in WHOLE:
            first, second = (self.values[value] for value in op.operands)
            self.values[op.results[0]] = WHOLE[op.name](first, second)
        elif op.name == "memref.get_global" and NAME in str(op.attributes["name"]):
            memref_type = ir.MemRefType(op.results[0].type)
            self.values[op.results[0]] = BufferView(len(self.source.payload.arguments), 0, memref_type)
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
        """Run an operation that creates a view of a buffer."""
        region, view_type = self.values[op.operands[0]], ir.MemRefType(op.results[0].type)
        if op.name == "memref.view":
            self.values[op.results[0]] = BufferView(
                region.buffer, region.offset + self.values[op.operands[1]], view_type
            )
            return
        elements = 0
        if op.name == "memref.subview":
            operands = iter([self.values[value] for value in list(op.operands)[1:]])
            offsets = [int(each) for each in ir.DenseI64ArrayAttr(op.attributes["static_offsets"])]
            dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
            offsets = [next(operands) if each == dynamic else each for each in offsets]
            elements = sum(at * stride for at, stride in zip(offsets, region.strides, strict=True))
        self.values[op.results[0]] = region.moved(elements, view_type)

    def repeat(self, op: ir.Operation) -> None:
        """Run all iterations of a loop."""
        low, high, step, *carried = (self.values[value] for value in op.operands)
        body = op.regions[0].blocks[0]
        for number in range(low, high, step):
            for argument, value in zip(body.arguments, [number, *carried], strict=True):
                self.values[argument] = value
            carried = self.run(body)
        for result, value in zip(op.results, carried, strict=True):
            self.values[result] = value

    def launch(self, tag: str, regions: list[BufferView]) -> None:
        """Launch a kernel; misaligned operands are copied to or from an aligned temporary."""
        *read, written = regions
        aligned_inputs = [region if region.offset % ALIGNMENT == 0 else self.aside(region) for region in read]
        for region, aligned in zip(read, aligned_inputs, strict=True):
            if aligned is not region:
                self.copy(region, aligned)
        output = written if written.offset % ALIGNMENT == 0 else self.aside(written)
        bindings = [Binding(region.buffer, region.offset, region.span) for region in (*aligned_inputs, output)]
        self.launches.append(Launch(tag, tuple(bindings[number] for number in self.source.kernels[tag].arguments)))
        if output is not written:
            self.copy(output, written)

    def aside(self, region: BufferView) -> BufferView:
        """Allocate a contiguous temporary for a view, after all other intermediates."""
        offset = -(-self.arena_bytes // ALIGNMENT) * ALIGNMENT
        self.arena_bytes = offset + prod(region.shape) * region.width
        memref_type = ir.MemRefType.get(region.shape, region.kind.element_type)
        return BufferView(len(self.source.payload.arguments), offset, memref_type)

    def copy(self, read: BufferView, written: BufferView) -> None:
        """Launch a kernel that copies a view to another one."""
        name = named("copy", read.shape, layout(read), layout(written))
        if name not in self.copies:
            self.copies[name] = copy_kernel(read, written, self.source.device)
        bindings = [whole_of(each) for each in (read, written)]
        self.launches.append(Launch(name, tuple(bindings[number] for number in self.copies[name].arguments)))

    def fill(self, number: str, written: BufferView) -> None:
        """Launch a kernel that fills a view with a constant."""
        existing = next(
            (name for name, known in self.fills.items() if known == (number, written.shape, layout(written))), ""
        )
        name = existing or f"{named('fill', written.shape, layout(written))}_{len(self.fills)}"
        if not existing:
            self.fills[name] = (number, written.shape, layout(written))
            self.copies[name] = fill_kernel(number, written, self.source.device)
        self.launches.append(Launch(name, (whole_of(written),)))


def named(verb: str, *sizes: list[int]) -> str:
    """Return the name of a copy or fill kernel for views of the given shapes and layouts."""
    return "_".join((verb, *("x".join(map(str, each)) for each in sizes)))


def number_of(op: ir.Operation) -> int | str:
    """Return the value of an integer constant, or the text of another constant, which only fills use."""
    value = op.attributes["value"]
    return int(ir.IntegerAttr(value).value) if isinstance(value, ir.IntegerAttr) else str(value)


def start_of(region: BufferView) -> int:
    """Return the largest aligned offset at or before the start of a view."""
    return region.offset // ALIGNMENT * ALIGNMENT


def whole_of(region: BufferView) -> Binding:
    """Return the smallest aligned binding that contains a view."""
    start = start_of(region)
    return Binding(region.buffer, start, region.offset + region.span - start)


def layout(region: BufferView) -> list[int]:
    """Return the strides of a view, and its offset in its binding, in elements."""
    return [*region.strides, (region.offset - start_of(region)) // region.width]


def copy_kernel(read: BufferView, written: BufferView, device: Device) -> Kernel:
    """Build a kernel that copies a view to another one, one element a thread."""
    binding_type = flat_type(read)
    lines = f"""
      %r = affine.apply affine_map<(d0) -> ({index_expr(read.shape, read)})>(%n)
      %v = memref.load %from[%r] : {binding_type}"""
    return move_kernel("copy", f"%from: {binding_type}, ", lines, written, device)


def fill_kernel(number: str, written: BufferView, device: Device) -> Kernel:
    """Build a kernel that fills a view with a constant, one element a thread."""
    return move_kernel("fill", "", f"      %v = arith.constant {number}", written, device)


def move_kernel(verb: str, arguments: str, lines: str, written: BufferView, device: Device) -> Kernel:
    """Build a kernel whose threads each store ``%v`` to one element of a view.

    Args:
        verb: Name of the function.
        arguments: Function arguments before the written view, as MLIR text.
        lines: Operations that compute ``%v`` from the element's linear index ``%n``.
        written: View that is written.
        device: Target device.
    """
    count, binding_type = prod(written.shape), flat_type(written)
    text = MOVE.format(
        verb=verb,
        arguments=f"{arguments}%to: {binding_type}",
        lines=lines,
        kind=binding_type,
        index=index_expr(written.shape, written),
        count=count,
        threads=MOVE_THREADS,
        blocks=-(-count // MOVE_THREADS),
    )
    module = parse(text, verb)
    outline(module)
    return read_kernel(module, device)


def flat_type(region: BufferView) -> str:
    """Return the one-dimensional memref type of the binding that contains a view."""
    return f"memref<{whole_of(region).size // region.width}x{region.kind.element_type}>"


def index_expr(shape: list[int], region: BufferView) -> str:
    """Return the affine expression from the linear index ``d0`` of an element to its index in the binding of a view."""
    *strides, first = layout(region)
    terms, inner = [str(first)], 1
    for size, stride in reversed(list(zip(shape, strides, strict=True))):
        terms.append(f"((d0 floordiv {inner}) mod {size}) * {stride}")
        inner *= size
    return " + ".join(terms)
