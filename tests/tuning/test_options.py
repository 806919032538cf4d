"""Options of verbs, listed once: the command line, Python, manifests and `replay --retune` derive from the list."""

import inspect
import json
from dataclasses import fields, replace

import pytest
import typer
from bundle_support import make_bundle
from hypothesis import given
from hypothesis import strategies as st

import autotune as at
from autotune.bundles.regress_options import READ_ONLY, RegressOptions
from autotune.bundles.retune import recorded_options
from autotune.cli.verbs import app
from autotune.core.errors import BundleError, OptionError
from autotune.core.verb_options import options_from as verb_options_from
from autotune.core.verb_options import options_given
from autotune.reports.compare_options import COMPARE_OPTIONS, CompareOptions
from autotune.store.bundle import read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.tuning.options import TuneOptions, command_options, options_from, parse_command

SPEC = "matmul,m=8,n=16,k=8"
VALUES = {
    "trials": st.integers(1, 10**6),
    "seconds": st.none() | st.sampled_from([1.0, 2.5, 3600.0]),
    "seed": st.integers(0, 2**32 - 1),
    "threads": st.just(1),
    "jobs": st.just(1),
    "sampler": st.sampled_from(["auto", "tpe", "GPSampler"]),
    "baseline": st.sampled_from(["passes", "loops"]),
    "timeout": st.sampled_from([0.5, 60.0, 1000.0]),
    "task": st.sampled_from(["*", "matmul*"]),
    "beside": st.lists(st.sampled_from(["affine", "vectorize"])).map(tuple),
    "backends": st.lists(st.sampled_from(["tvm", "library:mine.toml"])).map(tuple),
    "rules": st.sampled_from(["", "none", "mine.pdl"]),
    "exact": st.booleans(),
    "cold": st.booleans(),
    "anew": st.booleans(),
    "error": st.sampled_from([0.0, 0.01, 1.0]),
    "agreement": st.sampled_from([0.0, 0.99]),
    "objective": st.sampled_from(["seconds", "seconds,joules"]),
    "weight": st.sampled_from([0.0, 0.5, 1.0]),
}
SETS = st.fixed_dictionaries({}, optional=VALUES | {"family": st.sampled_from(["", "matmul"])}).filter(
    lambda values: "weight" not in values or "joules" in values.get("objective", "")
)
FIELDS = {each.name for each in fields(TuneOptions)}


@given(SETS)
def test_a_recorded_command_gives_back_its_options(values):
    options = TuneOptions(**values)
    assert parse_command(options.command(SPEC)) == options


def test_every_option_is_drawn_above():
    assert {*VALUES, "family", "schedule"} == FIELDS


@pytest.mark.parametrize(
    ("verb", "function", "options"),
    [
        ("tune", at.tune, tuple(command_options())),
        ("compare", at.compare, COMPARE_OPTIONS),
        ("regress", at.Bundle.regress, READ_ONLY),
    ],
    ids=["tune", "compare", "regress"],
)
def test_every_option_is_on_the_command_line_and_a_keyword_in_python(verb, function, options):
    flags = {flag for p in typer.main.get_command(app).commands[verb].params for flag in p.opts}
    assert {shown.flag for _, shown in options} <= flags
    keywords, told = inspect.signature(function).parameters, inspect.getdoc(function)
    for each, _ in options:
        assert each.name in keywords, each.name
        assert each.name in told, each.name


def test_what_python_adds_to_an_option_is_its_own_default_alone():
    assert inspect.signature(at.Bundle.regress).parameters["quick"].default is True
    assert not RegressOptions().quick


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"rivals": "all"}, "rivals must be one of quick, best, got 'all'"),
        ({"threads": 0}, "threads must be from 1"),
        ({"error": 2}, "error must be from 0 to 1"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_alike_in_python_and_on_the_command_line(autotune, words, message):
    with pytest.raises(OptionError, match=message):
        at.compare(SPEC, [], **words)
    ((name, value),) = words.items()
    code, _, err = autotune("compare", SPEC, "--against", "", f"--{name}", str(value))
    assert code == 2
    assert message in err


def test_libraries_are_names_with_commas_or_a_list():
    assert options_given(CompareOptions, COMPARE_OPTIONS, {"against": ("numpy", "torch")}).against == ("numpy", "torch")
    for names in ("numpy", ["numpy"], ("numpy",)):
        assert verb_options_from(CompareOptions, COMPARE_OPTIONS, {"against": names}, "compare").against == ("numpy",)
    assert CompareOptions(baseline="none").pipeline is CompareOptions(baseline=None).pipeline is None


def test_unknown_keyword_is_named():
    with pytest.raises(TypeError, match="'trails'"):
        at.tune(SPEC, trails=3)
    with pytest.raises(TypeError, match=r"compare.* 'thorough'; options are .*rivals"):
        at.compare(SPEC, thorough=True)


@pytest.mark.parametrize("excluded", [{"family": "matmul"}, {"error": 0.1}, {"agreement": 0.9}])
def test_a_schedule_beside_what_excludes_it_is_refused_in_python_and_on_the_command_line(autotune, tmp_path, excluded):
    script = tmp_path / "mine.mlir"
    script.write_text("module {}")
    with pytest.raises(OptionError, match="schedule"):
        at.tune(SPEC, schedule=script, **excluded)
    words = [word for name, value in excluded.items() for word in (f"--{name}", str(value))]
    code, _, err = autotune("tune", SPEC, "--schedule", script, *words)
    assert code == 2
    assert "schedule" in err


def test_one_name_stands_for_a_tuple_of_one():
    assert options_from({"beside": "affine"}) == TuneOptions(beside=("affine",))


@pytest.mark.parametrize("words", [(), ("autotune", "compare", SPEC), ("autotune", "tune", SPEC, "--nosuch", "1")])
def test_what_is_no_command_of_tune_is_refused(words):
    with pytest.raises(OptionError, match="recorded command"):
        parse_command(words)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("options"), SPEC, baseline="loops", sampler="random", timeout=50.0)


def with_command(folder, **options):
    """A bundle whose manifest says that it was tuned with other options."""
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    manifest["command"] = TuneOptions(**options).command(SPEC)
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest))
    return read_bundle(folder)


def test_a_bundle_is_retuned_as_it_was_tuned(bundle):
    found = recorded_options(read_bundle(bundle))
    assert found == replace(TuneOptions(trials=1, baseline="loops", sampler="random", timeout=50.0), cold=True)


def test_threads_rounding_back_ends_families_and_objective_are_kept(bundle):
    options = {"threads": 2, "error": 0.01, "agreement": 0.9, "backends": ("tvm",), "beside": ("affine",)}
    options |= {"family": "matmul", "objective": "seconds,joules", "weight": 0.25}
    assert recorded_options(with_command(bundle, **options)) == TuneOptions(**options)


@pytest.mark.parametrize("options", [{"family": "mine.py:FLAT"}, {"backends": ("library:mine.toml",)}])
def test_a_bundle_that_names_code_is_not_retuned_at_its_word(bundle, options):
    with pytest.raises(BundleError, match="must not name code"):
        recorded_options(with_command(bundle, **options))
