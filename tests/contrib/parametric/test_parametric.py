"""Scripts of families with their knobs open: given back, they are what the family writes for what they allow."""

import random
from itertools import product
from pathlib import Path

import pytest
from own_support import read

import autotune as at
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL
from autotune.contrib.parametric.alternatives import hunks_between
from autotune.contrib.parametric.inferred import infer_constraints
from autotune.contrib.parametric.lines import read_lines
from autotune.contrib.parametric.parameters import parameters_of
from autotune.contrib.parametric.relation import constraints_of
from autotune.contrib.parametric.script import open_text, write_parametric
from autotune.contrib.parametric.smt_text import write_constraint
from autotune.core.candidate import Candidate
from autotune.core.scripts.assembly import panels_of, script_of, write_step
from autotune.core.scripts.terms import evaluate, spell
from autotune.core.scripts.user_family import OwnFamily
from autotune.core.space import Knob

CONVOLUTION = str(Path(__file__).parents[3] / "schedules" / "examples" / "convolution.mlir")
# Every built-in family; sizes that divide and that do not; B copied and stored in panels; online, fused and not.
OPENED = [
    ("matmul,m=64,n=64,k=64", {}),
    ("matmul,m=50,n=70,k=30", {}),
    ("matmul,m=32,n=64,k=32,constant_b=1", {"pack_b": "beforehand"}),
    ("batch_matmul,batch=2,m=16,n=32,k=16", {}),
    ("softmax,rows=32,cols=48", {}),
    ("gelu,rows=16,cols=128", {"vectors": 2}),
    ("attention,heads=2,seq=64,d=16", {}),
    ("attention,heads=1,seq=128,d=16,causal=1", {"online": 64, "rows": 32, "register_m_1": 8, "register_n_1": 2}),
    ("embedding,rows=8,vocab=16,cols=128", {}),
    ("gpt,function=decode,d_model=32,heads=2,d_ff=64,vocab=67,seq=16,positions=16,layers=1", {}),
    (CONVOLUTION, {}),
]


def opened(bound, **knobs):
    """A family's script with its knobs open, read again as a user's own; and what the family calls its configs."""
    parameters = parameters_of(bound.family, bound.task, bound.machine, bound.default(**knobs))
    return OwnFamily(read(write_parametric(parameters, infer_constraints(parameters)))), parameters.config


def lowered(bound, family, config):
    step = write_step(bound.task, family, config, bound.machine, alone=True)
    candidate = Candidate(script_of([step]), TAIL, panels=panels_of([step]))
    return compile_to("lowered", bound.task.payload, candidate).text


@pytest.mark.parametrize(("spec", "knobs"), OPENED)
def test_an_open_script_is_what_its_family_writes_for_configs_that_it_allows(spec, knobs):
    for tunable in at.tasks(spec):
        bound = tunable.family()
        own, named = opened(bound, **knobs)
        default = own.default(bound.task, bound.machine)
        assert named(default) == bound.default(**knobs)
        configs = list(own.space(bound.task, bound.machine).configs())
        for config in (default, random.Random(0).choice(configs)):
            assert lowered(bound, own, config) == lowered(bound, bound.family, named(config))


def test_every_config_that_an_open_script_allows_obeys_the_laws_of_its_family():
    (tunable,) = at.tasks("matmul,m=256,n=256,k=256")
    bound = tunable.family()
    own, named = opened(bound)
    configs = list(own.space(bound.task, bound.machine).configs())
    assert len(configs) > 1
    for config in configs:
        assert bound.space.broken_constraint(named(config)) is None


def test_a_knob_that_adds_ops_or_leaves_some_out_becomes_alternatives():
    (tunable,) = at.tasks("softmax,rows=32,cols=64")
    bound = tunable.family()
    own, named = opened(bound)
    assert 'transform.tune.alternatives<"math_0"> selected_region = %math' in own.script.text
    for math, calls in ((0, False), (1, True)):
        config = {**own.default(bound.task, bound.machine), "math": math}
        assert named(config)["math"] == ("libm" if calls else "polynomial")
        text = lowered(bound, own, config)
        assert ("llvm.intr.exp" in text) == calls
        assert text == lowered(bound, bound.family, named(config))


@pytest.mark.parametrize(
    ("other", "hunks"),
    [
        ("%a = transform.x %op\ntransform.y %a\ntransform.z %op", ((2, 0, 1),)),
        ("%a = transform.x %op", ((1, 1, 0),)),
        ("%a = transform.x %op\ntransform.y %a\n%b = transform.w %op", ((2, 0, 1),)),
        ("%b = transform.w %op\n%a = transform.x %op\ntransform.y %b", None),  # one op is replaced
        ("transform.y %a", None),  # what is left out is used
        ("%a = transform.x %op\ntransform.y %a {", None),  # half an op
    ],
)
def test_scripts_differ_by_whole_ops_that_nothing_else_uses(other, hunks):
    shown = read_lines("%a = transform.x %op\ntransform.y %a")
    found = hunks_between(shown, read_lines(other))
    told = tuple((hunk.at, hunk.left_out, len(hunk.added)) for hunk in found) if found is not None else None
    assert told == hunks


def test_what_is_not_open_is_said():
    (tunable,) = at.tasks("matmul,m=64,n=64,k=64")
    bound = tunable.family()
    text = open_text(bound.family, bound.task, bound.machine, bound.default())
    said = " ".join(line.removeprefix("// ") for line in text.split("module")[0].splitlines())
    left = {knob.name for knob in bound.space.knobs} - {knob.name for knob in read(text).knobs}
    assert left
    assert all(f"{name} = {bound.default()[name]}" in said for name in left)


def test_knobs_that_a_family_writes_itself_are_numbers_again():
    text = '%r_0 = transform.tune.knob<"r"> = 8 from options = [1, 8] -> !transform.param<i64>\n'
    tile = "%t, %l = transform.structured.tile_using_for %op tile_sizes [{}, 0] : (!transform.any_op{}) -> (A, B)"
    closed, opened = tile.format("8", ""), tile.format("%r_0", ", !transform.param<i64>")
    (line,) = read_lines(text + opened)
    assert line.write([None, None]) == closed
    assert line.write(["%r_0", None]) == opened
    assert read_lines(closed) == [line]


@pytest.mark.parametrize("seed", range(20))
def test_laws_tell_the_members_of_a_relation_from_all_others(seed):
    draw = random.Random(seed)
    options = [1, 2, 3, 4, 6, 8]
    knobs = tuple(Knob(name, tuple(draw.sample(options, draw.randint(2, 4)))) for name in "abc"[: 2 + seed % 2])
    everything = list(product(*(knob.values for knob in knobs)))
    members = frozenset(draw.sample(everything, draw.randint(1, len(everything))))
    constraints = constraints_of(knobs, members)
    for values in everything:
        given = {knob.name: value for knob, value in zip(knobs, values, strict=True)}
        assert all(evaluate(constraint, given) for constraint in constraints) == (values in members)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({(4, 1), (6, 1), (8, 1), (4, 4), (8, 4)}, "tile mod unroll = 0"),
        ({(4, 1), (6, 1), (8, 1), (4, 4), (6, 4)}, "tile = 8 implies unroll = 1"),
        ({(4, 1), (6, 4)}, "unroll = 4 implies tile = 6"),
    ],
)
def test_laws_are_what_people_write_and_are_read_as_they_were_written(members, sentence):
    knobs = (Knob("tile", (4, 6, 8)), Knob("unroll", (1, 4)))
    constraints = constraints_of(knobs, frozenset(members))
    assert sentence in [spell(constraint) for constraint in constraints]
    lines = [
        line for constraint in constraints for line in write_constraint(constraint, {"tile": "%t", "unroll": "%u"})
    ]
    text = f"""module attributes {{transform.with_named_sequence}} {{
      transform.named_sequence @schedule(%op: !transform.any_op {{transform.consumed}}) {{
        %t = transform.tune.knob<"tile"> options = [4, 6, 8] -> !transform.param<i64>
        %u = transform.tune.knob<"unroll"> options = [1, 4] -> !transform.param<i64>
        {chr(10).join(lines)}
        transform.yield
      }}
    }}"""
    assert [constraint.asserted for constraint in read(text).constraints] == [
        (constraint,) for constraint in constraints
    ]


def test_an_open_script_is_shown_given_back_and_tuned(autotune, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = "matmul,m=32,n=48,k=16"
    code, _, _ = autotune("show", spec, "--open", "--output", "open.mlir")
    assert code == 0
    code, out, _ = autotune("show", spec, "--schedule", "open.mlir", "--stage", "space")
    configs = len(list(read(Path("open.mlir").read_text()).space(at.this_machine()).configs()))
    assert f"{configs} distinct and valid" in out
    theirs = autotune("show", spec, "--stage", "lowered")[1]
    assert autotune("show", spec, "--schedule", "open.mlir", "--stage", "lowered")[1] == theirs
    refused("show", spec, "--open", "--stage", "space", words="--open must go with stage schedule, got space; drop one")
    refused("show", spec, "--open", "--schedule", "open.mlir", words="open.mlir is a script; copy that file")
    refused("show", "nano", "--open", words="one task is opened")
