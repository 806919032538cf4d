"""What is done at the marks a schedule leaves: sums that start from zero, blocks fetched ahead."""

import re

import pytest
from tuning_support import agrees, contraction_payload, product_of, random_configs, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.passes.marked_loops import marked_numbers
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.core.scripts.marks import COPIES, FROM_ZERO, NEXT_ROWS, PREFETCHING, STENCIL, ZEROS
from autotune.registry import family_for, load_payload


def default_of(payload):
    parts = partition(payload)
    (task,) = parts.tasks
    family, machine = family_for(task), this_machine()
    return parts, task, family, family.default(task, machine), machine


def scheduled(payload, script, panels=()):
    """The text of a payload after its script and what is done at its marks."""
    with context():
        unit = Unit.open(payload, Candidate(script, TAIL, text=partition(payload).payload.text, panels=panels))
        apply_schedule(unit)
        assert unit.module.operation.verify()
        return str(unit.module)


def script_of(payload, **knobs):
    _, task, family, config, machine = default_of(payload)
    step = write_step(task, family, {**config, **knobs}, machine)
    return assemble([step]), panels_of([step])


@pytest.mark.parametrize(
    ("sizes", "batch"), [((24, 32, 64), 3), ((33, 47, 21), 0), ((130, 70, 600), 0), ((5, 5, 5), 3)], ids=str
)
def test_sum_that_starts_from_zero_reads_nothing_of_its_destination(sizes, batch):
    """Outputs are poisoned before a call: whoever reads them spoils the result."""
    payload = contraction_payload(*sizes, batch=batch)
    parts, task, family, _, machine = default_of(payload)
    inputs = payload.make_inputs(0)
    for config in random_configs(family, task, machine, 2, 2):
        script = assemble([write_step(task, family, config, machine)])
        found = run(payload, inputs, script, TAIL, text=parts.payload.text)
        agrees(payload, found, [product_of(payload, inputs)])
        assert ("linalg.fill" in scheduled(payload, script)) == (ZEROS not in script)


@pytest.mark.parametrize("k", [6, 8, 15, 22, 31])
def test_what_unrolling_leaves_over_of_a_sum_goes_on_with_it(k):
    payload = contraction_payload(24, 40, k)
    script, _ = script_of(payload)
    assert "linalg.fill" not in scheduled(payload, script)
    inputs = payload.make_inputs(0)
    got = run(payload, inputs, script, TAIL, text=partition(payload).payload.text)
    agrees(payload, got, [product_of(payload, inputs)])


def test_k_loop_that_unrolling_does_away_with_keeps_its_fill():
    payload = contraction_payload(24, 32, 5)
    script, _ = script_of(payload, unroll_k=4)
    assert ZEROS not in script
    assert "linalg.fill" in scheduled(payload, script)


@pytest.mark.parametrize("start", ["1.0", "-0.5"])
def test_sum_that_starts_elsewhere_keeps_its_fill(start):
    payload = contraction_payload(24, 32, 64)
    changed = type(payload)(
        payload.name, payload.text.replace("constant 0.0", f"constant {start}"), payload.entry, payload.arguments
    )
    script, _ = script_of(changed)
    assert ZEROS not in script


def test_marked_fill_with_something_else_than_zeros_stays():
    payload = contraction_payload(24, 32, 64)
    script, _ = script_of(payload)
    tagged = partition(payload).payload.text
    assert "constant 0.000000e+00" in tagged
    ones = run(payload, payload.make_inputs(0), script, TAIL, text=tagged.replace("constant 0.0", "constant 1.0"))
    agrees(payload, ones, [product_of(payload, payload.make_inputs(0)) + 1])


def test_script_whose_loops_are_not_all_found_is_left_as_it_is():
    payload = contraction_payload(24, 32, 64)
    script, _ = script_of(payload)
    first = next(line for line in script.splitlines(keepends=True) if FROM_ZERO in line)
    text = scheduled(payload, script.replace(first, "", 1))
    assert "linalg.fill" in text
    assert "linalg.fill" not in scheduled(payload, script)


def lines_fetched(text):
    """Cache lines that an innermost loop fetches, a few a step: the bound of a counter."""
    assert 1 <= text.count("memref.prefetch") <= 2
    (bound,) = re.findall(r"arith.cmpi ult, %\w+, %c(\d+)\w* : index", text)
    return int(bound)


def test_every_row_of_the_next_block_is_fetched_once():
    """Blocks of 64 of k: each panel's 64 rows are shared by ten strips of six rows of A, a line a step."""
    payload = contraction_payload(60, 128, 256, role_b="weight")
    knobs = {"tile_n": 64, "tile_k": 64, "order": "nkm", "register_m": 6, "register_n": 1}
    script, panels = script_of(payload, **knobs, prefetch=True)
    text = scheduled(payload, script, panels)
    assert lines_fetched(text) == -(-64 // 10)
    assert PREFETCHING not in text
    without, _ = script_of(payload, **knobs, prefetch=False)
    assert "memref.prefetch" not in scheduled(payload, without, panels)


@pytest.mark.parametrize(
    "spec",
    [
        "matmul,m=24,n=200,k=530,constant_b=1",
        "matmul,m=48,n=200,k=530,constant_b=1,transpose_b=1",
        "matmul,m=48,n=200,k=530",
        "nano,layers=1",
    ],
)
def test_prefetching_changes_no_result(spec):
    payload = load_payload(spec)
    parts, machine, inputs = partition(payload), this_machine(), payload.make_inputs(0)
    steps = []
    for task in parts.tasks:
        family = family_for(task)
        config = family.default(task, machine)
        packed = "beforehand" if task.contraction and task.contraction.constant_b else "panels"
        blocks = {"tile_n": 64, "tile_k": 64, "order": "nkm", "register_n": 1, "register_order": "mn"}
        fetched = {**config, **blocks, "pack_b": packed, "prefetch": True}
        lawful = set(fetched) == set(config) and family.space(task, machine).broken_constraint(fetched) is None
        steps.append(write_step(task, family, fetched if lawful else config, machine))
    script = assemble(steps)
    panels = panels_of(steps)
    assert "prefetch" in script or "matmul" not in spec
    found = run(payload, inputs, script, TAIL, text=parts.payload.text, panels=panels)
    agrees(payload, found, payload.reference(**inputs))


def test_rows_that_will_be_copied_are_fetched_while_copies_are_read():
    """Blocks of 64 of k and of n: 64 rows of 128 columns, shared by six strips of A and the panels of a block."""
    payload = contraction_payload(60, 256, 256)
    knobs = {"tile_n": 128, "tile_k": 64, "order": "nkm", "register_m": 10, "register_n": 1, "pack_b": "panels"}
    script, _ = script_of(payload, **knobs, prefetch=True)
    text = scheduled(payload, script)
    panels = 128 // this_machine().lanes
    assert lines_fetched(text) == -(-64 // (60 // 10 * panels)) * (128 * 4 // 64)
    assert PREFETCHING not in text
    assert COPIES not in text
    without, _ = script_of(payload, **knobs, prefetch=False)
    assert "memref.prefetch" not in scheduled(payload, without)


def test_blocks_ahead_lie_where_the_next_ones_do():
    """Behind the last block of k comes the first one of the next block of n."""
    payload = contraction_payload(12, 128, 128, role_b="weight")
    knobs = {"tile_n": 64, "tile_k": 64, "order": "nkm", "register_m": 6, "register_n": 1}
    script, panels = script_of(payload, **knobs, prefetch=True)
    text = scheduled(payload, script, panels)
    assert "arith.cmpi uge" in text, "at or behind the last block"
    assert lines_fetched(text) == 64 // 2


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("spec", ["softmax,rows=12,cols=100", "layer_norm,rows=12,cols=64"])
def test_next_rows_are_fetched_once_and_change_no_result(spec, written):
    """Several loops read a row of 100 or 64 columns; the last one fetches what lies a block of four rows below."""
    payload = load_payload(spec)
    inputs, texts = payload.make_inputs(0), {}
    for ahead in (False, True):
        script, _ = script_of(
            payload, fuse=True, rows=4, vectors=1, prefetch_rows=ahead, prefetch_written=ahead and written
        )
        texts[ahead] = scheduled(payload, script)
        assert NEXT_ROWS not in texts[ahead]
        if ahead or not written:  # else it is the program of the other case
            found = run(payload, inputs, script, TAIL, text=partition(payload).payload.text)
            agrees(payload, found, payload.reference(**inputs))
    assert "memref.prefetch" not in texts[False]
    read, found = (re.findall(rf"memref.prefetch %\w+\[[^]]*\], {how}", texts[True]) for how in ("read", "write"))
    rest = payload.arguments[0].shape[-1] % this_machine().lanes
    assert sum("%arg0" in line for line in read) == (2 if rest else 1), (
        "once for whole vectors, once for what they leave"
    )
    later = spec.startswith("softmax")  # its last pass is behind the last one that reads
    assert bool(found) == (written and later)


@pytest.mark.parametrize("said", ["", '{autotune.stencil = "x"}', "{autotune.stencil = 0 : i64}", "{autotune.stencil}"])
def test_a_mark_that_holds_no_number_is_refused_in_a_line(said):
    with context():
        module = parse(f"module {{ func.func private @f() {f'attributes {said}' if said else ''} }}", "mine")
        with pytest.raises(CompileError, match=r"autotune.stencil must be a number of 1 or more on func.func, got "):
            marked_numbers(module.body.operations[0].operation, STENCIL)
