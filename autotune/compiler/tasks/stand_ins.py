"""Placeholders for external kernels: tasks that are replaced by one operation on tensors and computed by other code.

The operations of such a task become one ``linalg.generic`` with the attribute `KERNEL`. It reads and writes the same
operands as the kernel, so that bufferization and the arena treat it as any other operation; its body is meaningless.
"""

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import linalg, memref, tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import structured_ops
from autotune.compiler.ir.values import fill_of, is_fresh
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.compiler.tasks.gathers import gathered
from autotune.compiler.tasks.groups import Group, find_groups
from autotune.compiler.tasks.outline import outer_operands
from autotune.core.arena_plan import ALIGNMENT
from autotune.core.errors import CompileError
from autotune.core.scripts.marks import KERNEL, TAG


def stand_in_for_tasks(function: ir.OpView, kernels: Mapping[str, tuple[str, ...]]) -> None:
    """Replace every task that an external kernel computes by a placeholder operation.

    Args:
        function: Entry function, tagged, on tensors.
        kernels: Memref types of the operands of each kernel, by tag of the task.

    Raises:
        CompileError: Stage ``transform``; there is no such task, or its operands differ from those of the kernel.
    """
    replaced = set[str]()
    for group in find_groups(list(structured_ops(function.regions[0].blocks[0]))):
        for unit in (group, *group.alone()):
            tag = tag_of(unit.ops[0])
            if tag in kernels and types_of(unit) == kernels[tag]:
                stand_in(unit, tag)
                replaced.add(tag)
                break
    for tag in kernels.keys() - replaced:
        types = ", ".join(kernels[tag])
        raise CompileError("transform", f"a kernel must be of a task of the module, {tag} ({types}) is not")


def tag_of(op: ir.Operation) -> str:
    """Return the tag of the root of a task; empty if an operation has none."""
    return str(ir.StringAttr(op.attributes[TAG]).value) if TAG in op.attributes else ""


def types_of(unit: Group) -> tuple[str, ...]:
    """Return the memref types of the operands of a task, as a kernel would take them."""
    ops = unit.in_order
    return tuple(memref_type(value) for value in (*read_by(ops), *ops[-1].results))


def read_by(ops: list[ir.Operation]) -> list[ir.Value]:
    """Return the values that the operations of a task read, in the order of its outlined arguments."""
    return [*outer_operands(ops), *(gathered(ops[-1]) or ())]


def memref_type(value: ir.Value) -> str:
    """Return the memref type that holds a tensor; for any other value, its own type."""
    if not isinstance(value.type, ir.RankedTensorType):
        return str(value.type)
    return f"memref<{''.join(f'{size}x' for size in static_shape(value))}{value.type.element_type}>"


def stand_in(unit: Group, tag: str) -> None:
    """Replace the operations of a task by a placeholder that reads and writes the same values."""
    ops = unit.in_order
    root, inputs = ops[-1], read_by(ops)
    with ir.InsertionPoint(root), root.location:
        into = destination(root)
        ranks = [len(static_shape(value)) for value in (*inputs, into)]
        loops, start, maps = dims(sum(ranks)), 0, []
        for rank in ranks:
            maps.append(ir.AffineMap.get(sum(ranks), 0, loops[start : start + rank]))
            start += rank
        iterators = ["reduction"] * sum(ranks[:-1]) + ["parallel"] * ranks[-1]
        placeholder = generic(inputs, into, maps, iterators, read_all)
    placeholder.owner.attributes[KERNEL] = ir.StringAttr.get(tag)
    root.results[0].replace_all_uses_with(placeholder)
    for op in reversed(ops):
        op.erase()


def destination(root: ir.Operation) -> ir.Value:
    """Return a destination that the kernel overwrites completely: that of the root before any fill, or a new one."""
    into, last = root.operands[-1], len(root.operands) - 1
    if not is_fresh(root, last, last):
        return tensor.empty(static_shape(into), into.type.element_type)
    fill = fill_of(into)
    return fill.operands[1] if fill is not None else into


def stands_in(module: ir.Module) -> list[ir.Operation]:
    """Return all placeholders of external kernels."""
    return [op for op in every_op(module) if op.name == "linalg.generic" and KERNEL in op.attributes]


def close_gaps(module: ir.Module) -> None:
    """Copy kernel operands that are not contiguous, as kernels require; applied before buffers have offsets."""
    for op in stands_in(module):
        last = len(op.operands) - 1
        for number, value in enumerate(op.operands):
            operand_type = ir.MemRefType(value.type)
            if is_dense(operand_type):
                continue
            with ir.InsertionPoint(op), op.location:
                copy = memref.alloc(
                    ir.MemRefType.get(operand_type.shape, operand_type.element_type), [], [], alignment=ALIGNMENT
                )
                if number < last:
                    linalg.copy(value, outs=[copy])
            op.operands[number] = copy
            if number == last:
                with ir.InsertionPoint.after(op), op.location:
                    linalg.copy(copy, outs=[value])


def is_dense(memref_type: ir.MemRefType) -> bool:
    """Return whether a memref is contiguous in row-major order."""
    strides, _ = memref_type.get_strides_and_offset()
    expected = 1
    for size, stride in reversed(list(zip(memref_type.shape, strides, strict=True))):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
