"""Users' own scripts as they are read: knobs, where they count, laws; and what is refused with its place."""

import pytest
from own_support import HANDLE, MATCH, SIZE, THREE_WAYS, knob, own_module, read, space_of, tiled

from autotune.core.errors import ScheduleError, SpaceError
from autotune.core.host.machine import this_machine


def values(options, kind="!transform.any_param"):
    (found,) = read(own_module(knob("x", options, kind))).knobs
    return found.values


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("[4, 8]", (4, 8)),
        ('["none", "panels"]', ("none", "panels")),
        ("[true, false]", (True, False)),
        ("[[8, 16], [16, 8]]", ("[8, 16]", "[16, 8]")),
        ("[1.5, 2.5]", ("1.500000e+00 : f64", "2.500000e+00 : f64")),
        ("[1, true]", ("1 : i64", "true")),
        ("[unit]", ("unit",)),
        ("array<i64: 1, 2>", (1, 2)),
        ("{lb = 1, ub = 7, step = 2}", (1, 3, 5, 7)),
        ("{lb = 2, ub = 4}", (2, 3, 4)),
        ("{lower_bound = 4, upper_bound = 32, divisible_by = 4, divides = 96}", (4, 8, 12, 16, 24, 32)),
        ("{divides = 12}", (1, 2, 3, 4, 6, 12)),
        ("{options = [1, 4, 6, 16], divides = 64, upper_bound = 8}", (1, 4)),
    ],
)
def test_options_are_values_or_spelled_as_in_mlir(options, wanted):
    assert values(options) == wanted
    assert [type(value) for value in values(options)] == [type(value) for value in wanted]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("[]", "knob 'x' must have at least one option"),
        ("[1, 1]", "must have options that differ, has 1 : i64 twice"),
        ('"any"', "must have options as a list or a span"),
        ("{lb = 1}", "must span up to a bound"),
        ("{lb = 1, ub = 4, step = 0}", "in steps of at least 1"),
        ("{lb = 1, to = 4}", "has to"),
        ("{lb = 1, ub = 1.5}", "must have a number as ub"),
        ("{divides = 0}", "must have divides from 1 on"),
        ("{lb = 1, ub = 100000}", "at most 4096 options, has 100000"),
        ("{lb = 1, ub = 1000000000000}", "must span less than"),
    ],
)
def test_options_that_are_none_are_refused_with_their_place(options, words):
    with pytest.raises(ScheduleError, match=rf"^mine.mlir:3:10: .*{words}"):
        read(own_module(f'%x = transform.tune.knob<"x"> options = {options} -> !transform.any_param'))


def test_what_is_selected_is_the_default_and_else_the_first():
    text = own_module(
        '%a = transform.tune.knob<"a"> = 8 from options = [4, 8] -> !transform.param<i64>\n'
        + knob("b", "[16, 32]")
        + tiled("%a", "%b")
    )
    assert read(text).default(this_machine()) == {"a": 8, "b": 16}


def test_a_selection_outside_a_span_is_refused():
    text = own_module(f'%a = transform.tune.knob<"a"> = 77 from options = {{lb = 1, ub = 64}} -> {SIZE}\n{tiled("%a")}')
    with pytest.raises(ScheduleError, match=r"mine\.mlir:3:10: knob 'a' must select one of its options, it selects 77"):
        read(text)


def test_one_name_in_several_places_is_one_knob():
    twice = knob("a", "[4, 8]") + knob("a", "[4, 8]").replace("%a", "%b") + tiled("%a", "%b")
    (found,) = read(own_module(twice)).knobs
    assert [site.line for site in found.sites] == [3, 4]


def test_one_name_with_other_options_is_refused():
    twice = knob("a", "[4, 8]") + knob("a", "[4, 16]").replace("%a", "%b") + tiled("%a", "%b")
    with pytest.raises(ScheduleError, match=r"mine\.mlir:4:10: knob 'a' must be the same at line 3 and here"):
        read(own_module(twice))


def test_a_knob_counts_where_it_is_read():
    conditions = {condition.knob: condition.cases for condition in space_of(own_module(THREE_WAYS)).conditions}
    assert conditions == {"tile_k": ((("vectors", 0),),), "unroll": ((("vectors", 1),),)}


def test_the_configs_of_a_script_differ_and_obey():
    space = space_of(own_module(THREE_WAYS))
    configs = list(space.configs())
    assert space.size == 2 * 3 * 2 * 3 * 2
    assert len(configs) == len({tuple(config.items()) for config in configs}) == 5 * (2 + 2 + 1)
    assert all(config["tile_m"] * config["tile_n"] <= 256 for config in configs)
    assert all(space.settled(config) == config for config in configs)


def test_a_knob_that_every_region_reads_counts_everywhere():
    body = f"""{MATCH}
    {knob("size", "[4, 8]")}
    transform.tune.alternatives<"ways"> {{
      transform.annotate %op "size" = %size : {HANDLE}, {SIZE}
      transform.yield
    }}, {{
      transform.tune.alternatives<"more"> {{
        transform.annotate %op "size" = %size : {HANDLE}, {SIZE}
        transform.yield
      }}, {{
        transform.annotate %op "twice" = %size : {HANDLE}, {SIZE}
        transform.yield
      }}
      transform.yield
    }}"""
    assert {each.name: each.used for each in read(own_module(body)).knobs} == {
        "size": ((),),
        "ways": ((),),
        "more": ((("ways", 1),),),
    }


def test_a_knob_in_an_included_sequence_counts_where_that_is_included():
    inner = f"""  transform.named_sequence @inner(%op: {HANDLE} {{transform.readonly}}) {{
    {knob("unroll", "[2, 4]")}
    transform.annotate %op "unrolled" = %unroll : {HANDLE}, {SIZE}
    transform.yield
  }}
"""
    body = f"""{MATCH}
    transform.tune.alternatives<"how"> {{
      transform.yield
    }}, {{
      transform.include @inner failures(propagate) (%op) : ({HANDLE}) -> ()
      transform.yield
    }}"""
    (condition,) = space_of(own_module(body, before=inner)).conditions
    assert (condition.knob, condition.cases) == ("unroll", ((("how", 1),),))


def test_a_region_chosen_by_a_param_has_the_param_as_its_knob():
    body = f"""{MATCH}
    {knob("how", "[0, 1]")}
    {knob("size", "[4, 8]")}
    transform.tune.alternatives<"ways"> selected_region = %how : {SIZE} {{
      transform.yield
    }}, {{
      transform.annotate %op "size" = %size : {HANDLE}, {SIZE}
      transform.yield
    }}"""
    found = read(own_module(body))
    assert [each.name for each in found.knobs] == ["how", "size"]
    assert [condition.cases for condition in found.conditions] == [((("how", 1),),)]


def test_a_knob_that_nobody_reads_is_said_and_stands_still():
    found = read(own_module(knob("idle", "[1, 2]") + knob("a", "[4, 8]") + tiled("%a")))
    assert found.notes == ("mine.mlir: knob 'idle' is read nowhere",)
    assert [config["idle"] for config in found.space(this_machine()).configs()] == [1, 1]


def test_many_knobs_that_nobody_reads_are_one_sentence():
    found = read(own_module("".join(knob(f"idle{i}", "[1, 2]") for i in range(40)) + knob("a", "[4, 8]") + tiled("%a")))
    assert found.notes == ("mine.mlir: 40 knobs are read nowhere: 'idle0', 'idle1', 'idle2', 'idle3', .., 'idle39'",)


def law(body, *, operands="%a, %b", results=""):
    kinds = ", ".join(SIZE for _ in operands.split(","))
    names = ", ".join(f"%{name.strip()[1:]}_: !smt.int" for name in operands.split(","))
    gives = f"{results} = " if results else ""
    return f"""{gives}transform.smt.constrain_params({operands}) : ({kinds}) -> ({SIZE if results else ""}) {{
    ^bb0({names}):
      {body}
    }}
    """


KNOBS = knob("a", "[4, 6, 8]") + knob("b", "[16, 24]")


@pytest.mark.parametrize(
    ("body", "sentence", "count"),
    [
        ("%x = smt.int.cmp lt %a_, %b_\n smt.assert %x", "a < b", 6),
        (
            "%m = smt.int.mod %b_, %a_\n %z = smt.int.constant 0\n %x = smt.eq %m, %z : !smt.int\n smt.assert %x",
            "b mod a = 0",
            5,
        ),
        (
            "%s = smt.int.sub %a_, %b_\n %t = smt.int.constant -12\n %x = smt.int.cmp ge %s, %t\n smt.assert %x",
            "a - b >= -12",
            3,
        ),
        ("%x = smt.distinct %a_, %b_ : !smt.int\n smt.assert %x", "distinct(a, b)", 6),
        (
            "%e = smt.int.constant 8\n %x = smt.eq %a_, %e : !smt.int\n %y = smt.int.cmp gt %b_, %e\n"
            "%n = smt.not %x\n %z = smt.implies %n, %y\n smt.assert %z",
            "not(a = 8) implies b > 8",
            6,
        ),
    ],
)  # fmt: skip
def test_laws_are_evaluated_without_a_solver(body, sentence, count):
    text = own_module(KNOBS + law(body) + tiled("%a", "%b"))
    assert [each.sentence for each in read(text).constraints] == [sentence]
    assert len(list(space_of(text).configs())) == count


def test_a_law_may_give_a_value_also_one_that_it_declares():
    declared = """%half = smt.declare_fun "half" : !smt.int
      %two = smt.int.constant 2
      %twice = smt.int.mul %half, %two
      %whole = smt.int.div %b_, %two
      %same = smt.eq %half, %whole : !smt.int
      smt.assert %same
      smt.yield %half : !smt.int"""
    found = read(own_module(KNOBS + law(declared, results="%r") + tiled("%a", "%r")))
    assert found.choose({"a": 4, "b": 24}, this_machine()).results == ((0, (12,)),)


def test_a_law_may_be_about_the_machine():
    registers = """%r = smt.declare_fun "autotune.vector_registers" : !smt.int
      %x = smt.int.cmp le %a_, %r
      smt.assert %x"""
    text = own_module(knob("a", "[1, 100000]") + law(registers, operands="%a") + tiled("%a"))
    assert [each.sentence for each in read(text).constraints] == ["a <= autotune.vector_registers"]
    assert [config["a"] for config in space_of(text).configs()] == [1]


def test_a_default_obeys_the_laws_where_nothing_is_selected():
    more = "%x = smt.int.cmp gt %a_, %b_\n smt.assert %x"
    text = own_module(knob("a", "[4, 6, 8]") + knob("b", "[5, 7]") + law(more) + tiled("%a", "%b"))
    assert read(text).default(this_machine()) == {"a": 6, "b": 5}


def test_a_default_is_found_among_many_knobs_too():
    more = "%x = smt.int.cmp gt %a_, %b_\n smt.assert %x"
    others = "".join(knob(f"k{n}", "{lb = 1, ub = 64}") for n in range(8))
    sizes = "".join(f'transform.annotate %op "k{n}" = %k{n} : {HANDLE}, {SIZE}\n' for n in range(8))
    body = knob("a", "[4, 6, 8]") + knob("b", "[5, 7]") + others + law(more)
    text = own_module(body + tiled("%a", "%b").replace("%tile,", f"{sizes} %tile,"))
    assert read(text).default(this_machine())["a"] == 6


def test_selections_that_break_a_law_are_refused():
    more = "%x = smt.int.cmp gt %a_, %b_\n smt.assert %x"
    first = f'%a = transform.tune.knob<"a"> = 4 from options = [4, 8] -> {SIZE}\n'
    text = own_module(first + knob("b", "[5, 7]") + law(more) + tiled("%a", "%b"))
    with pytest.raises(SpaceError, match="selected values must satisfy the constraints, they violate: a > b"):
        read(text).default(this_machine())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("%r = smt.declare_fun \"autotune.l9\" : !smt.int\n smt.yield", "a fact of the machine must be one of"),
        ("%r = smt.declare_fun : !smt.int\n %x = smt.int.cmp lt %r, %a_\n smt.assert %x", "value must be equal"),
        ("%r = smt.int2bv %a_ : !smt.bv<8>", "smt.int2bv is no op that constraints are evaluated with"),
    ],
)  # fmt: skip
def test_laws_that_cannot_be_evaluated_are_refused(body, words):
    with pytest.raises(ScheduleError, match=rf"mine.mlir:\d+:\d+: .*{words}"):
        read(own_module(KNOBS + law(body) + tiled("%a", "%b")))


def test_a_law_about_what_is_known_at_run_time_only_is_refused():
    count = f"{MATCH}\n%n = transform.num_associations %op : ({HANDLE}) -> {SIZE}\n"
    with pytest.raises(ScheduleError, match="a constraint must be about knobs and constants, its operand 0 is neither"):
        read(own_module(count + law("%x = smt.int.cmp lt %n_, %n_\n smt.assert %x", operands="%n")))


TO = f"({HANDLE}) -> {HANDLE}"
ENTRY_OF_ONE = own_module("", name="tile", argument="%op", mode="consumed")
CONVERSION = f"""transform.apply_conversion_patterns to %module {{
      transform.apply_conversion_patterns.dialect_to_llvm "math"
    }} {{legal_dialects = ["llvm"]}} : {HANDLE}"""
NAMED_BY_A_KNOB = f"""\
%after = "transform.apply_registered_pass"(%module) <{{pass_name = "canonicalize"}}>
      {{autotune.sets = {{pass_name = "a"}}}} : {TO}"""
INNER = ENTRY_OF_ONE.partition("{\n")[2].rpartition("}")[0]


def said_beforehand(attribute):
    """A script of one op with an attribute of its entry."""
    return ENTRY_OF_ONE.replace("consumed}) {", f"consumed}}) attributes {{{attribute}}} {{")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("module {}", "mine.mlir must hold a transform.named_sequence @__transform_main"),
        ("module {", r"mine.mlir:1:7: "),
        (own_module("transform.nonsense %module"), "mine.mlir:3:5: custom op 'transform.nonsense' is unknown"),
        (own_module(knob("a b", "[1]").replace("%a b", "%a")), "a knob must be named by letters"),
        (own_module(knob("a", "[4]", "!transform.any_param") + tiled("%a").replace(SIZE, "!transform.any_param")),
         "one is a !transform.any_param, which aborts MLIR"),
        (own_module(f'transform.apply_registered_pass "gpu-kernel-outlining" to %module : {TO}', mode="consumed"),
         "mine.mlir:3:5: a schedule must use passes that lower, .* asks for 'gpu-kernel-outlining'; leave it out"),
        (own_module(knob("a", '["cse"]', "!transform.any_param") + NAMED_BY_A_KNOB, mode="consumed"),
         r"mine.mlir:4:\d+: a pass must be named in the script, a knob gives its name"),
        (own_module(CONVERSION, mode="consumed"),
         "mine.mlir:3:5: a schedule must hold transform ops that schedule alone, it has transform.apply_conversion_"),
        (own_module("", before=f"transform.named_sequence @unused(%module: {HANDLE} {{transform.consumed}}) "
         f"{{\n{CONVERSION}\ntransform.yield }}"), "mine.mlir:3:1: a schedule must hold transform ops that schedule"),
        (own_module("").replace("}\n}", "}\nllvm.func @other()\n}"),
         "mine.mlir:6:1: a schedule must hold ops that compute alone, it has llvm.func"),
        (own_module(f'{MATCH}\ntransform.annotate %op "x" {{autotune.sets = {{x = "y"}}}} : {HANDLE}'),
         "autotune.sets must name a knob of the script, 'y' is none of none"),
        (own_module("", before=INNER, name="other"), "it has @tile, @other"),
        (said_beforehand("autotune.panel = 0 : i64"), "autotune.panel must be a number of columns, is 0 : i64"),
        (said_beforehand('autotune.panel = "x"'), "autotune.panel must be a number of columns"),
        (said_beforehand("autotune.online = {rows = 0, columns = 4, skips = false}"), "autotune.online must read"),
        (said_beforehand("autotune.online = [1]"), "autotune.online must read"),
        (own_module("").replace("readonly}) {", "readonly}) attributes {autotune.panel = 8 : i64} {"),
         "must be on a sequence over one op, @__transform_main is none"),
        (f"({'(' * 300}", "must not nest deeper than 200 brackets"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_refused_in_a_sentence_with_its_place(text, words):
    with pytest.raises(ScheduleError, match=words):
        read(text)


def test_the_hash_of_a_script_is_of_what_it_does():
    text = own_module(THREE_WAYS)
    assert read(text).digest == read(f"// a comment\n{text}").digest
    assert read(text).digest != read(text.replace("ub = 48", "ub = 32")).digest


def test_a_sequence_over_one_op_is_an_entry_by_any_name():
    assert read(ENTRY_OF_ONE).entry == "tile"
    assert not read(ENTRY_OF_ONE).whole


def test_an_entry_by_the_name_of_upstream_comes_before_libraries():
    assert read(f"module {{ {ENTRY_OF_ONE} {own_module('')} }}").whole


def test_sequences_that_include_others_twice_and_again_are_refused_at_once():
    kind = "(!transform.any_op {transform.readonly})"
    twice = "transform.include @s{} failures(propagate) (%op) : (!transform.any_op) -> ()\n" * 2
    names = ["__transform_main", *(f"s{i}" for i in range(1, 41))]
    bodies = [twice.format(i, i) for i in range(1, 41)] + [""]
    sequences = [
        f"transform.named_sequence @{name}{kind.replace('(', '(%op: ', 1)} {{\n{body}transform.yield\n}}\n"
        for name, body in zip(names, bodies, strict=True)
    ]
    text = f"module attributes {{transform.with_named_sequence}} {{\n{''.join(sequences)}}}"
    with pytest.raises(ScheduleError, match="must run 1048576 sequences at most, it includes 2199023255551"):
        read(text)
