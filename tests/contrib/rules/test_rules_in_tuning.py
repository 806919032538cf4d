"""Rules in a tuning run: a wrong one is named before the search; those that fired are in the bundle and the store."""

from dataclasses import replace

import pytest
from bundle_support import edit_file, no_care

from autotune.bundles.reproduce import rules_in
from autotune.contrib.explain.ablation import leave_one_out
from autotune.contrib.rules.prove import prove_rules
from autotune.core.errors import BundleError, RuleError
from autotune.core.host.machine import this_machine
from autotune.core.scripts.rules import NO_RULES, Rules
from autotune.registry import load_payload
from autotune.store.bundle import read_bundle
from autotune.store.folders import bundle_folder
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions, parse_command
from autotune.tuning.stages.user_script import parts_of
from autotune.tuning.tune import tune
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

SPEC = "gelu,rows=8,cols=16"
HEAD = """  %t = type
  %a = operand : %t
  %b = operand : %t
"""
COMMUTE = f"""pdl.pattern @swap_twice : benefit(1) attributes {{autotune.tolerance = 0.0 : f64}} {{
{HEAD}  %inner = operation "arith.mulf"(%a, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  %v = result 0 of %inner
  %root = operation "arith.mulf"(%v, %a : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  rewrite %root {{
    %new = operation "arith.mulf"(%a, %v : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    replace %root with %new
  }}
}}
"""
WRONG = """pdl.pattern @no_tanh : benefit(1) {
  %t = type
  %a = operand : %t
  %root = operation "math.tanh"(%a : !pdl.value) -> (%t : !pdl.type)
  rewrite %root {
    replace %root with (%a : !pdl.value)
  }
}
"""


def with_rules(text):
    """The payload with a user's rules."""
    return replace(load_payload(SPEC), rules=Rules("mine.mlir", text))


def proved(text):
    """What proving a user's rules on the payload says."""
    payload = with_rules(text)
    with Worker() as worker:
        return prove_rules(payload, partition(payload), this_machine(), 0, worker)


def test_rules_that_change_the_result_are_named_before_anything_is_searched():
    with pytest.raises(RuleError) as refused:
        proved(COMMUTE + WRONG)
    said = str(refused.value)
    assert said.startswith("rules must change no result, no_tanh of mine.mlir did (wrong-result: out[")
    assert "\n" not in said


def test_rules_that_are_right_are_told():
    assert proved(COMMUTE) == ("rules fired: swap_twice 1 time",)


def test_a_bundle_holds_its_rules_and_forms_tasks_by_them(tmp_path):
    with no_care(), Store.open(tmp_path / "store.journal") as store:
        tune(with_rules(COMMUTE), store, tmp_path / "bundle", TuneOptions(trials=1))
        (sweep,) = store.sweeps()
        assert rules_in(sweep.about).text.count("pdl.pattern @swap_twice") == 1
    bundle = read_bundle(tmp_path / "bundle")
    manifest = bundle.manifest
    assert manifest.rules.source == "mine.mlir"
    assert manifest.rules.fired == {"swap_twice": 1}
    assert parse_command(manifest.command).rules == "mine.mlir"
    assert "rules fired: swap_twice 1 time" in manifest.notes
    assert [task.tag for task in parts_of(bundle.payload, None).tasks] == list(manifest.tasks)
    assert [task.tag for task in partition(load_payload(SPEC)).tasks] != list(manifest.tasks)
    (variant,) = [v for v in leave_one_out(bundle, this_machine()) if v.name == "rule swap_twice"]
    assert len(variant.tasks) == 1

    edit_file(
        tmp_path / "bundle", "rules.mlir", WRONG.replace("math.tanh", "arith.mulf").replace("pdl.pattern", "func.func")
    )
    with pytest.raises(BundleError):
        read_bundle(tmp_path / "bundle")


def test_what_was_recorded_without_rules_is_read_without_them():
    assert rules_in({}) == NO_RULES


def test_a_bundle_of_other_rules_goes_to_another_folder():
    plain = bundle_folder("nano")
    assert bundle_folder("nano", rules=Rules().options) == plain
    assert bundle_folder("nano", rules=Rules("my/own.mlir", "..").options).name == "nano_with_own"
    assert bundle_folder("nano", rules=NO_RULES.options).name == "nano_with_none"
    assert bundle_folder("nano", rules=Rules(exact=True).options).name == "nano_exact"
