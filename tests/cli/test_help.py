"""Help: it is printed where it is asked for, in groups, and each line is whole at 80 columns."""

import pytest

import autotune as at
from autotune.cli.verbs import VERBS, in_order
from autotune.core.plugs.verb import HEADINGS
from autotune.registry import plugged_verbs


def test_bare_command_prints_its_help(autotune):
    code, out, err = autotune()
    assert (code, err) == (0, "")
    assert out == autotune("--help")[1] == autotune("-h")[1]


def test_bare_group_prints_its_help(autotune):
    code, out, err = autotune("store")
    assert (code, err) == (0, "")
    assert "copy" in out


def test_every_verb_stands_below_its_heading_in_a_whole_line(autotune):
    lines = autotune("--help")[1].splitlines()
    verbs = in_order(VERBS | plugged_verbs(pytest.fail))
    for heading in HEADINGS:
        below = lines[lines.index(f"{heading}:") + 1 :]
        own = [(name, verb.line) for name, verb in verbs.items() if verb.heading == heading]
        for (name, line), shown in zip(own, below, strict=False):
            assert shown.split(maxsplit=1) == [name, line]
            assert len(shown) <= 80


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_names_this_package_and_mlir(autotune, option):
    code, out, _ = autotune(option)
    assert code == 0
    assert f"mlir-schedule-autotune {at.__version__}" in out
    assert "xtc-mlir-python-bindings" in out


def test_options_most_people_need_come_first(autotune):
    out = autotune("tune", "-h")[1]
    first, _, rest = out.partition("What is searched, and how:")
    assert all(name in first for name in ("--trials", "--seconds", "--store", "--bundle", "--threads", "--json"))
    assert all(name in rest for name in ("--sampler", "--beside", "--error", "--cluster"))
