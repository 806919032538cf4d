"""What the command line can do, Python can: options of a verb are parameters of its function, or lie elsewhere."""

import inspect
from collections.abc import Callable, Set

import pytest

import autotune as at
from autotune.cli.verbs import VERBS

# Functions of Python, and options of the verb that are none of theirs, each with what does the same.
DOORS: dict[str, tuple[tuple[Callable[..., object], ...], dict[str, str]]] = {
    "tune": ((at.tune,), {"payloads": "payload, one a call", "as_json": "TuneResult"}),
    "compare": ((at.compare,), {"as_json": "Comparison"}),
    "show": (
        (at.show,),
        {
            "task": "at.tasks(payload), of which a task is a source",
            "config": "candidate",
            "diff": "difflib",
            "output": "the text is the result",
        },
    ),
    "replay": (
        (at.Bundle.read, at.Bundle.replay),
        {
            "bundle": "folder",
            "emit": "Bundle.emit",
            "retune": "at.tune, which starts from known configs",
            "trials": "of retune",
            "store": "of retune; a trial is at.trials and at.measure",
            "family": "of a trial",
            "output": "folder of Bundle.emit",
            "as_json": "Replay",
        },
    ),
    "regress": (
        (at.Bundle.regress,),
        {
            "bundles": "one Bundle each",
            "update": "writes bundles, which is the command line's alone",
            "history": "of update",
            "output": "RegressionFinding",
            "as_json": "RegressionFinding",
            "junit_file": "RegressionFinding",
        },
    ),
}


def parameters(function: Callable[..., object]) -> Set[str]:
    return set(inspect.signature(function).parameters) - {"self"}


@pytest.mark.parametrize("verb", DOORS)
def test_every_option_of_a_verb_is_there_in_python(verb):
    functions, elsewhere = DOORS[verb]
    typed = parameters(VERBS[verb].function)
    called = set().union(*map(parameters, functions))
    assert typed - called == elsewhere.keys()


def test_a_family_is_shown_from_python_as_on_the_command_line(autotune):
    source = ("matmul,m=8,n=16,k=8", "schedule")
    code, out, _ = autotune("show", source[0], "--stage", source[1], "--family", "affine")
    assert code == 0
    assert out.strip() == at.show(*source, family="affine").strip() != at.show(*source).strip()
