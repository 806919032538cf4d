"""What upstream's affine passes make of marked ops, and what is kept from them."""

import re

import pytest
from tuning_support import tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import rewrite
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.contrib.affine.passes import write_affine_loops
from autotune.contrib.affine.plan import MARK, AffinePlan
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.machine import Machine
from autotune.core.payload import Argument
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble, write_step
from autotune.registry import load_family, load_payload

HOST = Machine("a server", "zen5", "avx512f", 512, 32, 48 << 10, 1 << 20, 32 << 20, 8)


def loops(spec, **knobs):
    """The text of a payload of one task behind the script and the affine passes."""
    payload = load_payload(spec) if isinstance(spec, str) else spec
    parts, family = partition(payload), load_family("affine")
    (task,) = parts.tasks
    config = {**family.default(task, HOST), "vectors": 1, **knobs}
    return after(parts.payload.text, payload, assemble([write_step(task, family, config, HOST)]))


def after(text, payload, script):
    with context():
        unit = Unit.open(payload, Candidate(script, TAIL, text=text))
        steps = iter(rewrite(unit))
        while next(steps) != "stencil":
            pass
        assert unit.module.operation.verify()
        return str(unit.module)


def outermost(text):
    """Loops of the entry function that no other is around."""
    return len(re.findall(r"^    scf\.for", text, re.M)) + len(re.findall(r"^    %\S+ = scf\.for", text, re.M))


def test_rows_of_a_softmax_become_one_loop_and_their_sums_are_carried():
    text = loops("softmax,rows=16,cols=64")
    assert outermost(text) == 1
    assert "memref<1x64xf32>" in text  # a row of what was a whole buffer
    assert "memref.store" not in text
    assert text.count("vector.reduction") == 2
    assert outermost(loops("softmax,rows=16,cols=64", fuse="none")) > 1


def test_what_vectors_divide_is_not_masked_and_what_they_leave_over_is():
    even = loops("softmax,rows=16,cols=64")
    assert even.count("vector.transfer_") == even.count("in_bounds = [true]")
    odd = loops("softmax,rows=16,cols=65")
    assert odd.count("vector.transfer_") > odd.count("in_bounds = [true]") > 0


def test_rows_of_a_product_are_jammed_in_registers():
    text = loops("matmul,m=16,n=32,k=8", jam=4)
    assert re.search(r"%\w+:4 = scf\.for .* iter_args\(.*vector<16xf32>, vector<16xf32>", text)
    assert "%c4 " in text


def test_rows_that_share_a_buffer_are_not_jammed():
    assert loops("softmax,rows=16,cols=64", jam=4) == loops("softmax,rows=16,cols=64", jam=1)


@pytest.mark.parametrize("step", [2, 3])
def test_a_loop_that_reads_in_steps_is_no_vector(step):
    """Upstream takes it for one that reads neighbours."""
    size = 16 * step
    payload = tensor_payload(
        "steps",
        [Argument("x", "input", (4, size)), Argument("y", "output", (4, 16))],
        f"""%empty = tensor.empty() : tensor<4x16xf32>
    %result = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j * {step})>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<4x{size}xf32>) outs(%empty : tensor<4x16xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %c = math.absf %a : f32
      linalg.yield %c : f32
    }} -> tensor<4x16xf32>""",
    )
    assert "vector." not in loops(payload)


def test_a_tile_that_is_no_whole_vector_is_none():
    """Upstream masks vectors where the buffer ends, not where the tile does."""
    assert "vector<16xf32>" in loops("matmul,m=16,n=32,k=8", tile_1=16)
    assert "vector<" not in loops("matmul,m=16,n=32,k=8", tile_1=8)


VIEWS = """func.func @f(%x: memref<4x8xf32>, %y: memref<32xf32>) {{
  %flat = memref.collapse_shape %x [[0, 1]] : memref<4x8xf32> into memref<32xf32>
  linalg.add {{autotune.affine = {plan}}} ins(%flat, %flat : memref<32xf32>, memref<32xf32>)
    outs({first} : memref<32xf32>)
  linalg.add {{autotune.affine = {plan}}} ins(%x, %x : memref<4x8xf32>, memref<4x8xf32>) outs(%x : memref<4x8xf32>)
  return
}}"""


@pytest.mark.parametrize("first", ["%flat", "%y"])
def test_what_is_written_must_be_apart_from_other_buffers(first):
    with context():
        module = parse(VIEWS.format(plan=AffinePlan().text, first=first), "views")
        with pytest.raises(CompileError, match="must access whole buffers, one is a part"):
            write_affine_loops(module)


def test_ops_that_something_stands_between_are_taken_out_apart():
    between = VIEWS.replace("  linalg.add", "  call @g() : () -> ()\n  linalg.add")
    with context():
        text = f"func.func private @g()\n{between.format(plan=AffinePlan().text, first='%y')}"
        module = parse(text, "views")
        write_affine_loops(module)
        assert module.operation.verify()
        assert "linalg" not in str(module)


def mark(said):
    return f"""%plan = transform.param.constant {said} -> !transform.any_param
transform.annotate %op "{MARK}" = %plan : !transform.any_op, !transform.any_param
"""


@pytest.mark.parametrize(
    ("said", "law"),
    [
        ("{}", r'must read \{fuse = "none", .*\}, is \{\}'),
        ("7", "must read"),
        (AffinePlan(fuse="all").text, "fuse must be one of none, producer, sibling, greedy, maximal, is 'all'"),
        (AffinePlan(tiles=(-4,)).text, "tiles must be at most 16 steps from 0 to 1048576"),
        (AffinePlan(lanes=1).text, "lanes must be 0 or 2 to 256, are 1"),
        (AffinePlan(lanes=1 << 40).text, "lanes must be"),
        (AffinePlan(jam=0).text, "jam must be 1 to 16, is 0"),
    ],
)
def test_a_mark_that_says_what_no_pass_takes_is_refused(said, law):
    payload = load_payload("gelu,rows=4,cols=32")
    parts = partition(payload)
    script = assemble([Step(parts.tasks[0].tag, 1, WrittenScript(mark(said)))])
    with pytest.raises(CompileError, match=f"transform.*{law}|{law}") as error:
        after(parts.payload.text, payload, script)
    assert error.value.stage == "transform"
