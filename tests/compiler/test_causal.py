"""Causal masks: what is known to be hidden, what must not be taken for it, and that nothing of it is missed."""

from dataclasses import replace

import numpy as np
import pytest
from precision_support import WORDS, computed
from tuning_support import agrees, drawn_configs, run

from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.ops.graph import node
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, write_step
from autotune.core.scripts.marks import HIDDEN
from autotune.registry import family_for, load_payload
from payload import reference
from payload.kernels import make

CAUSAL = "attention,heads=2,seq=40,d=16,causal=1"
HIDDEN_LOOPS = [None, 3, 2, 2, 2, 2, 2, None]  # quotient, mixed, sum, exp, max, mask, scores, scaled q
# Each makes a program of which the hidden columns count, or cannot be told.
SPOILED = {
    "the mask keeps the future": ("arith.cmpi ule,", "arith.cmpi uge,"),
    "a mask of half the columns": ("%column = linalg.index 2", "%column = linalg.index 1"),
    "the mask is not low enough": ("-1.0e+30", "-1.0e+10"),
    "a smallest, not a largest": ("arith.maximumf", "arith.minimumf"),
    "no exponential": ("math.exp", "math.absf"),
    "a product instead of a sum": ("arith.addf %acc, %e0", "arith.mulf %acc, %e0"),
}


def hidden(text, payload=None):
    payload = payload or load_payload(CAUSAL)
    tasks = partition(type(payload)(payload.name, text, payload.entry, payload.arguments)).tasks
    return [member.masked_loop for task in tasks for member in task.ops]


def shared_attention(seq, shared=3, groups=2, depth=16):
    """Causal attention of heads that share keys and values: their rows lie below each other."""
    shapes = {"q": (groups * shared, seq, depth), "k": (groups, seq, depth), "v": (groups, seq, depth)}
    whole = make(
        "attention",
        {},
        defaults={},
        arguments=(*(Argument(name, "input", shapes[name]) for name in "qkv"), Argument("out", "output", shapes["q"])),
        graph=(node("attention", *"qkv", gives={"out": shapes["q"]}, causal=True),),
        oracle=lambda **_: None,
        flops=1,
    )
    (group,) = (task for task in partition(whole).tasks if task.is_group)

    def oracle(in0, in1, in2):
        heads = [
            each.reshape(-1, seq, depth) for each in (in0 * depth**0.5, *(np.repeat(a, shared, 0) for a in (in1, in2)))
        ]
        return [reference.attention(*heads, causal=True).reshape(in0.shape)]

    return replace(group.payload, reference=oracle)


def test_columns_behind_the_diagonal_are_hidden_in_every_op_that_has_them():
    assert hidden(load_payload(CAUSAL).text) == HIDDEN_LOOPS


def test_a_mask_that_compares_the_other_way_round_hides_the_same():
    text = load_payload(CAUSAL).text.replace("cmpi ule, %column, %row", "cmpi uge, %row, %column")
    assert hidden(text) == HIDDEN_LOOPS


@pytest.mark.parametrize("change", SPOILED.values(), ids=SPOILED)
def test_columns_that_may_count_are_not_hidden(change):
    text = load_payload(CAUSAL).text
    assert change[0] in text
    assert set(hidden(text.replace(*change))) == {None}


def test_without_a_mask_nothing_is_hidden():
    assert set(hidden(load_payload(CAUSAL.replace(",causal=1", "")).text)) == {None}


def test_columns_that_are_results_are_not_hidden():
    """What is exponentiated is written, zeros and all."""
    payload = load_payload(CAUSAL)
    text = payload.text.replace("%attention in restrict", "%probabilities_exp in restrict")
    text = text.replace("(tensor<2x40x16xf32>, memref<2x40x16xf32>)", "(tensor<2x40x40xf32>, memref<2x40x40xf32>)")
    text = text.replace("%out_memref: memref<2x40x16xf32>", "%out_memref: memref<2x40x40xf32>")
    assert set(hidden(text)) == {None}


def test_a_mask_that_begins_again_for_every_head_hides_columns():
    payload = shared_attention(40)
    (group,) = partition(payload).tasks
    assert [op.masked_loop for op in group.ops] == HIDDEN_LOOPS[: len(group.ops)]
    assert {op.mask_period for op in group.ops if op.masked_loop is not None} == {40}
    work = sum(op.contraction.flops for op in group.ops if op.contraction)
    assert sum(op.flops for op in group.ops if op.contraction) == work * 41 / 80
    assert set(hidden(payload.text.replace("arith.remui", "arith.divui"), payload)) == {None}


ALONE = (CAUSAL, "attention,heads=1,seq=67,d=24,causal=1", "attention,seq=96,causal=1")


@pytest.mark.parametrize("payload", [*map(load_payload, ALONE), shared_attention(64), shared_attention(21)])
def test_what_is_skipped_changes_no_result(payload):
    parts = partition(payload)
    (task,) = parts.tasks
    family, machine, inputs = family_for(task), this_machine(), payload.make_inputs(0)
    plain = run(payload, inputs, None, PLAIN)
    agrees(payload, plain, payload.reference(**inputs))
    drawn = (c for c in drawn_configs(family, task, machine, 40, 3) if c["hidden"] == "skipped")
    others = (config for config, _ in zip(drawn, range(2), strict=False))
    # What LLVM makes of loops it is asked once: optimising takes longer than all else.
    for level, config in [(3, family.default(task, machine)), *((0, config) for config in others)]:
        script = assemble([write_step(task, family, config, machine)])
        assert (HIDDEN in script) == (config["hidden"] == "skipped")
        agrees(payload, run(payload, inputs, script, TAIL, text=parts.payload.text, level=level), plain)


def test_what_is_skipped_is_not_computed():
    """Keys that no row but the last can see may be anything, once blocks of rows stop before them."""
    payload = load_payload("attention,heads=1,seq=64,d=16,causal=1")
    parts = partition(payload)
    (task,) = parts.tasks
    family, machine = family_for(task), this_machine()
    config = {**family.default(task, machine), "rows": 16, "vectors": 1, "register_n_1": 1, "pack_b_1": "none"}
    config |= {"pack_b_2": "none"}
    inputs = payload.make_inputs(0)
    inputs["v"][:, 48:] = np.nan
    (skipped,) = run(
        payload, inputs, assemble([write_step(task, family, config, machine)]), TAIL, text=parts.payload.text
    )
    (masked,) = run(payload, inputs, None, PLAIN)
    assert np.isnan(masked).all(), "0 x NaN is NaN: the plain lowering multiplies what it masked"
    assert np.isfinite(skipped[:, :48]).all()


WORDS_IN_CALL = [family for family in WORDS if family.precision.packs_in_call and family.precision.by_tiles]


@pytest.fixture
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("family", WORDS_IN_CALL, ids=lambda family: family.name)
@pytest.mark.parametrize(
    "payload", [load_payload("attention,heads=2,seq=96,d=16,causal=1"), shared_attention(72)], ids=["alone", "shared"]
)
def test_words_of_what_is_hidden_are_left_out(family, payload):
    """Values of keys that no row of a block can see may be anything; what is computed has the same bits."""
    inputs = payload.make_inputs(0)
    config = {"rows": 8, "register_n_1": 1, "vectors": 1}
    (skipped,) = computed(family, payload, inputs, hidden="skipped", **config)
    (whole,) = computed(family, payload, inputs, hidden="computed", **config)
    np.testing.assert_array_equal(skipped, whole)
    keys = list(inputs.values())[2].shape[1]
    list(inputs.values())[2][:, 64:] = np.nan
    (skipped,) = computed(family, payload, inputs, hidden="skipped", **config)
    sees = np.arange(skipped.shape[1]) % keys >= 64
    np.testing.assert_array_equal(skipped[:, ~sees], whole[:, ~sees])
    assert np.isnan(skipped[:, sees]).all()
