"""Users' own scripts as they are written: everything chosen, upstream's interpreter alone applies them, places stay."""

import subprocess
from pathlib import Path

import mlir
import numpy as np
import pytest
from own_support import HANDLE, MATCH, SIZE, THREE_WAYS, knob, own_module, read, tiled
from tuning_support import PACKED, contraction_payload, product_of, run

from autotune.compiler.ir.module import context
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.script.instantiate import concrete_sequences, concrete_text
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.scripts.marks import TAG

PAYLOAD = contraction_payload(32, 48, 16)
CONSUMED = f"""transform.bufferization.eliminate_empty_tensors %module : {HANDLE}
    %buffers = transform.bufferization.one_shot_bufferize layout{{IdentityLayoutMap}} %module
      {{bufferize_function_boundaries = true}} : ({HANDLE}) -> {HANDLE}"""


def chosen(text, tag="", **config):
    script = read(text)
    return script.choose({**script.default(this_machine()), **config}, this_machine(), tag=tag)


def result_of(script):
    inputs = PAYLOAD.make_inputs(0)
    (found,) = run(PAYLOAD, inputs, script, TAIL)
    np.testing.assert_allclose(found, product_of(PAYLOAD, inputs), atol=1e-4)


@pytest.mark.parametrize("vectors", [0, 1, 2])
def test_every_region_computes_what_it_should_in_memory_and_as_text(vectors):
    script = chosen(own_module(THREE_WAYS), vectors=vectors)
    result_of(script)
    result_of(concrete_text(script))


def test_a_concrete_script_holds_no_choices_and_no_laws():
    text = concrete_text(chosen(own_module(THREE_WAYS), vectors=1, unroll=4))
    assert "transform.tune" not in text
    assert "smt" not in text
    assert "factor = 4" in text
    assert "autotune.sets" not in text
    assert "autotune.knobs = {tile_k = 1 : i64, tile_m = 8 : i64" in text


def test_mlir_opt_applies_a_concrete_script_to_the_payload_as_given(tmp_path):
    (tmp_path / "payload.mlir").write_text(PAYLOAD.text)
    (tmp_path / "schedule.mlir").write_text(concrete_text(chosen(own_module(THREE_WAYS))))
    tool = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
    library = "--transform-preload-library=transform-library-paths=schedule.mlir"
    command = [tool, "payload.mlir", library, "--transform-interpreter"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "vector." in done.stdout


def test_what_fails_is_told_with_its_place_in_the_users_file():
    body = f"""{tiled(6, 0)}
    transform.structured.vectorize %tile : {HANDLE}"""
    with context(), pytest.raises(CompileError) as failed:
        apply_schedule(Unit.open(PAYLOAD, Candidate(chosen(own_module(body)), TAIL)))
    assert str(failed.value).startswith("mine.mlir:6:5: transform.structured.vectorize: Attempted to vectorize")


def test_a_value_that_its_op_does_not_take_is_told_with_its_place():
    body = f"""{knob("how", '["a", "b"]', "!transform.any_param")}
    {tiled(8, 0)}
    transform.loop.unroll %loops {{factor = 2, autotune.sets = {{factor = "how"}}}} : {HANDLE}"""
    with pytest.raises(CompileError, match=r"mine.mlir:8:5: .*factor"):
        concrete_text(chosen(own_module(body)))


def test_a_script_that_bufferizes_stays_alone():
    text = concrete_text(chosen(own_module(CONSUMED, mode="consumed")))
    assert text.count("one_shot_bufferize") == 1
    result_of(text)


def test_a_script_that_only_says_that_it_consumes_is_lowered_all_the_same():
    text = concrete_text(chosen(own_module(tiled(8, 0), mode="consumed")))
    assert text.count("one_shot_bufferize") == 1
    result_of(text)


def test_packs_that_a_script_leaves_are_lowered_after_it():
    body = f"""%add = transform.structured.match ops{{["linalg.add"]}} in %module : ({HANDLE}) -> {HANDLE}
    %tile, %loop = transform.structured.tile_using_forall %add tile_sizes [1, 1] : ({HANDLE}) -> ({HANDLE}, {HANDLE})"""
    inputs = PACKED.make_inputs(0)
    (found,) = run(PACKED, inputs, chosen(own_module(body)), TAIL)
    np.testing.assert_allclose(found, 2 * inputs["a"])


def test_prints_are_left_out():
    text = own_module(
        f'{MATCH}\n    transform.print %op : {HANDLE}\n    transform.debug.emit_remark_at %op, "x" : {HANDLE}'
    )
    assert "transform.print" not in concrete_text(chosen(text))
    assert "emit_remark" not in concrete_text(chosen(text))


def test_results_of_laws_become_constants():
    body = f"""{knob("a", "[4, 8]")}
    %r = transform.smt.constrain_params(%a) : ({SIZE}) -> ({SIZE}) {{
    ^bb0(%x: !smt.int):
      %two = smt.int.constant 2
      %y = smt.int.mul %x, %two
      smt.yield %y : !smt.int
    }}
    {tiled("%a", "%r")}"""
    text = concrete_text(chosen(own_module(body), a=8))
    assert "transform.param.constant 16 : i64" in text
    result_of(text)


def test_choices_inside_choices():
    body = f"""{MATCH}
    transform.tune.alternatives<"outer"> {{
      transform.yield
    }}, {{
      %size = transform.tune.alternatives<"inner"> -> {SIZE} {{
        {knob("small", "[2, 4]")}
        transform.yield %small : {SIZE}
      }}, {{
        {knob("large", "[8, 16]")}
        transform.yield %large : {SIZE}
      }}
      %tile, %loop = transform.structured.tile_using_for %op tile_sizes [%size]
        : ({HANDLE}, {SIZE}) -> ({HANDLE}, {HANDLE})
      transform.yield
    }}"""
    text = own_module(body)
    space = read(text).space(this_machine())
    assert (space.size, len(list(space.configs()))) == (16, 1 + 2 + 2)
    wanted = {"outer": 1, "inner": 1, "large": 16}
    assert "transform.param.constant 16 : i64" in concrete_text(chosen(text, **wanted))
    assert "tile_using_for" not in concrete_text(chosen(text, outer=0))


def test_a_region_that_is_chosen_by_an_argument_stays_a_choice_of_the_interpreter():
    arguments = f"%op: {HANDLE} {{transform.readonly}}, %how: {SIZE} {{transform.readonly}}"
    inner = f"""  transform.named_sequence @inner({arguments}) {{
    transform.tune.alternatives<"ways"> selected_region = %how : {SIZE} {{
      transform.yield
    }}, {{
      transform.annotate %op "second" : {HANDLE}
      transform.yield
    }}
    transform.yield
  }}
"""
    body = f"""{MATCH}
    {knob("how", "[0, 1]")}
    transform.include @inner failures(propagate) (%op, %how) : ({HANDLE}, {SIZE}) -> ()"""
    with context():
        unit = Unit.open(PAYLOAD, Candidate(chosen(own_module(body, before=inner), how=1), TAIL))
        unit.script.operation.verify()
    result_of(concrete_text(chosen(own_module(body, before=inner), how=1)))


TILE_ONE = own_module(
    f"""{knob("rows", "[4, 8]")}
    %tile, %loop = transform.structured.tile_using_for %op tile_sizes [%rows]
      : ({HANDLE}, {SIZE}) -> ({HANDLE}, {HANDLE})
    transform.include @note failures(propagate) (%loop) : ({HANDLE}) -> ()""",
    name="tile",
    argument="%op",
    mode="consumed",
    before=f"""  transform.named_sequence @note(%loop: {HANDLE} {{transform.readonly}}) {{
    transform.annotate %loop "mine" : {HANDLE}
    transform.yield
  }}
""",
)


def test_a_script_of_one_op_is_applied_to_every_op_of_its_tag():
    text = concrete_text(chosen(TILE_ONE, tag="t", rows=8))
    assert f'{TAG} = "t"' in text
    assert "transform.include @tile failures(propagate)" in text


def test_sequences_of_a_script_of_one_op_have_names_of_their_own():
    text, body = concrete_sequences((chosen(TILE_ONE, tag="t"), "own_3_"))
    assert "@own_3_tile(" in text
    assert "include @own_3_note" in text
    assert body.startswith("transform.include @own_3_tile failures(propagate) (%op)")
