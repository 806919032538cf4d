"""Every number that the front door takes is checked before anything is done, by the laws of the command line."""

import inspect

import pytest

import autotune as at
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.session import Session
from autotune.contrib.generate.generator import GenerationRequest, Sampling
from autotune.core.errors import AutotuneError

SPEC = "matmul,m=8,n=8,k=8"
NUMBERS = (int, float, "int", "float", "float | None", float | None)
BAD = [-1, -(10**24), 10**24, float("nan"), float("inf"), float("-inf"), "3", "", b"1", [1], 1j, True]
CALLS = {
    at.tune: lambda **given: at.tune(SPEC, **given),
    at.measure: lambda **given: at.measure(at.tasks(SPEC)[0], [{}], **given),
    at.compare: lambda **given: at.compare(SPEC, [], **given),
    at.doctor: at.doctor,
    at.this_machine: at.this_machine,
    at.ratio_interval: lambda **given: at.ratio_interval([1.0, 2.0], [1.0, 3.0], **given),
    at.is_different: lambda **given: at.is_different([1.0, 2.0], [1.0, 3.0], **({"floor": 0.01} | given)),
    at.script: lambda **given: at.script("", **given),
    Session: lambda **given: Session("/nonexistent", **given),
    Sampling: Sampling,
    GenerationRequest: lambda **given: GenerationRequest((1,), **({"max_new": 1} | given)),
    RegressOptions: RegressOptions,
}


def numbers():
    for verb in CALLS:
        for name, parameter in inspect.signature(verb).parameters.items():
            if parameter.annotation in NUMBERS:
                yield pytest.param(verb, name, id=f"{verb.__name__}-{name}")


def test_every_verb_of_the_front_door_that_takes_a_number_is_asked():
    asked = {one.values[0].__name__ for one in numbers()}
    for name in at.__all__:
        verb = getattr(at, name)
        if not inspect.isfunction(verb):
            continue
        takes = any(p.annotation in NUMBERS for p in inspect.signature(verb).parameters.values())
        assert not takes or verb.__name__ in asked, name


@pytest.mark.parametrize(("verb", "name"), list(numbers()))
def test_a_number_that_cannot_be_is_refused_in_one_line(verb, name):
    for value in BAD:
        with pytest.raises((AutotuneError, ValueError)) as error:
            CALLS[verb](**{name: value})
        assert f"{name} must be" in str(error.value), (value, str(error.value))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "spec", ["matmul,m=1_0", "matmul,m=\u0663", "gpt,layers=1_0", "nano,positions=rope:1_0", "matmul,m=1.0"]
)
def test_numbers_of_a_spec_are_ascii_digits(spec):
    with pytest.raises(AutotuneError, match="must be a whole number"):
        at.payload(spec)
