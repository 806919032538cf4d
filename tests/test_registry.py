"""Content by name: what is installed is found, what is not is named with a way out."""

import doctest

import pytest

from autotune import registry as module
from autotune.compiler.tasks.partition import partition
from autotune.core.errors import PayloadError, ScheduleError
from autotune.registry import (
    ALIASES,
    BASELINES,
    PAYLOADS,
    SCHEDULES,
    current_name,
    families,
    family_for,
    first_name,
    load_baseline,
    load_family,
    load_payload,
    parse_spec,
    registered,
)


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("nano", ("nano", {})),
        ("gpt2,seq=64", ("gpt2", {"seq": "64"})),
        ("matmul,m=1,n=2,k=3", ("matmul", {"m": "1", "n": "2", "k": "3"})),
        ("gpt2,weights=/a=b.safetensors", ("gpt2", {"weights": "/a=b.safetensors"})),
    ],
)
def test_spec_splits_into_name_and_parameters(spec, parsed):
    assert parse_spec(spec) == parsed


@pytest.mark.parametrize("spec", ["matmul,m", "matmul,m=", "matmul,=3", "matmul,", "matmul,,m=3"])
def test_part_that_is_no_pair_is_refused(spec):
    with pytest.raises(PayloadError, match="must read key=value") as error:
        parse_spec(spec)
    assert repr(spec) in str(error.value)


def test_parameter_given_twice_is_refused():
    with pytest.raises(PayloadError, match="given once, got 'm' twice"):
        parse_spec("matmul,m=3,m=4")


@pytest.mark.parametrize(
    "name",
    [
        *("nano", "gpt2", "gpt", "matmul", "batch_matmul", "attention", "layer_norm", "softmax", "gelu", "embedding"),
        *("conv", "resnet_block"),
    ],
)
def test_every_documented_payload_is_registered_and_loads(name):
    assert name in registered(PAYLOADS)
    assert load_payload(name).name == name


@pytest.mark.parametrize("spec", ["nano", "matmul,m=3,n=5,k=7", "gpt,d_model=72,heads=3"])
def test_name_of_a_payload_loads_the_same_payload(spec):
    payload = load_payload(spec)
    assert load_payload(payload.name).sha256 == payload.sha256


def test_unknown_payload_is_refused_with_the_nearest_name():
    with pytest.raises(PayloadError, match="got 'matmull'; did you mean 'matmul'") as error:
        load_payload("matmull,m=3")
    assert "nano" in str(error.value)


def test_payload_nothing_resembles_is_refused_with_a_way_out():
    with pytest.raises(PayloadError, match=r"give a path ending in \.mlir, or see `autotune list`"):
        load_payload("zzz")


def test_parameter_that_is_a_path_does_not_make_a_payload_file_of_the_spec(tmp_path):
    path = tmp_path / "missing.safetensors"
    with pytest.raises(PayloadError) as error:
        load_payload(f"gpt2,weights={path}")
    assert "MLIR" not in str(error.value)
    assert str(path) in str(error.value)


def test_fallback_families_come_last():
    order = [family.fallback for family in families()]
    assert order == sorted(order)
    assert {family.name for family in families()} == set(registered(SCHEDULES))


def test_special_family_is_preferred_to_a_fallback():
    (task,) = partition(load_payload("matmul,m=5,n=6,k=7")).tasks
    assert [family.name for family in families() if family.covers(task)] == ["matmul", "vectorize", "affine"]
    assert family_for(task).name == "matmul"


@pytest.mark.parametrize("name", ["matmul", "vectorize"])
def test_family_loads_by_its_name(name):
    assert load_family(name).name == name


@pytest.mark.parametrize("name", ["loops", "passes"])
def test_baseline_loads_by_its_name(name):
    assert name in registered(BASELINES)
    assert load_baseline(name).name == name


@pytest.mark.parametrize(("load", "kind"), [(load_family, "schedule"), (load_baseline, "baseline")])
def test_unknown_family_or_baseline_is_refused_with_the_known_ones(load, kind):
    with pytest.raises(ScheduleError, match=rf"{kind} must be one of .*; got 'none'"):
        load("none")


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(("former", "name"), [("turned", "transpose"), ("windows", "sliding_window")])
def test_a_family_answers_to_the_name_that_it_had(former, name):
    assert load_family(former) is load_family(name)
    assert load_family(former).name == name
    assert first_name(name) == former
    assert current_name(former) == current_name(name) == name


def test_every_former_name_is_of_an_installed_family_and_no_family_has_it():
    families_here = {point.value for point in registered(SCHEDULES).values()}
    for point in registered(ALIASES).values():
        assert point.value in families_here
        assert point.name not in registered(SCHEDULES)


def test_a_family_without_another_name_is_recorded_by_its_own():
    assert first_name("matmul") == current_name("matmul") == "matmul"
