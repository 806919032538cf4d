"""Lowering of a scheduled TVM module to LLVM IR of a C function on pointers, without TVM's runtime.

TVM generates an internal function on pointers, and a wrapper of its own calling convention. A new wrapper calls the
internal function. Memory for intermediates, which TVM requests from its runtime, is allocated as a stack in a global
array of the object.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from autotune.core.errors import CompileError

BODY = re.compile(r"^define internal fastcc (?:range\([^)]*\) )?(\w+) @main_compute_\(([^\n]*)\) [^\n]*\{", re.M)
PARAMETER = re.compile(r"(?:^|, )(i32|ptr)\b[^%]*%([\w.]+)")
ALLOCATION = re.compile(r"call ptr %\w+\(i32 1, i32 [^,]+, i64 ([^,]+), i32 \d+, i32 \d+\)")
ALIGNED = re.compile(r"\balign (?:8|16|32|64|128)\b")
ALIGNMENT = 64  # of intermediates
SYMBOL = "autotune_task"
MEMORY = """
@autotune_memory = internal global [BYTES x i8] zeroinitializer, align 64
@autotune_used = internal global i64 0, align 8

define internal ptr @autotune_take(i32 %kind, i32 %device, i64 %bytes, i32 %code, i32 %bits) {
  %used = load i64, ptr @autotune_used
  %place = getelementptr i8, ptr @autotune_memory, i64 %used
  %more = add i64 %bytes, 63
  %whole = and i64 %more, -64
  %next = add i64 %used, %whole
  store i64 %next, ptr @autotune_used
  ret ptr %place
}

define internal i32 @autotune_give(i32 %kind, i32 %device, ptr %place) {
  %address = ptrtoint ptr %place to i64
  %base = ptrtoint ptr @autotune_memory to i64
  %used = sub i64 %address, %base
  store i64 %used, ptr @autotune_used
  ret i32 0
}
"""


def write_llvm(tvm: Any, module: Any, target: Any, names: Sequence[str]) -> str:  # noqa: ANN401
    """Compile function ``main`` of a module to LLVM IR of a function `SYMBOL` on pointers.

    Args:
        tvm: TVM package.
        module: Scheduled module.
        target: TVM target.
        names: Names of the module's arrays, in order.

    Raises:
        CompileError: Stage ``lower``; the generated IR has an unknown form.
    """
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        text = tvm.tirx.build(module, target=target).inspect_source("ll")
    body = BODY.search(text)
    if body is None:
        raise CompileError("lower", "TVM must write a function of pointers, main_compute_, it does not")
    call = f"call fastcc {body[1]} @main_compute_({', '.join(call_operands(PARAMETER.findall(body[2]), names))})"
    text = text[: body.start()] + unaligned(text[body.start() :])
    for name, ours in (("Alloc", "take"), ("Free", "give")):
        text = re.sub(
            rf"^@__TVMBackend{name}Workspace = .*$",
            f"@__TVMBackend{name}Workspace = internal global ptr @autotune_{ours}, align 8",
            text,
            flags=re.M,
        )
    if "Workspace = internal" in text:
        text += MEMORY.replace("BYTES", str(allocated_bytes(text)))
    parameters = ", ".join(f"ptr %{name}" for name in names)
    result = "" if body[1] == "void" else "%done = "
    return f"{text}\ndefine void @{SYMBOL}({parameters}) {{\n  {result}{call}\n  ret void\n}}\n"


def unaligned(text: str) -> str:
    """Reduce alignments in LLVM IR to four bytes and remove assumptions, since weights may be less aligned."""
    text = "\n".join(line for line in text.split("\n") if "call void @llvm.assume" not in line)
    return ALIGNED.sub("align 4", text)


def allocated_bytes(text: str) -> int:
    """Return the total size of all intermediates in bytes, an upper bound of the memory in use.

    Raises:
        CompileError: Stage ``lower``; a size is dynamic.
    """
    sizes = ALLOCATION.findall(text)
    if not sizes or not all(size.isdigit() for size in sizes):
        raise CompileError("lower", f"sizes of intermediates must be known, TVM asks for {', '.join(sizes) or 'none'}")
    return sum(-(-int(size) // ALIGNMENT) * ALIGNMENT for size in sizes)


def call_operands(parameters: Sequence[tuple[str, str]], names: Sequence[str]) -> Iterator[str]:
    """Yield the call operands of TVM's internal function: arrays by name, and 0 for the device number.

    Args:
        parameters: LLVM type and name of each parameter.
        names: Names of the arrays.

    Raises:
        CompileError: Stage ``lower``; the function has another parameter.
    """
    for kind, name in parameters:
        if kind == "ptr" and name not in names:
            raise CompileError("lower", f"TVM must write a function of {', '.join(names)}, it takes {name}")
        yield f"ptr %{name}" if kind == "ptr" else "i32 0"
