"""Machines that are not this one, contraction payloads of every layout, configs, and a call of a compiled payload."""

from functools import lru_cache, partial

import numpy as np

from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Argument, Payload
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for
from autotune.tuning.samplers.search import Search
from autotune.worker.bench.verify import poison, verify
from autotune.worker.loading.reading import open_payload

OPTIMISED = 3  # level of LLVM's optimisation of the tool's programs
MACHINES = {
    "avx512": Machine("a server", "zen5", "avx512f", 512, 32, 48 << 10, 1 << 20, 32 << 20, 8),
    "avx2": Machine("a desktop", "haswell", "avx2", 256, 16, 32 << 10, 256 << 10, 8 << 20, 4),
    "sse": Machine("an old one", "nehalem", "sse2", 128, 16, 32 << 10, 256 << 10, 0, 1),
    "neon": Machine("a phone", "cortex_a72", "neon", 128, 32, 32 << 10, 1 << 20, 0, 2),
}


def tensor(shape, dtype="f32"):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def contraction_payload(m, n, k, *, batch=0, a="mk", b="kn", generic=False, role_b="input"):
    """A product with operands stored as their letters say, ``a="km"`` is a transposed A; no `batch`, a plain matmul."""
    sizes = {"b": batch, "m": m, "n": n, "k": k}
    prefix = "b" if batch else ""
    layouts = [prefix + letters for letters in (a, b, "mn")]
    shapes = [tuple(sizes[letter] for letter in layout) for layout in layouts]
    loops = ", ".join(prefix + "mnk")
    maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(layout)})>" for layout in layouts)
    kinds = [tensor(shape) for shape in shapes]
    operands = f"ins(%a, %b : {kinds[0]}, {kinds[1]}) outs(%zeros : {kinds[2]})"
    if generic:
        iterators = ", ".join(f'"{"reduction" if letter == "k" else "parallel"}"' for letter in prefix + "mnk")
        product = f"""linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} {operands} {{
    ^bb0(%x: f32, %y: f32, %z: f32):
      %xy = arith.mulf %x, %y : f32
      %sum = arith.addf %z, %xy : f32
      linalg.yield %sum : f32
    }} -> {kinds[2]}"""
    else:
        name = "linalg.batch_matmul" if batch else "linalg.matmul"
        product = f"{name} indexing_maps = [{maps}] {operands} -> {kinds[2]}"
    return tensor_payload(
        "product",
        [Argument("a", "input", shapes[0]), Argument("b", role_b, shapes[1]), Argument("c", "output", shapes[2])],
        f"""%zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : {kinds[2]}
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : {kinds[2]}) -> {kinds[2]}
    %result = {product}""",
        reduction=k,
    )


def tensor_payload(name, arguments, body, **fields):
    """A payload whose `body` computes ``%result`` from tensors named like the input arguments; the last is written."""
    *inputs, output = arguments
    signature = ", ".join(f"%{a.name}_memref: {a.type}" for a in arguments)
    reads = "\n    ".join(
        f"%{a.name} = bufferization.to_tensor %{a.name}_memref restrict : {a.type} to {tensor(a.shape, a.dtype)}"
        for a in inputs
    )
    text = f"""module {{
  func.func @{name}({signature}) {{
    {reads}
    {body}
    bufferization.materialize_in_destination %result in restrict writable %{output.name}_memref
      : ({tensor(output.shape, output.dtype)}, {output.type}) -> ()
    return
  }}
}}
"""
    return Payload(name, text, name, tuple(arguments), **fields)


PACKED = tensor_payload(
    "packed",
    [Argument("a", "input", (10, 7)), Argument("out", "output", (10, 7))],
    """%zero = arith.constant 0.0 : f32
    %tiles = tensor.empty() : tensor<3x2x4x4xf32>
    %packed = linalg.pack %a padding_value(%zero : f32) inner_dims_pos = [0, 1] inner_tiles = [4, 4] into %tiles
      : tensor<10x7xf32> -> tensor<3x2x4x4xf32>
    %doubles = tensor.empty() : tensor<3x2x4x4xf32>
    %doubled = linalg.add ins(%packed, %packed : tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>)
      outs(%doubles : tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
    %flat = tensor.empty() : tensor<10x7xf32>
    %result = linalg.unpack %doubled inner_dims_pos = [0, 1] inner_tiles = [4, 4] into %flat
      : tensor<3x2x4x4xf32> -> tensor<10x7xf32>""",
)


def product_of_bytes(m, n, k, *, batch=0, b="kn", role="weight"):
    """A product of bytes, summed in 32 bits."""
    sizes, prefix = {"b": batch, "m": m, "n": n, "k": k}, "b" if batch else ""
    layouts = [prefix + letters for letters in ("mk", b, "mn")]
    shapes = [tuple(sizes[letter] for letter in layout) for layout in layouts]
    loops = ", ".join(prefix + "mnk")
    maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(layout)})>" for layout in layouts)
    kinds = [tensor(shape, "i8") for shape in shapes[:2]]
    whole = tensor(shapes[2], "i32")
    name = "linalg.batch_matmul" if batch else "linalg.matmul"
    return tensor_payload(
        "product",
        [
            Argument("a", "input", shapes[0], "i8"),
            Argument("b", role, shapes[1], "i8"),
            Argument("c", "output", shapes[2], "i32"),
        ],
        f"""%zero = arith.constant 0 : i32
    %empty = tensor.empty() : {whole}
    %zeros = linalg.fill ins(%zero : i32) outs(%empty : {whole}) -> {whole}
    %result = {name} indexing_maps = [{maps}] ins(%a, %b : {", ".join(kinds)}) outs(%zeros : {whole}) -> {whole}""",
        reduction=k,
    )


def product_of(payload, arrays, *, a="mk", b="kn"):
    """What a `contraction_payload` should write, in float64."""
    left, right = arrays["a"].astype(np.float64), arrays["b"].astype(np.float64)
    return (left.swapaxes(-1, -2) if a == "km" else left) @ (right.swapaxes(-1, -2) if b == "nk" else right)


def run(payload, inputs, script, pipeline, *, text=None, panels=(), level=0):
    """Compile a payload, call it once on poisoned outputs, and give those.

    Only numbers are asked for: LLVM, whose optimisation takes longer than all else, optimises where a test says so.
    Workers compile candidates as the tool does.
    """
    return compiled(payload, script, pipeline, text=text, panels=panels, level=level)(inputs)


def compiled(payload, script, pipeline, *, text=None, panels=(), level=0):
    """A function that does for any inputs what `run` does, compiled once."""
    program = compile_program(payload, Candidate(script, pipeline, text=text, panels=panels), level=level)
    return partial(call, payload, program)


def call(payload, program, inputs):
    """Call a payload's program once on poisoned outputs, and give those."""
    arrays = [aligned_empty(argument, "huge") for argument in payload.arguments]
    for argument, array in zip(payload.arguments, arrays, strict=True):
        if argument.role == "output":
            poison(array)
        else:
            array[...] = inputs[argument.name]
    program.bind([*arrays, *(w.pack(arrays[w.source]) for w in program.weights)]).run()
    return [x for x, argument in zip(arrays, payload.arguments, strict=True) if argument.role == "output"]


def random_configs(family, task, machine, count, seed):
    """The default, then valid configs of the space, as a seeded search draws them."""
    return list(drawn_configs(family, task, machine, count, seed))


def drawn_configs(family, task, machine, most, seed):
    """The same, each drawn when it is asked for: a draw from a large space takes milliseconds."""
    space = family.space(task, machine)
    search = Search(space, family.default(task, machine), sampler="random", seed=seed)
    yield from (config for _ in range(most) if (config := search.ask()) is not None)


def agrees(payload, got, expected):
    """What a worker would say."""
    verdict = verify(payload, got, expected)
    assert verdict.outcome == "ok", verdict.diagnostic


def default_steps(parts, machine):
    """Every task of a partition with its family's default config, as steps of a script."""
    steps = []
    for task in parts.tasks:
        family = family_for(task)
        steps.append(write_step(task, family, family.default(task, machine), machine))
    return steps


def run_steps(payload, parts, inputs, steps, level=0):
    """What a payload writes once these steps have scheduled its parts."""
    return compiled_steps(payload, parts, steps, level)(inputs)


def compiled_steps(payload, parts, steps, level=0):
    """A function that does for any inputs what `run_steps` does, compiled once."""
    return compiled(payload, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps), level=level)


def run_tuned(payload, inputs, machine, seed=None):
    """What a payload writes if each task with a family has its default config, or one drawn with a seed; its parts.

    With its default configs, it is optimised by LLVM, as programs of the tool are.
    """
    function, parts = compiled_tuned(payload, machine, seed)
    return function(inputs), parts


@lru_cache(maxsize=1)
def compiled_tuned(payload, machine, seed=None):
    """A function that does for any inputs what `run_tuned` does, compiled once; its parts."""
    parts, steps = partition(payload), []
    for task in parts.tasks:
        family = family_for(task)
        if family is not None:
            config = (
                family.default(task, machine) if seed is None else random_configs(family, task, machine, 2, seed)[-1]
            )
            steps.append(write_step(task, family, config, machine))
    return compiled_steps(payload, parts, steps, level=OPTIMISED if seed is None else 0), parts


def loaded(folder, text):
    """The payload of a file of this text."""
    path = folder / "mine.mlir"
    path.write_text(text)
    return open_payload(path)
