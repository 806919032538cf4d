"""Small bufferized functions, written line by line, and the plan of their buffers."""

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.arena import plan_arena

KIND = "memref<16xf32>"  # one cache line
CONSTANTS = "\n".join(f"%c{i} = arith.constant {i} : index" for i in (0, 1, 5))


def lines(*ops):
    return "\n".join(ops)


def alloc(name):
    return f"%{name} = memref.alloc() {{alignment = 64 : i64}} : {KIND}"


def copy(source, target, kind=KIND):
    """Read the one and write the other; `kind` is the source's."""
    return f"linalg.copy ins({source} : {kind}) outs({target} : {KIND})"


def fill_and_use(name):
    """A buffer that lives for two copies, from input to output."""
    return lines(alloc(name), copy("%in", f"%{name}"), copy(f"%{name}", "%out"))


def loop(*body, index="%i"):
    return lines(f"scf.for {index} = %c0 to %c5 step %c1 {{", *body, "}")


def carry(start, *body, yielded, result="%r"):
    """A loop that carries ``%x``, which is `start` at first and what `yielded` names from then on."""
    head = f"{result} = scf.for %k = %c0 to %c5 step %c1 iter_args(%x = {start}) -> ({KIND}) {{"
    return lines(head, *body, f"scf.yield {yielded} : {KIND}", "}")


def function(*body, before=""):
    """A module with function ``@f`` of input ``%in``, output ``%out``, a flag and a size."""
    return lines(
        before,
        f"func.func @f(%in: {KIND}, %out: {KIND}, %flag: i1, %n: index) attributes {{llvm.emit_c_interface}} {{",
        CONSTANTS,
        *body,
        "return",
        "}",
    )


def plan(*body, before=""):
    """Plan a function's buffers; gives the plan and the text after."""
    with context() as opened:
        opened.allow_unregistered_dialects = True
        module = parse(function(*body, before=before), "test")
        found = plan_arena(module)
        assert module.operation.verify()
        return found, str(module)


# a, b = in, in; five times: a, b = b, a + b; out = a + b
SWAPPED = lines(
    alloc("a"),
    alloc("b"),
    copy("%in", "%a"),
    copy("%in", "%b"),
    f"%r:2 = scf.for %i = %c0 to %c5 step %c1 iter_args(%x = %a, %y = %b) -> ({KIND}, {KIND}) {{",
    alloc("t"),
    f"linalg.add ins(%x, %y : {KIND}, {KIND}) outs(%t : {KIND})",
    copy("%t", "%x"),
    f"scf.yield %y, %x : {KIND}, {KIND}",
    "}",
    alloc("u"),
    copy("%r#0", "%u"),
    f"linalg.add ins(%u, %r#1 : {KIND}, {KIND}) outs(%out : {KIND})",
)
