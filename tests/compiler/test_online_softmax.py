"""Online softmax: which groups may go online, and that what they become computes the same."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import MACHINES, agrees, run

from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.passes.online_softmax import go_online
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import CompileError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.plugs.rewrites import Blocks
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import family_for, load_payload
from autotune.tuning.candidates import candidate_alone
from autotune.worker.bench.evaluate import evaluate
from autotune.worker.bench.proof import transform
from schedules.fused_model import with_contractions
from schedules.fused_shape import shape_of

ATTENTION = "attention,heads=2,seq=128,d=24"
QUICK = Effort(samples=3, seconds=0.01, sample_seconds=1e-5)
NAMES, ROWS = ("avx512", "avx2", "neon"), (16, 64)
SPECS = (ATTENTION, f"{ATTENTION},causal=1", "attention,heads=1,seq=192,d=16,causal=1")
OTHERS = ({"hidden": "computed"}, {"pack_b_1": "none"}, {"math": "libm"})


def attention_task(payload):
    return next(task for task in partition(payload).tasks if len(task.contractions) == 2)


def script_of(task, machine, **knobs):
    """The script of the task alone, with these knobs, and register tiles by default for its blocks."""
    family = family_for(task)
    frame = {**family.default(task, machine), **knobs}
    config = {**with_contractions(shape_of(task), frame, machine), **knobs}
    assert family.space(task, machine).broken_constraint(config) is None, knobs
    return write_step(task, family, config, machine, alone=True)


@pytest.mark.parametrize("spec", SPECS)
def test_online_softmax_is_right(spec):
    """By default for every machine; each other knob with every machine and payload, and not with all of each.

    What a knob changes is written by one function whatever the others are. One oracle judges them all.
    """
    task, place, steps = attention_task(load_payload(spec)), SPECS.index(spec), []
    for at, machine in enumerate(NAMES):
        for number, knobs in enumerate(({}, OTHERS[(at + place) % len(OTHERS)])):
            if "hidden" not in knobs or "causal" in spec:
                rows = ROWS[(at + place + number) % len(ROWS)]
                steps.append(script_of(task, MACHINES[machine], online=64, rows=rows, **knobs))
    job = Job(task.payload, tuple(map(candidate_alone, steps)), this_machine(), effort=QUICK)
    for step, found in zip(steps, evaluate(job), strict=True):
        assert found.outcome == "ok", (step.config, found.diagnostic)


def test_several_layers_go_online_in_the_whole_model():
    payload = load_payload("gpt,d_model=32,heads=2,d_ff=48,vocab=33,seq=128,layers=2")
    parts = partition(payload)
    task = attention_task(payload)
    step = replace(script_of(task, this_machine(), online=64, rows=32), ops=task.occurrences)
    inputs = payload.make_inputs(0)
    found = run(payload, inputs, assemble([step]), TAIL, text=parts.payload.text)
    agrees(payload, found, payload.reference(**inputs))


@pytest.mark.parametrize("low", ["-1.0e+30", "0xFF800000"], ids=["low", "infinite"])
def test_block_that_a_mask_hides_whole_adds_nothing(low):
    """A row sees the columns from its own on: late rows nothing of the first block."""
    payload = load_payload(f"{ATTENTION},causal=1")
    text = payload.text.replace("arith.cmpi ule", "arith.cmpi uge").replace("constant -1.0e+30", f"constant {low}")
    turned = replace(payload, text=text, reference=None)
    inputs = turned.make_inputs(0)
    (expected,) = run(turned, inputs, None, PLAIN)
    assert np.isfinite(expected).all()
    task = attention_task(turned)
    names = [argument.name for argument in task.payload.arguments]
    (found,) = run(task.payload, dict(zip(names, inputs.values(), strict=False)), candidate(task).script, TAIL)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def candidate(task):
    return candidate_alone(script_of(task, this_machine(), online=64, rows=32))


def test_rows_that_are_hidden_whole_are_zero_where_the_sum_starts_from_next_to_nothing():
    """Online, which starts from the lowest finite maximum by itself, as otherwise."""
    payload = load_payload(ATTENTION)
    text = payload.text.replace("0xFF800000", "-3.40282347E+38")
    start = "%probabilities_sum_start = arith.constant"
    text = text.replace(f"{start} 0.0", f"{start} 1.17549435E-38")
    assert text.count("E-38") == text.count("E+38") == 1
    task = attention_task(replace(payload, text=text, reference=None))
    names = [argument.name for argument in task.payload.arguments]
    inputs = payload.make_inputs(0)
    inputs["q"][0, 3], inputs["k"][0] = np.inf, -np.abs(inputs["k"][0])
    given = dict(zip(names, inputs.values(), strict=False))
    expected = payload.reference(**{**inputs, "q": np.nan_to_num(inputs["q"], posinf=0)})[0]
    expected[0, 3] = 0
    for script in (candidate(task).script, candidate_alone(script_of(task, this_machine(), online=0)).script):
        (found,) = run(task.payload, given, script, TAIL)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "spec", ["softmax,rows=64,cols=256", "layer_norm,rows=64,cols=256", "gelu,rows=64,cols=256", "matmul,m=128,k=128"]
)
def test_what_does_not_divide_by_the_sum_of_a_softmax_stays(spec):
    assert all(member.online_loop is None for task in partition(load_payload(spec)).tasks for member in task.ops)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("arith.subf %e0, %e1", "arith.subf %e1, %e0"),
        ("math.exp %", "math.exp2 %"),
        ("arith.maximumf", "arith.minimumf"),
        ("%probabilities_sum_start = arith.constant 0.0", "%probabilities_sum_start = arith.constant 1.0"),
        ("arith.addf %acc, %e0", "arith.mulf %acc, %e0"),
    ],
    ids=["negative", "other-base", "smallest", "start", "product"],
)
def test_what_is_not_linear_in_the_exponentials_stays(old, new):
    payload = load_payload(ATTENTION)
    assert old in payload.text
    changed = replace(payload, text=payload.text.replace(old, new))
    assert all(member.online_loop is None for task in partition(changed).tasks for member in task.ops)


def test_a_group_that_reads_at_a_constant_place_stays():
    """Which part of such an operand belongs to a block is not known."""
    payload = load_payload(ATTENTION)
    whole, kind, one = "affine_map<(d0, d1, d2) -> (d0, d1, d2)>", "tensor<2x128x24xf32>", "tensor<2x128x1xf32>"
    text = payload.text.replace(f"[{whole}, {whole}]", f"[{whole}, {whole.replace('d2)>', '0)>')}, {whole}]", 1)
    text = text.replace(f"ins(%q : {kind})", f"ins(%q, %column : {kind}, {one})")
    text = text.replace("(%e0: f32, %acc: f32)", "(%e0: f32, %first: f32, %acc: f32)", 1)
    text = text.replace("mulf %e0, %factor", "mulf %e0, %first", 1)
    column = f"%column = tensor.extract_slice %q[0, 0, 0] [2, 128, 1] [1, 1, 1] : {kind} to {one}"
    text = text.replace("    %scaled = ", f"    {column}\n    %scaled = ")
    members = attention_task(replace(payload, text=text)).ops
    assert {member.online_loop for member in members} == {None}


def test_script_says_what_goes_online():
    task = attention_task(load_payload(f"{ATTENTION},causal=1"))
    script = candidate(task).script
    with context():
        assert Unit.open(task.payload, Candidate(script, TAIL)).blocks == {task.tag: Blocks(32, 64, skips=True)}
        for none in (assemble([]), None):
            assert Unit.open(task.payload, Candidate(none, TAIL)).blocks == {}


def test_plain_mlir_sees_the_loops_before_the_script():
    task = attention_task(load_payload(ATTENTION))
    found = transform(Claim(task.payload, candidate(task)))
    assert found.before.count("scf.for") == 3
    assert "tensor<128x128" not in found.before.split("scf.for", 3)[3]
    assert "128x128" not in found.after, "no whole matrix of scores"


def test_group_that_cannot_go_online_is_refused():
    parts = partition(load_payload("softmax,rows=16,cols=128"))
    with context():
        module = parse(parts.payload.text, "softmax")
        function = find_function(module, parts.payload.entry)
        with pytest.raises(CompileError, match="must divide by a softmax's sum to go online, it does not"):
            go_online(function, {parts.tasks[0].tag: Blocks(8, 64)})


def test_online_scores_take_less_memory():
    task = attention_task(load_payload("attention,heads=1,seq=512,d=16"))
    steps = [
        script_of(task, this_machine(), rows=64),
        script_of(task, this_machine(), rows=64, online=64, register_order_1="nm"),
    ]
    job = Job(task.payload, tuple(candidate_alone(step) for step in steps), this_machine(), effort=QUICK)
    whole, online = (found.buffers for found in evaluate(job))
    assert online.peak_bytes < whole.peak_bytes / 2
