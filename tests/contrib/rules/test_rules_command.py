"""The verb `rules`, and rules of other verbs: what fires is told, bad input is one line."""

import json

import pytest

GELU = "gelu,rows=4,cols=8"
WRONG = """pdl.pattern @{name} : benefit(1) attributes {{autotune.before = "a b", autotune.after = "a + b"}} {{
  %t = type
  %a = operand : %t
  %b = operand : %t
  %root = operation "{old}"(%a, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  rewrite %root {{
    %new = operation "{new}"(%a, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    replace %root with %new
  }}
}}
"""


@pytest.fixture
def write(tmp_path):
    """Write a file of rules; gives its path."""

    def to_file(*rules):
        path = tmp_path / "mine.mlir"
        path.write_text("".join(WRONG.format(name=name, old=old, new=new) for name, old, new in rules))
        return path

    return to_file


def test_rules_lists_what_each_does_and_how_often_it_fires(autotune, write):
    path = write(("sum", "arith.mulf", "arith.addf"))
    code, out, _ = autotune("list", "rules", GELU, "softmax,rows=4,cols=8", "--rules", path, "--json")
    found = {each["rule"]["name"]: each for each in json.loads(out)}
    assert code == 0
    assert found["add_zero"]["rule"]["tolerance"] == 0.0
    assert found["sum"]["fired"] == {GELU: 6}
    code, out, _ = autotune("list", "rules", GELU, "--rules", path)
    assert "add_zero: x + 0 -> x; exact" in out
    assert " ".join(out.split()).endswith(
        f"a b -> a + b; not said fires: {GELU} 6 9 of 10 rules fire on none of 1 payloads"
    )


def test_show_says_which_fired_where_and_what_they_changed(autotune, write):
    path = write(("sum", "arith.mulf", "arith.addf"))
    code, out, said = autotune("show", GELU, "--stage", "rewritten", "--rules", path)
    assert code == 0
    assert "arith.mulf" not in out
    assert "rules fired 6 times: sum at line " in said
    code, out, _ = autotune("show", GELU, "--rules", path, "--diff", "payload", "rewritten")
    changed = [line for line in out.splitlines() if line.startswith(("+ ", "- "))]
    assert len(changed) == 12
    assert all("arith.mulf" in line or "arith.addf" in line for line in changed)
    code, out, said = autotune("show", GELU, "--diff", "payload", "rewritten")
    assert out == "payload and rewritten are the same\n"
    assert "no rule fired" in said


def test_no_rules_at_all_can_be_asked_for(autotune):
    assert autotune("list", "rules", GELU, "--rules", "none")[1] == "no rules\n"


@pytest.mark.parametrize("verb", [("list", "rules", GELU), ("tune", GELU), ("show", GELU, "--stage", "rewritten")])
def test_files_that_are_no_rules_are_refused(refused, tmp_path, verb):
    empty = tmp_path / "empty.mlir"
    empty.write_text("")
    refused(*verb, "--rules", empty, words="rules must hold a pdl.pattern")
    refused(*verb, "--rules", tmp_path / "nosuch.mlir", words="rules must be a readable file")


@pytest.mark.parametrize(
    "verb", [("list", "rules", GELU), ("show", GELU, "--stage", "rewritten"), ("show", GELU, "--stage", "tasks")]
)
def test_rules_without_an_end_are_refused_with_their_circle(refused, write, verb):
    path = write(("there", "arith.mulf", "arith.divf"), ("back", "arith.divf", "arith.mulf"))
    said = refused(*verb, "--rules", path, words="rules must come to an end, there at line")
    assert "leads back to where it began" in said


def test_a_rule_that_ends_the_compiler_is_named(refused, tmp_path):
    path = tmp_path / "mine.mlir"
    good, bad = (WRONG.format(name=name, old="arith.mulf", new="arith.addf") for name in ("good", "bad"))
    path.write_text(good + bad.replace("with %new", "with (%a, %b : !pdl.value, !pdl.value)").replace("mulf", "subf"))
    spec = "softmax,rows=4,cols=8"
    said = refused("show", spec, "--stage", "tasks", "--rules", path, words="rules must not crash the compiler, bad of")
    assert "crashed" in said


def test_exact_refuses_rules_that_do_not_say_that_they_are(refused, write):
    path = write(("sum", "arith.mulf", "arith.addf"))
    refused(
        "list",
        "rules",
        GELU,
        "--rules",
        path,
        "--exact",
        words="--exact takes rules with autotune.tolerance = 0.0, sum of",
    )


def test_untrusted_rules_are_parsed_apart(refused, tmp_path, monkeypatch):
    """What ends the parser ends a process, not the one that was started."""
    from mlir import ir

    monkeypatch.setattr(ir.Module, "parse", None)
    path = tmp_path / "bad.mlir"
    path.write_text("nonsense")
    refused("list", "rules", GELU, "--rules", path, words="rules must be MLIR's PDL")
