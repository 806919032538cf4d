"""Partition: the distinct tunable ops of a module, what they compute, and how often."""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from tuning_support import contraction_payload, product_of, run, tensor, tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition, structured_ops
from autotune.core.errors import CompileError, PayloadError
from autotune.core.payload import Argument, Payload
from autotune.core.scripts.marks import TAG
from autotune.registry import load_payload
from autotune.worker.bench.verify import verify

SQUARE = tensor((8, 8))
LAYOUTS = [("mk", "kn"), ("mk", "nk"), ("km", "kn"), ("km", "nk")]


def square_payload(body):
    """A payload on 8 x 8 tensors ``%x`` and ``%w``, with ``%zero`` and ``%empty`` at hand."""
    head = f"%zero = arith.constant 0.0 : f32\n    %empty = tensor.empty() : {SQUARE}\n    "
    arguments = [Argument(name, role, (8, 8)) for name, role in (("x", "input"), ("w", "weight"), ("y", "output"))]
    return tensor_payload("squares", arguments, head + body, reduction=64)


def matmul_of(name, left, right):
    return f"""%{name}_zeros = linalg.fill ins(%zero : f32) outs(%empty : {SQUARE}) -> {SQUARE}
    %{name} = linalg.matmul ins({left}, {right} : {SQUARE}, {SQUARE}) outs(%{name}_zeros : {SQUARE}) -> {SQUARE}
    """


def tags_in(text):
    """How many ops of a module carry each tag."""
    with context():
        module = parse(text, "tagged")
        ops = [op for function in module.body.operations for op, _ in structured_ops(function.regions[0].blocks[0])]
        return Counter(op.attributes[TAG].value for op in ops if TAG in op.attributes)


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_op_inside_the_layer_loop_counts_once_for_every_layer(layers):
    tasks = {t.tag: t for t in partition(load_payload(f"nano,layers={layers}")).tasks}
    for start in ("matmul_32x192x64_f32_w_fused_", "matmul_32x256x64_f32_w_fused_", "attention_4x32x16_"):
        (task,) = (task for tag, task in tasks.items() if tag.startswith(start))
        assert (task.occurrences, task.count) == (1, layers)
    head = tasks["matmul_32x256x64_f32_tb_w"]
    assert (head.occurrences, head.count) == (1, 1)


@pytest.mark.parametrize(
    "spec",
    [
        "nano",
        "nano,layers=5",
        "gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17",
        "conv,size=9,channels=8,filters=16,groups=2",
        "resnet_block,size=8,channels=16,filters=32,stride=2",
    ],
)
def test_products_of_a_model_add_up_to_its_flops(spec):
    payload = load_payload(spec)
    tasks = partition(payload).tasks
    assert sum(task.needed_flops * task.count for task in tasks) == payload.flops


@pytest.mark.parametrize("spec", ["nano", "attention,heads=3,seq=13,d=8", "softmax,rows=7,cols=33"])
def test_tagged_module_holds_as_many_ops_of_every_tag_as_its_task_says(spec):
    parts = partition(load_payload(spec))
    assert tags_in(parts.payload.text) == {task.tag: task.occurrences for task in parts.tasks}


@pytest.mark.parametrize("spec", ["nano", "softmax,rows=7,cols=33"])
def test_task_alone_carries_its_own_tag_once(spec):
    for task in partition(load_payload(spec)).tasks:
        assert tags_in(task.payload.text) == {task.tag: 1}
        (again,) = partition(task.payload).tasks
        assert (again.tag, again.nest, again.contraction) == (task.tag, task.nest, task.contraction)


def test_equal_ops_share_a_tag_and_others_do_not():
    body = matmul_of("first", "%x", "%w") + matmul_of("result", "%first", "%w")
    (task,) = partition(square_payload(body)).tasks
    assert (task.tag, task.occurrences, task.count) == ("matmul_8x8x8_f32_w", 2, 2)
    tasks = partition(load_payload("softmax,rows=7,cols=33")).tasks
    assert [len(task.ops) for task in tasks] == [4]


def test_tags_are_the_same_in_another_process():
    code = (
        "from autotune.compiler.tasks.partition import partition; from autotune.registry import load_payload\n"
        "print(*(f'{t.tag} {t.payload.sha256}' for t in partition(load_payload('nano')).tasks), sep='\\n')"
    )
    here = [f"{task.tag} {task.payload.sha256}" for task in partition(load_payload("nano")).tasks]
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == here


def test_an_op_without_loops_of_its_own_is_left_alone():
    kind = "tensor<4x8xf32>"
    body = f"""%empty = tensor.empty() : {kind}
    %result = linalg.softmax dimension(1) ins(%x : {kind}) outs(%empty : {kind}) -> {kind}"""
    payload = tensor_payload("rows", [Argument("x", "input", (4, 8)), Argument("y", "output", (4, 8))], body)
    assert partition(payload).tasks == ()


@pytest.mark.parametrize("generic", [False, True], ids=["named", "generic"])
@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize(("a", "b"), LAYOUTS)
def test_contraction_is_described_with_its_sizes_and_layout(a, b, batch, generic):
    payload = contraction_payload(3, 5, 7, batch=batch, a=a, b=b, generic=generic)
    (task,) = partition(payload).tasks
    about = task.contraction
    assert (about.m, about.n, about.k, about.batch, about.batched) == (3, 5, 7, max(1, batch), batch > 0)
    assert (about.transposed_a, about.transposed_b) == (a == "km", b == "nk")
    assert task.nest.sizes == ((batch, 3, 5, 7) if batch else (3, 5, 7))
    assert task.nest.iterators[-3:] == ("parallel", "parallel", "reduction")
    assert task.payload.flops == about.flops == 2 * max(1, batch) * 3 * 5 * 7
    assert task.payload.reduction == 7


@pytest.mark.parametrize(("a", "b"), LAYOUTS)
def test_named_and_generic_form_of_a_contraction_are_named_alike(a, b):
    tags = [partition(contraction_payload(3, 5, 7, a=a, b=b, generic=g)).tasks[0].tag for g in (False, True)]
    suffix = ("_ta" if a == "km" else "") + ("_tb" if b == "nk" else "")
    assert tags == [f"matmul_3x5x7_f32{suffix}"] * 2


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize(("a", "b"), LAYOUTS)
def test_oracle_of_an_outlined_contraction_is_what_its_plain_lowering_computes(a, b, batch):
    payload = contraction_payload(3, 5, 7, batch=batch, a=a, b=b)
    (task,) = partition(payload).tasks
    inputs = task.payload.make_inputs(0)
    (expected,) = task.payload.reference(**inputs)
    assert verify(task.payload, run(task.payload, inputs, None, PLAIN), [expected]).outcome == "ok"
    np.testing.assert_allclose(
        expected, product_of(payload, {"a": inputs["in0"], "b": inputs["in1"]}, a=a, b=b), rtol=1e-12
    )


def test_contraction_that_adds_to_an_input_is_right_by_its_own_oracle():
    body = f"%result = linalg.matmul ins(%x, %w : {SQUARE}, {SQUARE}) outs(%x : {SQUARE}) -> {SQUARE}"
    (task,) = partition(square_payload(body)).tasks
    inputs = task.payload.make_inputs(0)
    got = run(task.payload, inputs, None, PLAIN)
    assert verify(task.payload, got, task.payload.reference(**inputs)).outcome == "ok"


def test_contraction_onto_a_constant_is_right_by_its_own_oracle():
    body = f"""%one = arith.constant 1.0 : f32
    %ones = linalg.fill ins(%one : f32) outs(%empty : {SQUARE}) -> {SQUARE}
    %result = linalg.matmul ins(%x, %w : {SQUARE}, {SQUARE}) outs(%ones : {SQUARE}) -> {SQUARE}"""
    (task,) = partition(square_payload(body)).tasks
    inputs = task.payload.make_inputs(0)
    got = run(task.payload, inputs, None, PLAIN)
    assert verify(task.payload, got, task.payload.reference(**inputs)).outcome == "ok"


COUNTED = f"%counted = arith.constant dense<{[[float(8 * i + j) for j in range(8)] for i in range(8)]}> : {SQUARE}"
TWOS = f"%twos = arith.constant dense<2.0> : {SQUARE}"


@pytest.mark.parametrize(
    ("made", "factors", "onto"),
    [
        (TWOS, "%x, %twos", "%empty_zeros"),
        (COUNTED, "%x, %counted", "%empty_zeros"),
        (COUNTED, "%counted, %x", "%empty_zeros"),
        (COUNTED, "%counted, %x", "%w"),
        (COUNTED, "%counted, %counted", "%w"),
        (TWOS, "%x, %w", "%twos"),
        (COUNTED, "%x, %w", "%counted"),
        (COUNTED, "%x, %counted", "%counted"),
    ],
)
def test_contraction_of_constants_in_the_text_has_an_oracle_that_is_right_or_none(made, factors, onto):
    body = f"""{made}
    %empty_zeros = linalg.fill ins(%zero : f32) outs(%empty : {SQUARE}) -> {SQUARE}
    %result = linalg.matmul ins({factors} : {SQUARE}, {SQUARE}) outs({onto} : {SQUARE}) -> {SQUARE}"""
    (task,) = partition(square_payload(body)).tasks
    inputs = task.payload.make_inputs(0)
    got = run(task.payload, inputs, None, PLAIN)
    expected = got if task.payload.reference is None else task.payload.reference(**inputs)
    assert verify(task.payload, got, expected).outcome == "ok"


def test_a_contraction_of_a_constant_is_another_task_than_one_of_arguments_as_large():
    body = f"""{TWOS}
    {matmul_of("first", "%x", "%w")}{matmul_of("second", "%first", "%twos")}{matmul_of("result", "%second", "%w")}"""
    tasks = partition(square_payload(body)).tasks
    assert sorted(task.count for task in tasks) == [1, 2]
    assert len({task.payload.text for task in tasks}) == 2


def bias_and_relu(source, result):
    return f"""%{result}_sum = linalg.add ins({source}, %x : {SQUARE}, {SQUARE}) outs(%empty : {SQUARE}) -> {SQUARE}
    %{result}_zeros = linalg.fill ins(%zero : f32) outs(%empty : {SQUARE}) -> {SQUARE}
    %{result} = linalg.max ins(%{result}_sum, %{result}_zeros : {SQUARE}, {SQUARE})
      outs(%empty : {SQUARE}) -> {SQUARE}
    """


def generics(payload):
    """The same payload with its element-wise ops in generic form, which is what fusion works on."""
    from autotune.compiler.ir.module import run_passes

    with context():
        module = parse(payload.text, "squares")
        run_passes(module, "builtin.module(func.func(linalg-generalize-named-ops))")
        return Payload(**{**vars(payload), "text": str(module)})


def test_contractions_survive_element_wise_fusion():
    body = matmul_of("product", "%x", "%w") + bias_and_relu("%product", "hidden") + matmul_of("result", "%hidden", "%w")
    for payload in (square_payload(body), generics(square_payload(body))):
        found = [(c.m, c.n, c.k, c.constant_b) for task in partition(payload).tasks for c in task.contractions]
        assert found == [(8, 8, 8, True)] * 2


def test_element_wise_neighbours_become_one_op():
    tasks = partition(generics(square_payload(bias_and_relu("%w", "first") + bias_and_relu("%first", "result")))).tasks
    assert [task.occurrences for task in tasks] == [1]


def test_contractions_survive_reshapes():
    flat, tall = tensor((64,)), tensor((4, 16))
    body = (
        matmul_of("product", "%x", "%w")
        + f"""
    %flat = tensor.collapse_shape %product [[0, 1]] : {SQUARE} into {flat}
    %tall = tensor.expand_shape %flat [[0, 1]] output_shape [4, 16] : {flat} into {tall}
    %again = tensor.collapse_shape %tall [[0, 1]] : {tall} into {flat}
    %back = tensor.expand_shape %again [[0, 1]] output_shape [8, 8] : {flat} into {SQUARE}
    """
    )
    body += matmul_of("result", "%back", "%w")
    tasks = partition(square_payload(body)).tasks
    assert [(t.tag, t.occurrences) for t in tasks if t.contraction] == [("matmul_8x8x8_f32_w", 2)]


def test_reshape_of_an_operand_does_not_hide_a_contraction():
    flat = tensor((64,))
    body = f"""%flat = tensor.collapse_shape %x [[0, 1]] : {SQUARE} into {flat}
    %empty_flat = tensor.empty() : {flat}
    %doubled = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%flat : {flat}) outs(%empty_flat : {flat}) {{
    ^bb0(%in: f32, %out: f32):
      %sum = arith.addf %in, %in : f32
      linalg.yield %sum : f32
    }} -> {flat}
    %back = tensor.expand_shape %doubled [[0, 1]] output_shape [8, 8] : {flat} into {SQUARE}
    """
    body += matmul_of("result", "%back", "%w")
    assert any(task.contraction for task in partition(square_payload(body)).tasks)


@pytest.mark.parametrize("as_generics", [False, True])
def test_partitioned_module_computes_what_the_payload_does(as_generics):
    body = matmul_of("product", "%x", "%w") + bias_and_relu("%product", "hidden") + matmul_of("last", "%hidden", "%w")
    body += bias_and_relu("%last", "result")
    payload = square_payload(body)
    payload = generics(payload) if as_generics else payload
    inputs = payload.make_inputs(0)
    before = run(payload, inputs, None, PLAIN)
    after = run(payload, inputs, None, PLAIN, text=partition(payload).payload.text)
    assert verify(payload, after, before).outcome == "ok"
    x, w = inputs["x"].astype("f8"), inputs["w"].astype("f8")
    expected = np.maximum(np.maximum(x @ w + x, 0) @ w + x, 0)
    assert verify(payload, after, [expected]).outcome == "ok"


@pytest.mark.parametrize(
    "spec", ["nano,layers=1", "attention,heads=3,seq=13,d=8,causal=1", "layer_norm,rows=7,cols=33"]
)
def test_partitioned_payload_is_what_the_reference_says(spec):
    payload = load_payload(spec)
    inputs = payload.make_inputs(0)
    got = run(payload, inputs, None, PLAIN, text=partition(payload).payload.text)
    verdict = verify(payload, got, payload.reference(**inputs))
    assert verdict.outcome == "ok", verdict.diagnostic


def test_partition_leaves_its_payload_alone():
    payload = load_payload("matmul,m=3,n=5,k=7")
    parts = partition(payload)
    assert TAG not in payload.text
    assert (parts.payload.name, parts.payload.entry, parts.payload.arguments) == (
        payload.name,
        payload.entry,
        payload.arguments,
    )


def test_partition_is_deterministic():
    first, second = (partition(load_payload("nano")) for _ in range(2))
    assert first.payload.text == second.payload.text
    assert [task.tag for task in first.tasks] == [task.tag for task in second.tasks]


def test_payload_without_its_entry_is_refused():
    with pytest.raises(PayloadError, match="must define function @f"):
        partition(Payload("p", "module { func.func private @f() }", "f", ()))


def test_payload_that_does_not_parse_is_refused_with_line_and_column():
    with pytest.raises(CompileError, match="p:2:1: ") as error:
        partition(Payload("p", "module {\n%", "f", ()))
    assert error.value.stage == "parse"


def test_payload_without_structured_ops_has_no_tasks():
    assert partition(Payload("p", "func.func @f(%x: memref<2xf32>) { return }", "f", ())).tasks == ()


@pytest.mark.parametrize(("kind", "total", "tasks"), [("i8", "i32", 2), ("f32", "f32", 1)])
def test_what_a_product_of_bytes_multiplies_is_computed_before_it(kind, total, tasks):
    """In a group nothing packs words of it; a product of f32 reads the rows that were computed beside it."""
    arguments = [
        Argument("x", "input", (2, 8, 16), kind, low=-9, high=9),
        Argument("w", "input", (2, 16, 32), kind, low=-9, high=9),
        Argument("y", "output", (2, 8, 32), total),
    ]
    op, zero = ("arith.addi", "0") if kind == "i8" else ("arith.addf", "0.0")
    x, w, y = (tensor(a.shape, a.dtype) for a in arguments)
    body = f"""%zero = arith.constant {zero} : {total}
    %room = tensor.empty() : {x}
    %twice = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%x : {x}) outs(%room : {x}) {{
    ^bb0(%e: {kind}, %o: {kind}):
      %s = {op} %e, %e : {kind}
      linalg.yield %s : {kind}
    }} -> {x}
    %empty = tensor.empty() : {y}
    %zeros = linalg.fill ins(%zero : {total}) outs(%empty : {y}) -> {y}
    %result = linalg.batch_matmul ins(%twice, %w : {x}, {w}) outs(%zeros : {y}) -> {y}
    """
    assert len(partition(tensor_payload("pair", arguments, body, reduction=16)).tasks) == tasks
