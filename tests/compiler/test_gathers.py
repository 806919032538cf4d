"""Gathers: elements read at places that a tensor holds are a task of their own, copied in vectors, and right."""

from functools import cache

import pytest
from tuning_support import MACHINES, agrees, default_steps, random_configs, run, tensor_payload

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_family, load_payload

ODD = "gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17,layers=1"
PAIRS = "affine_map<(i, j) -> (i, j)>"


def gather_payload(places, read, *, rows=5, columns=37, vocab=11):
    """``y[i, j]`` of a table (rows of which are as long), at ids along the dimension `places`."""
    shape = (vocab, columns) if places == "i" else (rows, vocab)
    count = rows if places == "i" else columns
    body = f"""%empty = tensor.empty() : tensor<{rows}x{columns}xf32>
    %result = linalg.generic {{indexing_maps = [affine_map<(i, j) -> ({places})>, {PAIRS}],
                              iterator_types = ["parallel", "parallel"]}}
      ins(%ids : tensor<{count}xi32>) outs(%empty : tensor<{rows}x{columns}xf32>) {{
    ^bb0(%id: i32, %out: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %one = arith.constant 1 : i32
      {read}
      linalg.yield %y : f32
    }} -> tensor<{rows}x{columns}xf32>"""
    arguments = [
        Argument("ids", "input", (count,), "i32", low=1, high=vocab - 1),
        Argument("table", "weight", shape),
        Argument("y", "output", (rows, columns)),
    ]
    return tensor_payload("pick", arguments, body)


def extract(place, kind):
    return f"""%place = arith.index_cast {place} : i32 to index
      %y = tensor.extract %table[{kind}] : """


ROWS = gather_payload("i", extract("%id", "%place, %j") + "tensor<11x37xf32>")
COLUMNS = gather_payload("j", extract("%id", "%i, %place") + "tensor<5x11xf32>")
SHIFTED = gather_payload(
    "i", "%next = arith.addi %id, %one : i32\n      " + extract("%next", "%place, %j") + "tensor<11x37xf32>"
)


@cache
def model(more=""):
    """A GPT, and its parts."""
    payload = load_payload(ODD + more)
    return payload, partition(payload)


def scheduled(payload, machine, parts=None):
    parts = parts or partition(payload)
    steps = default_steps(parts, machine)
    return Candidate(assemble(steps), TAIL, parts.payload.text, panels_of(steps))


def check(payload, expected, machine, count=3):
    parts = partition(payload)
    (task,) = parts.tasks
    assert task.root.gathers
    family = family_for(task)
    inputs = payload.make_inputs(1)
    for config in random_configs(family, task, machine, count, seed=3):
        script = assemble([write_step(task, family, config, machine)])
        agrees(payload, run(payload, inputs, script, TAIL, text=parts.payload.text), expected(inputs))


@pytest.mark.parametrize(
    ("sizes", "machine"),
    [
        *(((17, 72, 101), machine) for machine in (None, "sse", "avx2")),
        *(((1, 1, 1), "avx2"), ((7, 33, 5), "avx512"), ((4, 300, 2), "sse")),
    ],
    ids=str,
)
def test_embedding_of_any_size_is_right(sizes, machine):
    rows, columns, vocab = sizes
    payload = load_payload(f"embedding,rows={rows},cols={columns},vocab={vocab}")
    host = MACHINES[machine] if machine else this_machine()
    check(payload, lambda inputs: payload.reference(**inputs), host)


def test_rows_and_columns_by_place_are_right_in_the_usual_form():
    check(ROWS, lambda x: [x["table"][x["ids"]]], this_machine())
    check(COLUMNS, lambda x: [x["table"][:, x["ids"]]], this_machine())


def test_a_row_is_copied_in_vectors():
    text = compile_to("bufferized", ROWS, scheduled(ROWS, MACHINES["avx2"])).text
    assert "vector.load %arg1" in text
    assert "vector.gather" not in text
    assert text.count("scf.for") == 2  # rows, and vectors of one: what is left over of a row follows them


def test_task_of_a_gather_gets_places_that_there_are():
    (task,) = partition(ROWS).tasks
    held = {a.dtype: (a.low, a.high) for a in task.payload.arguments if a.role != "output"}
    assert held["i32"] == (0, 11)
    assert held["f32"] == (-1.0, 1.0)


def test_places_that_are_computed_are_left_to_the_plain_lowering():
    parts = partition(SHIFTED)
    assert not parts.tasks
    inputs = SHIFTED.make_inputs(0)
    got = run(SHIFTED, inputs, assemble([]), TAIL, text=parts.payload.text)
    agrees(SHIFTED, got, [inputs["table"][inputs["ids"] + 1]])


@pytest.mark.parametrize(
    ("more", "machine"),
    [
        ("", "avx2"),
        (",weights=bf16", "avx512"),
        (",weights=int8", "avx2"),
        (",function=prefill", "avx512"),
    ],
)
def test_embedding_of_a_gpt_is_a_task_with_what_follows_it(more, machine):
    payload, parts = model(more)
    (task,) = [task for task in parts.tasks if task.root.gathers]
    assert task.tag.startswith("gather_17x72_")
    family = family_for(task)
    assert family is load_family("gather")
    assert not load_family("vectorize").covers(task)
    step = write_step(task, family, family.default(task, MACHINES[machine]), MACHINES[machine])
    inputs = payload.make_inputs(0)
    if more != ",function=prefill":  # whose states need more than one call's arrays
        # The others are lowered plainly: LLVM would take ten times as long over those loops as over all else.
        got = run(payload, inputs, assemble([step]), TAIL, text=parts.payload.text, level=0)
        agrees(payload, got, payload.reference(**inputs))


def test_a_gather_is_no_member_of_a_group():
    norm = load_payload("layer_norm,rows=17,cols=72")
    assert len(partition(norm).tasks[0].ops) > 1
    for task in model()[1].tasks:
        assert not (task.root.gathers and task.is_group)


def test_bf16_rows_are_widened_in_vectors():
    payload, parts = model(",weights=bf16")
    text = compile_to("scheduled", payload, scheduled(payload, MACHINES["avx2"], parts)).text
    assert "vector.transfer_read" in text
    assert "vector.gather" not in text


BOUNDED = """%empty = tensor.empty() : tensor<5x8x3xf32>
    %result = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, 1)>, affine_map<(i, j, k) -> (i, j, k)>],
                              iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%bounds : tensor<5x2xf32>) outs(%empty : tensor<5x8x3xf32>) {
    ^bb0(%bound: f32, %out: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %zero = arith.constant 0 : index
      %first = tensor.extract %table[%i, %j, %zero] : tensor<5x8x6xf32>
      %y = arith.minimumf %first, %bound : f32
      linalg.yield %y : f32
    } -> tensor<5x8x3xf32>"""


def test_what_a_gather_reads_at_a_constant_index_is_read_of_a_slice():
    arguments = [
        Argument("bounds", "input", (5, 2)),
        Argument("table", "input", (5, 8, 6)),
        Argument("y", "output", (5, 8, 3)),
    ]
    payload, machine = tensor_payload("bounded", arguments, BOUNDED), this_machine()
    parts = partition(payload)
    (task,) = parts.tasks
    assert family_for(task).name == "gather"
    assert "(d0, 0)" in task.payload.text
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    agrees(
        payload, run(payload, inputs, assemble(default_steps(parts, machine)), TAIL, text=parts.payload.text), expected
    )
