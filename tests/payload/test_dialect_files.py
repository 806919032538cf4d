"""Files in the dialect, as others write them: what is missing is inferred, what is wrong is said at its line."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from payload_support import Program

from autotune.compiler.tasks.partition import partition
from autotune.contrib.dialect.reading import read_written
from autotune.core.errors import PayloadError
from autotune.reports.show import show
from autotune.worker.loading.reading import open_payload, read_apart
from payload.dialect.gpt import GPT
from payload.dialect.op import Cost, Kind

LLAMA = """// A block with grouped heads, rotary positions and SwiGLU.
func.func @mine(
    %ids: tensor<8xi32>,
    %table: tensor<50x24xf32> {autotune.role = "weight"},
    %gain: tensor<24xf32> {autotune.role = "weight", autotune.low = 0.5, autotune.high = 1.5},
    %qkv_weight: tensor<24x48xf32> {autotune.role = "weight"},
    %mix_weight: tensor<24x24xf32> {autotune.role = "weight"},
    %gate_weight: tensor<24x40xf32> {autotune.role = "weight"},
    %up_weight: tensor<24x40xf32> {autotune.role = "weight"},
    %down_weight: tensor<40x24xf32> {autotune.role = "weight"}) {
  %x = gpt.embedding(%table, %ids)
  %normed = gpt.rms_norm(%x, %gain)
  %qkv = gpt.linear(%normed, %qkv_weight)
  %q, %k, %v = gpt.split_heads(%qkv) {heads = 4, groups = 2}
  %q_turned = gpt.rope(%q)
  %k_turned = gpt.rope(%k)
  %mixed = gpt.attention(%q_turned, %k_turned, %v) {causal = true}
  %merged = gpt.merge_heads(%mixed)
  %mix = gpt.linear(%merged, %mix_weight)
  %x_mixed = gpt.add(%x, %mix)
  %again = gpt.rms_norm(%x_mixed, %gain)
  %gate = gpt.linear(%again, %gate_weight)
  %up = gpt.linear(%again, %up_weight)
  %hidden = gpt.swiglu(%gate, %up)
  %down = gpt.linear(%hidden, %down_weight)
  %y = gpt.add(%x_mixed, %down)
  %logits = gpt.linear(%y, %table) {transposed = true}
  return %logits
}
"""
LOOP = """func.func @deep(%x: tensor<4x6xf32>, %w: tensor<3x6x6xf32>, %b: tensor<3x6xf32>) -> tensor<4x6xf32> {
  %out = gpt.block(%x) ({
  ^bb0(%layer, %x_in):
    %w_here = gpt.layer(%w, %layer)
    %b_here = gpt.layer(%b, %layer)
    %y = gpt.linear(%x_in, %w_here, %b_here)
    vector.yield %y
  }) {layers = 3}
  return %out : tensor<4x6xf32>
}
"""


def written(folder, text):
    path = folder / "mine.mlir"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("text", [LLAMA, LOOP], ids=["llama", "loop"])
def test_a_file_computes_what_its_ops_mean(text, tmp_path):
    payload = open_payload(written(tmp_path, text))
    arrays = payload.make_inputs(0)
    for found, wanted in zip(Program(payload)(**arrays), payload.reference(**arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_only_the_shapes_of_the_entry_are_given_and_all_others_are_shown(tmp_path):
    shown = show(written(tmp_path, LLAMA), "dialect").text
    assert "{heads = 4, groups = 2}  // 4x8x6, 2x8x6, 2x8x6" in shown
    again = open_payload(written(tmp_path, shown))
    assert again.dialect == shown


def test_ids_are_drawn_from_the_rows_of_their_table(tmp_path):
    ids = open_payload(written(tmp_path, LLAMA)).arguments[0]
    assert (ids.low, ids.high) == (0, 50)


def test_a_file_has_the_tasks_of_its_linalg(tmp_path):
    kinds = [task.tag.partition("_")[0] for task in partition(open_payload(written(tmp_path, LLAMA))).tasks]
    assert "attention" in kinds
    assert kinds.count("matmul") >= 4


def test_the_generic_form_of_mlir_is_read_too(tmp_path):
    text = """func.func @f(%x: tensor<4x6xf32>) -> tensor<*xf32> {
      %y = "gpt.gelu"(%x) : (tensor<4x6xf32>) -> tensor<*xf32>
      return %y : tensor<*xf32>
    }"""
    assert open_payload(written(tmp_path, text)).outputs[0].shape == (4, 6)


F = "func.func @f(%x: tensor<4x6xf32>, %w: tensor<5x6xf32>, %i: tensor<3xi32>) {\n"
END = "\n  return %y\n}\n"
WRONG = {
    "mismatched inner size": (
        f"{F}  %y = gpt.linear(%x, %w){END}",
        ":2: gpt.linear: x and weight must share the size that is summed, x is 4x6 and weight is 5x6; give",
    ),
    "wrong rank": (
        f"{F}  %y = gpt.rope(%x){END}",
        ":2: gpt.rope: x must have 3 dimensions, it is 4x6",
    ),
    "heads that do not divide": (
        f"{F}\n  %y, %k, %v = gpt.split_heads(%x) {{heads = 5}}{END}",
        ":3: gpt.split_heads: heads must divide the columns of qkv, 5 + 2 x 5 heads do not divide 4x6",
    ),
    "unknown op": (
        f"{F}  %y = gpt.gelo(%x){END}",
        ":2: ops must be those of gpt, got gpt.gelo; did you mean gpt.gelu?",
    ),
    "missing attribute": (
        f"{F}  %y, %k, %v = gpt.split_heads(%x){END}",
        ":2: 'gpt.split_heads' op attribute \"heads\" is expected but not provided",
    ),
    "unknown attribute": (
        f"{F}  %y = gpt.gelu(%x) {{exact = true}}{END}",
        ":2: gpt.gelu: its attributes are none; got 'exact'; leave it out",
    ),
    "attribute of another type": (
        f"{F}  %y, %k, %v = gpt.split_heads(%x) {{heads = 2.0}}{END}",
        ":2: gpt.split_heads: heads must be a whole number, got 2.0",
    ),
    "contradicting result": (
        f"{F}  %y = gpt.linear(%x, %w) {{transposed = true}}"
        f" : (tensor<4x6xf32>, tensor<5x6xf32>) -> tensor<4x7xf32>{END}",
        ":2: gpt.linear: result must be tensor<4x5xf32> by what it reads, it is declared tensor<4x7xf32>; leave",
    ),
    "contradicting function": (
        f"{F.replace(') {', ') -> tensor<4x7xf32> {')}  %y = gpt.gelu(%x)\n  return %y : tensor<4x7xf32>\n}}",
        ":2: gpt.gelu: result must be tensor<4x6xf32> by what it reads, it is declared tensor<4x7xf32>; leave it",
    ),
    "too few operands": (
        f"{F}  %y = gpt.linear(%x){END}",
        ":2: gpt.linear expects at least 2 operands, but got 1; they are x, weight, optional bias",
    ),
    "another dialect": (
        f"{F}  %z = gpt.gelu(%x)\n  %y = math.tanh %x : tensor<4x6xf32>\n  return %y : tensor<4x6xf32>\n}}",
        ":3: ops must be those of gpt, got math.tanh; there are gpt.add, gpt.as_row,",
    ),
    "open size": (
        "func.func @f(%x: tensor<?x6xf32>) {\n  %y = gpt.gelu(%x)\n  return %y\n}",
        ":1: argument 0 must be a tensor of static shape, it is tensor<?x6xf32>; say its sizes",
    ),
    "memref": (
        "func.func @f(%x: memref<4x6xf32>) {\n  %y = gpt.gelu(%x)\n  return %y\n}",
        ":1: argument 0 must be a tensor of static shape, it is memref<4x6xf32>; say its sizes",
    ),
    "ids of nothing": (
        "func.func @f(%x: tensor<4x6xf32>, %n: tensor<1xi64>) {\n  %i = gpt.index(%n)\n"
        "  %y = gpt.row(%x, %i)\n  return %y\n}",
        ":1: arg1 must say which integers it holds, it is i64; give it {autotune.low = 0 : i64, ",
    ),
    "ids beyond the table": (
        F.replace("3xi32>", "3xi32> {autotune.low = 0, autotune.high = 9}") + f"  %y = gpt.embedding(%w, %i){END}",
        ":2: gpt.embedding: ids must be from 0 to 4, it is from 0 to 8; see",
    ),
    "more layers than weights": (
        LOOP.replace("layers = 3", "layers = 4"),
        ":4: gpt.layer: layer must be from 0 to 2, it is from 0 to 3; see layers of the block",
    ),
    "a position behind the table": (
        "func.func @f(%x: tensor<4x6xf32>, %n: tensor<1xi64> {autotune.low = 0, autotune.high = 4}) {\n"
        "  %i = gpt.index(%n)\n  %j = gpt.shift(%i) {by = 1}\n  %y = gpt.row(%x, %j)\n  return %y\n}",
        ":4: gpt.row: at must be from 0 to 3, it is from 1 to 4; see",
    ),
    "a body that changes a shape": (
        LOOP.replace("    vector.yield %y", "    %z, %k, %v = gpt.split_heads(%y) {heads = 1}\n    vector.yield %z"),
        ":2: gpt.block: the body must give the shapes that it is given, 4x6, it gives 1x4x2",
    ),
    "an index as a result": (
        "func.func @f(%n: tensor<1xi64>) {\n  %y = gpt.index(%n)\n  return %y\n}",
        ":3: results must be tensors of static shape, one is index; return others",
    ),
    "two functions": (
        f"{F}  %y = gpt.gelu(%x){END}func.func private @g()",
        ":5: a file in a dialect must hold one function",
    ),
    "no text": ("gpt.gelu(", ":1: "),
    "unclosed": (f"{F}  %y = gpt.gelu(%x {{{{ (", ":2: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_a_line_at_its_line(name, refused, tmp_path, monkeypatch):
    text, words = WRONG[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.mlir").write_text(text)
    refused("show", "mine.mlir", "--stage", "payload", words=f"mine.mlir{words}")


@dataclass(frozen=True)
class Wish:
    """An op that somebody described and did not lower."""

    name: ClassVar[str] = "wish"
    gives: ClassVar[tuple[str, ...]] = ("wish",)

    def infer(self, x: Kind) -> tuple[Kind, ...]:
        return (x,)

    def reference(self, x):
        return (x,)

    def cost(self, x: Kind) -> Cost:
        return Cost()


def test_an_op_without_lowering_is_said_at_its_line():
    dialect = replace(GPT, ops=(*GPT.ops, Wish))
    text = "func.func @f(%x: tensor<4x6xf32>) {\n  %y = gpt.wish(%x)\n  return %y\n}"
    read = partial(read_written, "mine.mlir", "gpt", dialect.definition)
    function = read_apart(read, text, "mine.mlir", PayloadError)
    with pytest.raises(PayloadError, match=r"^mine.mlir:2: gpt.wish must have a lowering, it has none"):
        dialect.payload("mine.mlir", function)


def test_a_payload_in_linalg_has_no_stage_dialect(refused):
    refused("show", "softmax", "--stage", "dialect", words="softmax is written in linalg; see stage payload")


def test_a_file_in_linalg_that_speaks_of_the_dialect_is_still_linalg(tmp_path):
    text = """// as gpt.gelu(%x) would be
    func.func @gpt.negative(%x: tensor<256xf32>) -> tensor<256xf32> {
      %empty = tensor.empty() : tensor<256xf32>
      %y = linalg.negf ins(%x : tensor<256xf32>) outs(%empty : tensor<256xf32>) -> tensor<256xf32>
      return %y : tensor<256xf32>
    }"""
    assert open_payload(written(tmp_path, text)).dialect == ""
