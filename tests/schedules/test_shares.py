"""Work shared out among threads: every config of every family is right, and no two threads write to one cache line."""

from itertools import islice

import pytest
from tuning_support import agrees, call, drawn_configs, run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import PLAIN, tail
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.ops.op import Contraction, LoopNest
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_payload
from schedules import shares
from schedules.fused_shape import piece_of_group, shape_of
from schedules.matmul_space import columns_of

needs_runtime = pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
SPECS = (
    "matmul,m=150,n=200,k=90",
    "matmul,m=64,n=96,k=80,transpose_b=1",
    "matmul,m=48,n=130,k=70,constant_b=1",
    "batch_matmul,batch=6,m=40,n=33,k=50",
    "attention,heads=4,seq=48,d=16",
    "attention,heads=1,seq=96,d=16,causal=1",
    "softmax,rows=48,cols=70",
    "layer_norm,rows=24,cols=64",
    "gelu,rows=24,cols=40",
    "embedding",
    "nano",
)


def tasks_of(spec):
    return [(task, family_for(task)) for task in partition(load_payload(spec)).tasks]


def is_shared(config):
    return any(value > 1 for name, value in config.items() if name.startswith("pieces_"))


def shared_configs(family, task, machine, count):
    """A few random configs of those that share work out."""
    return list(islice(filter(is_shared, drawn_configs(family, task, machine, 60, 0)), count))


@pytest.mark.parametrize("spec", SPECS)
def test_on_one_thread_no_knob_is_about_threads(spec):
    for task, family in tasks_of(spec):
        assert not any(knob.name.startswith("pieces_") for knob in family.space(task, this_machine()).knobs)
        assert "forall" not in family.build(task, family.default(task, this_machine()), this_machine())


@pytest.mark.parametrize("spec", SPECS)
def test_default_configs_obey_their_spaces(spec, monkeypatch):
    for cycles in (0, shares.FORK_CYCLES):
        monkeypatch.setattr(shares, "FORK_CYCLES", cycles)
        for task, family in tasks_of(spec):
            space, config = family.space(task, this_machine(4)), family.default(task, this_machine(4))
            space.check(config)
            assert space.broken_constraint(config) is None


@needs_runtime
@pytest.mark.parametrize(("spec", "threads"), list(zip(SPECS[:-2], (2, 3) * 5, strict=False)))
def test_configs_that_share_work_out_are_right(spec, threads):
    machine, tried = this_machine(threads), 0
    for task, family in tasks_of(spec):
        inputs = task.payload.make_inputs(0)
        expected = run(task.payload, inputs, None, PLAIN)
        for config in shared_configs(family, task, machine, 3):
            step = write_step(task, family, config, machine, alone=True)
            found = run(task.payload, inputs, assemble([step]), tail(threads), panels=panels_of([step]))
            agrees(task.payload, found, expected)
            tried += 1
    assert tried


@needs_runtime
def test_a_whole_model_on_threads_is_right_again_and_again(monkeypatch):
    from autotune.tuning.candidates import default_candidate

    monkeypatch.setattr(shares, "FORK_CYCLES", 0)
    payload = load_payload("nano,layers=1")
    candidate = default_candidate(partition(payload), this_machine(2))
    assert candidate.script.count("tile_using_forall") > 3
    inputs = payload.make_inputs(0)
    expected = payload.reference(**inputs)
    program = compile_program(payload, candidate)
    for _ in range(3):
        agrees(payload, call(payload, program, inputs), expected)


# Pieces.


@pytest.mark.parametrize("count", [2, 3, 4, 7])
@pytest.mark.parametrize("n", [16, 70, 96, 1000])
def test_rows_of_a_piece_end_where_a_cache_line_does(count, n):
    rows = shares.stretch(1000, count, shares.row_grain(n))
    assert rows * n * 4 % 64 == 0
    assert 0 <= 1000 - count * rows < count * shares.LINE


@pytest.mark.parametrize("spec", ["matmul,m=150,n=200,k=90", "matmul,m=48,n=130,k=70,constant_b=1"])
def test_pieces_of_a_product_cover_it_but_for_what_one_thread_adds(spec):
    ((task, family),) = tasks_of(spec)
    machine, c = this_machine(4), task.contraction
    for config in shared_configs(family, task, machine, 20):
        piece = shares.piece_of(c, config, columns_of(config))
        assert config["pieces_m"] == 1 or piece.m * piece.n * 4 % 64 == 0 or piece.m * c.n * 4 % 64 == 0
        assert config["pieces_n"] == 1 or piece.n * 4 % 64 == 0
        assert piece.m * config["pieces_m"] <= c.m
        assert piece.n * config["pieces_n"] <= c.n


def test_pieces_of_a_group_are_equal_and_hold_whole_blocks():
    for task, family in [pair for spec in SPECS for pair in tasks_of(spec) if pair[1].name == "fused"]:
        whole = shape_of(task)
        for config in shared_configs(family, task, this_machine(4), 5):
            piece = piece_of_group(whole, config)
            parts = [config.get(f"pieces_{dim}", 1) for dim in "bmn"]
            assert piece.most_rows % config["rows"] == 0
            total, mine = 1, 1
            for a, b in zip(whole.sizes, piece.sizes, strict=True):
                total, mine = total * a, mine * b
            assert mine * parts[0] * parts[1] * parts[2] == total


def test_small_work_stays_on_one_thread():
    machine = this_machine(4)
    assert not shares.pays(1000, 1000, machine)
    assert shares.pays(1e9, 0, machine)
    assert not shares.pays(1e9, 1e9, this_machine())


def test_stored_weights_are_cut_by_columns_and_many_rows_by_rows():
    machine, config = this_machine(2), {"pack_b": "beforehand", "register_m": 6}
    wide, tall = Contraction(128, 3072, 768, constant_b=True), Contraction(4096, 512, 512, constant_b=True)
    assert shares.default_pieces(wide, config, 64, machine) == {"pieces_m": 1, "pieces_n": 2}
    assert shares.default_pieces(tall, config, 64, machine) == {"pieces_m": 2, "pieces_n": 1}


def test_an_op_without_a_loop_around_its_vectors_has_nothing_to_share():
    assert shares.outer_loop(LoopNest((64,), ("parallel",)), 0) is None
    assert shares.outer_loop(LoopNest((1, 8, 64), ("parallel",) * 3), 2) == 1
    assert shares.outer_counts(LoopNest((6, 3), ("parallel",) * 2), 1, this_machine(2)) == (1,)


@pytest.mark.parametrize(
    ("rows", "threads", "count"), [(56, 2, 2), (7, 2, 7), (7, 16, 7), (14, 4, 14), (13, 2, 13), (53, 2, 1)]
)
def test_rows_of_an_image_are_shared_out_so_that_the_busiest_thread_has_least(rows, threads, count):
    nest = LoopNest((rows, rows, 64, 3, 3, 64), ("parallel",) * 3 + ("reduction",) * 3)
    assert shares.outer_default(nest, 2, this_machine(threads)).get("pieces_m", 1) == count
