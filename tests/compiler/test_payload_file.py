"""A user's own .mlir file: what of it is the payload, and what is refused before any work is done for it."""

import pytest
from bundle_support import make_bundle, no_care
from tuning_support import contraction_payload, loaded

from autotune.bundles.replay import replay
from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import compile_program, link
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError, PayloadError
from autotune.core.payload import Payload
from autotune.registry import load_baseline
from autotune.store.bundle import read_bundle

PAYLOAD = contraction_payload(16, 24, 8)
FUNCTION = PAYLOAD.text.strip().removeprefix("module {").removesuffix("}")
HANDLE = "!transform.any_op"
TILE = f"""
    %op = transform.structured.match ops{{["linalg.matmul"]}} in %root : ({HANDLE}) -> {HANDLE}
    %tiled, %loop = transform.structured.tile_using_for %op tile_sizes [4] : ({HANDLE}) -> ({HANDLE}, {HANDLE})
    transform.structured.vectorize %tiled : {HANDLE}"""  # far ahead of plain loops, however busy the machine is


def sequence(name, body):
    head = f"transform.named_sequence @{name}(%root: {HANDLE} {{transform.readonly}})"
    return f"{head} {{{body}\n    transform.yield\n  }}\n"


MAIN = sequence("__transform_main", TILE)
SEVERAL = sequence("tile", TILE) + sequence(
    "__transform_main", f"\n    transform.include @tile failures(propagate) (%root) : ({HANDLE}) -> ()"
)
WITH = "module attributes {transform.with_named_sequence}"
FILES = {
    "nested": f"module {{{FUNCTION}  {WITH} {{\n  {MAIN}}}\n}}",
    "sibling": f"{WITH} {{{FUNCTION}  {MAIN}}}",
    "several": f"{WITH} {{\n  {SEVERAL}{FUNCTION}}}",
    "libraries": f"{WITH} {{{FUNCTION}  {WITH} {{\n  {SEVERAL}}}\n  module @more {{ {WITH} {{ {MAIN} }} }}\n}}",
}


@pytest.mark.parametrize("name", FILES)
def test_transform_ops_of_a_file_are_no_part_of_its_payload(name, tmp_path):
    payload = loaded(tmp_path, FILES[name])
    with context():
        assert payload.text == str(parse(PAYLOAD.text, "the function alone"))
    assert [(a.type, a.role) for a in payload.arguments] == [(a.type, a.role) for a in PAYLOAD.arguments]
    assert payload.schedule == FILES[name]
    assert payload.notes == ()


def test_transform_ops_without_an_entry_are_not_used_and_that_is_said(tmp_path):
    payload = loaded(tmp_path, f"{WITH} {{{FUNCTION}  {sequence('tile', TILE)}}}")
    assert payload.schedule == ""
    assert payload.notes == (f"{tmp_path}/mine.mlir holds transform ops without @__transform_main; they are not used",)


def test_a_file_without_transform_ops_is_taken_as_it_is_written(tmp_path):
    text = f"// mine\n{PAYLOAD.text}"
    payload = loaded(tmp_path, text)
    assert (payload.text, payload.notes) == (text, ())


@pytest.mark.parametrize("name", ["nested", "sibling", "several"])
def test_bundle_of_a_file_with_a_schedule_of_its_own_is_of_that_schedule_and_replays(name, tmp_path):
    (tmp_path / "mine.mlir").write_text(FILES[name])
    folder = make_bundle(tmp_path, str(tmp_path / "mine.mlir"), trials=2)
    bundle = read_bundle(folder)
    assert list(bundle.manifest.tasks) == ["whole"]
    assert "tile_using_for" in bundle.script
    with no_care():
        assert replay(folder).is_right


def test_a_file_with_two_schedules_is_refused_with_the_place_of_the_second(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.mlir").write_text(FILES["libraries"])
    refused("tune", "mine.mlir", "--cold", words="mine.mlir:25:70: a schedule must have one entry, this is in a second")


def test_the_user_is_told_that_transform_ops_are_not_used(autotune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.mlir").write_text(f"{WITH} {{{FUNCTION}  {sequence('tile', TILE)}}}")
    monkeypatch.setattr("autotune.tuning.tune.tune", stop)
    _, _, said = autotune("tune", "mine.mlir", "--cold")
    assert "autotune: mine.mlir holds transform ops without @__transform_main; they are not used" in said.splitlines()


CALLED = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %r = func.call @{first}(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %r = func.call @{second}(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
func.func private @h(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %r = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""


NARROW = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %t = arith.truncf %a : tensor<4xf32> to tensor<4x{0}>
  %r = arith.extf %t : tensor<4x{0}> to tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""
STEPS = """
func.func @f(%a: memref<4xf32>, %out: memref<4xf32>) {{
  %zero = arith.constant 0 : index
  %four = arith.constant 4 : index
  %step = arith.constant {step} : index
  {loop} {{
    %x = memref.load %a[%i] : memref<4xf32>
    memref.store %x, %out[%i] : memref<4xf32>
  }}
  return
}}
"""
LOOPS = (
    "scf.for %i = %zero to %four step %step",
    "affine.for %i = 0 to 4 step 0",
    "scf.forall (%i) = (0) to (4) step (0)",
)
BEHIND = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.constant dense_resource<numbers> : tensor<4xf32>
  %r = arith.addf %a, %b : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
SHORT = '{-# dialect_resources: { builtin: { numbers: "0x040000000000803F" } } #-}'
FEW = ("f8E4M3FN", "f8E5M2", "f4E2M1FN", "tf32")
DEEP = f"tensor<{'1x' * 16}4xf32>"


def stop(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"func.func private @other()\n{FUNCTION}", "must define every function it calls, @other is outside"),
        (f"llvm.func @other()\n{FUNCTION}", "must hold ops that compute alone, it has llvm.func"),
        (PAYLOAD.text.replace("@product", '@"a product"'), "must have a name of letters, digits, .* it is 'a product'"),
        (CALLED.format(first="g", second="g"), "must hold no function that calls itself, @g does"),
        (CALLED.format(first="g", second="h"), "must hold no function that calls itself, @[gh] does"),
        (CALLED.format(first="f", second="f"), "must hold no function that calls itself, @f does"),
        (f"func.func @f(%a: {DEEP}) -> {DEEP} {{ return %a : {DEEP} }}", "must have 16 dimensions at most, it has 17"),
        *((NARROW.format(kind), f"must compute with floats of f16, .*, it has .* tensor<4x{kind}>") for kind in FEW),
        *((STEPS.format(step=0, loop=loop), f"must step forward in its loops, .* {loop[:7]}.* by 0") for loop in LOOPS),
        (STEPS.format(step=-1, loop=LOOPS[0]), "must step forward in its loops, an scf.for steps by -1"),
        (BEHIND, "must hold the 16 bytes of dense_resource<numbers>, it has none"),
        (f"{BEHIND}{SHORT}", "must hold the 16 bytes of dense_resource<numbers>, it has 4"),
        (f"{PAYLOAD.text}// {'(' * 300}", "must not nest deeper than 200 brackets, it goes to 30[0-9]"),
    ],
)
def test_a_file_no_bundle_of_which_could_be_replayed_is_refused_at_once(text, words, tmp_path):
    with pytest.raises(PayloadError, match=words):
        loaded(tmp_path, text)


def test_numbers_behind_the_ops_of_a_file_are_taken_where_they_are_whole(tmp_path):
    loaded(tmp_path, BEHIND + SHORT.replace("0000803F", 4 * "0000803F"))


def test_a_step_that_is_found_to_be_zero_later_ends_no_reader_of_a_file(tmp_path):
    folded = "%none = arith.subi %step, %step : index\n  scf.for %i = %zero to %four step %none"
    partition(loaded(tmp_path, STEPS.format(step=1, loop=folded)))


def test_payloads_of_packages_have_plain_names_of_functions_too():
    with pytest.raises(PayloadError, match="the function of mine must have a name of letters"):
        Payload("mine", "", "my function", ())


@pytest.mark.parametrize("name", ["malloc", "memcpy", "exp"])
def test_a_function_may_be_called_as_one_of_the_c_library(name, tmp_path):
    """Lowered code calls such functions itself; MLIR's own would then be called instead, or have another type."""
    table = 'memref.global "private" constant @free : memref<4xf32> = dense<1.0>'
    kind = "tensor<4xf32>"
    summed = f"func.func @{name}(%a: {kind}) -> {kind} {{ %r = arith.addf %a, %a : {kind} return %r : {kind} }}"
    payload = loaded(tmp_path, f"{table}\n{summed}")
    assert payload.entry == f"{name}_"
    assert "@free_ " in payload.text
    compile_program(payload, Candidate(None, load_baseline("loops").pipeline))


def test_a_function_keeps_a_name_that_the_c_library_has_not(tmp_path):
    assert loaded(tmp_path, PAYLOAD.text.replace("@product", "@main")).entry == "main"


def test_an_op_that_is_not_lowered_is_named():
    words = r"every op must be lowered to LLVM, func\.func, func\.return must yet"
    with context(), pytest.raises(CompileError, match=words):
        link(parse("func.func @f(%a: memref<4xf32>) { return }", "text"))
