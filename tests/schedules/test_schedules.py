"""One contract for every registered schedule family, on tasks of many sizes and machines of every kind."""

import math
from dataclasses import replace

import pytest
from compile_support import apply_script
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_support import MACHINES, contraction_payload, tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.tasks.partition import partition
from autotune.core.errors import ScheduleError, SpaceError
from autotune.core.ops.op import Contraction, LoopNest, Op
from autotune.core.payload import Argument, Payload
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble
from autotune.core.task import Task
from autotune.registry import families, family_for, load_family, load_payload

PRIMES_AND_EDGES = (1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 31, 64, 97, 127, 509, 512, 768, 1009, 1733, 3072, 12289, 50257)
SIZES = st.one_of(st.sampled_from(PRIMES_AND_EDGES), st.integers(1, 50257))
SAMPLED = 200  # configs of a space that are looked at where all would be too many


def tasks_of(payload):
    return {task.tag: task for task in partition(payload).tasks}


def make_tasks():
    """Every kind of task: contractions of every layout, element-wise ops, row reductions, a transpose."""
    tasks = {}
    for spec in (
        "matmul,m=64,n=96,k=128",
        "matmul,m=1,n=1,k=1",
        "softmax,rows=7,cols=33",
        "gelu,rows=5,cols=64",
        "layer_norm,rows=6,cols=40",
        "embedding,rows=6,cols=40,vocab=9",
        "attention,heads=2,seq=24,d=8,causal=1",
        "attention,heads=1,seq=128,d=8,causal=1",
        "nano",
    ):
        tasks |= tasks_of(load_payload(spec))
    for a, b, batch in (("km", "kn", 0), ("mk", "nk", 0), ("km", "nk", 0), ("mk", "nk", 3), ("km", "kn", 3)):
        tasks |= tasks_of(contraction_payload(13, 31, 17, a=a, b=b, batch=batch))
    turned = "linalg.transpose ins(%x : tensor<5x9xf32>) outs(%empty : tensor<9x5xf32>) permutation = [1, 0]"
    body = f"%empty = tensor.empty() : tensor<9x5xf32>\n    %result = {turned}"
    arguments = [Argument("x", "input", (5, 9)), Argument("y", "output", (9, 5))]
    return tasks | tasks_of(tensor_payload("turn", arguments, body))


TASKS = make_tasks()
CASES = [(family, tag) for family in families() for tag, task in TASKS.items() if family.covers(task)]


def contraction_task(m, n, k, **layout):
    """A contraction as the partition would describe it; schedules never read its text."""
    about = Contraction(m=m, n=n, k=k, **layout)
    sizes, kinds = (m, n, k), ("parallel", "parallel", "reduction")
    nest = LoopNest((about.batch, *sizes), ("parallel", *kinds)) if about.batched else LoopNest(sizes, kinds)
    return Task("product", Payload("product", "", "product", ()), (Op(nest, contraction=about),))


def check_text(body):
    """A body must be a valid script once assembled."""
    with context():
        assert parse(assemble([Step("tag", 1, WrittenScript(body))]), "script").operation.verify()


def check_default(family, task, machine):
    """The default is in the space, obeys its laws, and writes a valid script."""
    space, config = family.space(task, machine), family.default(task, machine)
    space.check(config)
    assert space.broken_constraint(config) is None
    check_text(family.build(task, config, machine))


@pytest.fixture(params=CASES, ids=[f"{family.name}-{tag}" for family, tag in CASES])
def bound(request):
    """A family and a task of its, with every machine, its space and its default there."""
    family, tag = request.param
    task = TASKS[tag]
    return family, task, [(m, family.space(task, m), family.default(task, m)) for m in MACHINES.values()]


class TestEveryFamily:
    def test_default_is_a_valid_config_whose_script_parses_and_which_writes_the_same_text_again(self, bound):
        family, task, places = bound
        for machine, space, config in places:
            check_default(family, task, machine)
            assert list(config) == [knob.name for knob in space.knobs], machine.name  # as a search gives them
            first = family.build(task, config, machine)
            assert family.build(task, dict(reversed(config.items())), machine) == first, machine.name
            assert family.default(task, machine) == config, machine.name

    def test_space_is_not_empty_and_the_same_every_time_and_every_law_is_a_sentence(self, bound):
        family, task, places = bound
        for machine, space, _ in places:
            assert next(space.configs(), None) is not None, machine.name
            assert space.knobs == family.space(task, machine).knobs, machine.name
            for constraint in space.constraints:
                assert len(constraint.sentence.split()) > 3, constraint.sentence

    def test_config_outside_space_is_rejected(self, bound):
        family, task, places = bound
        for machine, space, config in places:
            for knob in space.knobs:
                missing = {name: value for name, value in config.items() if name != knob.name}
                for bad in (config | {knob.name: 12345}, missing):
                    with pytest.raises(SpaceError, match=knob.name):
                        family.build(task, bad, machine)
            with pytest.raises(SpaceError, match="unknown_knob"):
                family.build(task, config | {"unknown_knob": 1}, machine)


def test_every_task_is_covered_by_some_family():
    assert {tag for _, tag in CASES} == set(TASKS)


def test_family_names_differ():
    assert len({family.name for family in families()}) == len(families())


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("name", ["matmul", "vectorize"])
@settings(max_examples=40)
@given(sizes=st.tuples(SIZES, SIZES, SIZES), batch=st.sampled_from([0, 1, 12]), turned=st.sampled_from(range(4)))
def test_contraction_of_any_size_has_a_default_that_writes_a_valid_script(name, machine, sizes, batch, turned):
    layout = {"transposed_a": bool(turned & 1), "transposed_b": bool(turned & 2)}
    if batch:
        layout |= {"batch": batch, "batched": True}
    check_default(load_family(name), contraction_task(*sizes, **layout), machine)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@settings(max_examples=40)
@given(sizes=st.lists(SIZES, min_size=1, max_size=4), last=st.sampled_from(["parallel", "reduction"]))
def test_row_wise_op_of_any_size_has_a_default_that_writes_a_valid_script(machine, sizes, last):
    nest = LoopNest(tuple(sizes), (*["parallel"] * (len(sizes) - 1), last))
    check_default(load_family("vectorize"), Task("rows", Payload("rows", "", "rows", ()), (Op(nest),)), machine)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("sizes", [(64, 96, 128), (13, 31, 17), (509, 509, 509), (1, 50257, 768)])
def test_accumulators_of_every_valid_config_fit_the_registers(machine, sizes):
    family, task = load_family("matmul"), contraction_task(*sizes)
    for _, config in zip(range(SAMPLED), family.space(task, machine).configs(), strict=False):
        vectors = math.ceil(min(config["register_n"] * config["vector_width"], sizes[1]) / machine.lanes)
        assert min(config["register_m"], sizes[0]) * vectors < machine.vector_registers


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_vectors_are_never_wider_than_the_machine(machine):
    for tag in TASKS:
        for knob in load_family("matmul").space(TASKS[tag], machine).knobs if TASKS[tag].contraction else ():
            if knob.name == "vector_width":
                assert max(knob.values) <= machine.lanes


def test_large_contraction_fills_the_registers_of_every_machine_by_default():
    for machine in MACHINES.values():
        config = load_family("matmul").default(contraction_task(512, 512, 512), machine)
        accumulators = config["register_m"] * config["register_n"]
        assert config["vector_width"] == machine.lanes
        assert accumulators >= machine.vector_registers // 2


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("rows", [97, 194, 201, 509, 1021])
def test_contraction_in_a_group_reads_b_for_many_rows_whatever_divides_them(rows, machine):
    found = 0
    for task in tasks_of(load_payload(f"nano,seq={rows},positions={rows}")).values():
        family = next(family for family in families() if family.covers(task))
        if family.name == "fused" and task.contractions:
            config = family.default(task, machine)
            assert min(value for name, value in config.items() if name.startswith("register_m")) >= 3
            found += 1
    assert found >= 3


def test_machine_without_a_last_level_cache_gets_a_default():
    check_default(load_family("matmul"), contraction_task(512, 512, 512), replace(MACHINES["avx2"], l3_bytes=0))


def test_matmul_family_refuses_what_is_no_contraction():
    family = load_family("matmul")
    task = next(task for task in TASKS.values() if task.contraction is None)
    assert not family.covers(task)
    with pytest.raises(ScheduleError, match=r"needs a contraction.*try schedule 'vectorize'"):
        family.space(task, MACHINES["avx2"])


def test_sizes_that_divide_are_not_cut_and_others_are():
    family, machine = load_family("matmul"), MACHINES["avx512"]
    even, odd = (contraction_task(*sizes) for sizes in ((768, 512, 512), (509, 509, 509)))
    assert "structured.split" not in family.build(even, family.default(even, machine), machine)
    assert "structured.split" in family.build(odd, family.default(odd, machine), machine)


@pytest.mark.parametrize("sizes", [(512, 512, 512), (130, 197, 139), (37, 50257, 5)], ids=str)
@pytest.mark.parametrize("b", ["kn", "nk"])
def test_scripts_never_vectorize_with_masks(sizes, b):
    parts = partition(contraction_payload(*sizes, b=b))
    (task,) = parts.tasks
    family, machine = load_family("matmul"), MACHINES["avx2"]
    body = family.build(task, family.default(task, machine), machine)
    with context():
        module = parse(parts.payload.text, "payload")
        apply_script(module, assemble([Step(task.tag, 1, WrittenScript(body))]))
        text = str(module)
    assert "vector.transfer_read" in text or "vector.load" in text
    assert "mask" not in text


def test_a_pad_of_the_payload_is_not_taken_for_a_copy():
    task = contraction_task(64, 512, 512)
    family, machine = load_family("matmul"), MACHINES["avx2"]
    body = family.build(task, {**family.default(task, machine), "pack_b": "panels"}, machine)
    assert 'match ops{["tensor.pad"]} attributes{autotune.packed}' in body
    assert 'match ops{["tensor.pad"]} in' not in body


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_matrix_times_one_column_is_summed_in_vectors_along_its_rows(machine):
    """A tile of one column has no vectors across columns: partial sums lie side by side along each row."""
    (task,) = partition(load_payload("matmul,m=6,n=1,k=1000")).tasks
    family = family_for(task)
    assert family.name == "vectorize"
    assert "tile_reduction_using_for" in family.build(task, family.default(task, machine), machine)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize(
    ("m", "role_b", "expected"),
    [(1, "input", "vectorize"), (4, "input", "vectorize"), (64, "input", "matmul"), (1, "weight", "matmul")],
)
def test_few_rows_by_a_transposed_b_are_sums_along_its_rows_unless_it_is_stored_as_the_schedule_likes(
    machine, m, role_b, expected
):
    (task,) = partition(contraction_payload(m, 24, 40, b="nk", role_b=role_b)).tasks
    family = family_for(task)
    assert family.name == expected
    default = family.default(task, machine)
    if expected == "vectorize":
        assert default.get("strip", 1) == m
        held = m * default["rows"] + default["rows"] + 1  # sums, a row of each column, and an element's
        assert held <= machine.vector_registers
        assert default["rows"] == 4 or held + m * default["rows"] + default["rows"] > machine.vector_registers
        assert "tile_reduction_using_for" in family.build(task, default, machine)
