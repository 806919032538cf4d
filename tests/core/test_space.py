"""Knobs, spaces and configs: what contradicts itself is refused in a sentence."""

import pytest

from autotune.core.errors import SpaceError
from autotune.core.space import Constraint, Knob, Space, config_key

AT_MOST_4 = Constraint("a * b must be at most 4", lambda c: c["a"] * c["b"] <= 4)
SPACE = Space((Knob("a", (1, 2, 4)), Knob("b", (1, 2)), Knob("order", ("mn", "nm"))), (AT_MOST_4,))
GOOD = {"a": 2, "b": 2, "order": "mn"}


def test_knob_without_a_value_is_rejected():
    with pytest.raises(SpaceError, match="'a' must have at least one value"):
        Knob("a", ())


def test_knob_with_a_value_twice_is_rejected():
    with pytest.raises(SpaceError, match="values of knob 'a' must differ"):
        Knob("a", (1, 2, 1))


def test_space_with_a_name_twice_is_rejected():
    with pytest.raises(SpaceError, match="knob names must differ; got a, a"):
        Space((Knob("a", (1,)), Knob("a", (2,))))


def test_config_of_the_space_is_accepted_in_any_order():
    SPACE.check(dict(reversed(GOOD.items())))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": 2, "b": 2}, "config must set knob 'order'; try 'mn'"),
        (GOOD | {"a": 3}, "a must be one of 1, 2, 4; got 3"),
        (GOOD | {"order": "mnk"}, "order must be one of 'mn', 'nm'; got 'mnk'"),
        (GOOD | {"c": 1}, "config must set only knobs of its space; got c"),
    ],
)
def test_config_outside_space_is_rejected(config, message):
    with pytest.raises(SpaceError) as error:
        SPACE.check(config)
    assert str(error.value) == message


def test_broken_constraint_is_the_sentence_of_the_first_constraint_that_fails():
    assert SPACE.broken_constraint(GOOD) is None
    assert SPACE.broken_constraint(GOOD | {"a": 4}) == "a * b must be at most 4"


def test_size_counts_combinations_before_constraints():
    assert SPACE.size == 12
    assert Space(()).size == 1


def test_configs_are_exactly_those_that_obey_the_constraints_last_knob_fastest():
    configs = list(SPACE.configs())
    assert len(configs) == 10
    assert all(config["a"] * config["b"] <= 4 for config in configs)
    assert [tuple(c.values()) for c in configs[:3]] == [(1, 1, "mn"), (1, 1, "nm"), (1, 2, "mn")]


def test_config_key_depends_on_values_and_not_on_order():
    assert config_key(GOOD) == config_key(dict(reversed(GOOD.items())))
    keys = {config_key(config) for config in SPACE.configs()}
    assert len(keys) == 10
    assert config_key({"a": 1}) != config_key({"a": "1"})
