"""The table of what a tutorial expects: what its programs lack, and how its record becomes lines."""

from pathlib import Path

import pytest

from autotune.core.host.machine import this_machine
from autotune.worker.loading.reading import open_payload

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def expected(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    import expected

    return expected


def test_each_program_lacks_what_it_is_named_for_and_nothing_else(expected):
    found = expected.programs(open_payload("nano"), this_machine(), Path("no bundle"))
    ours, without = found[expected.OURS], found["ours without motion"]
    assert {name for names in expected.SESSIONS for name in names} == set(found)
    gone = set(ours.script.splitlines()) - set(without.script.splitlines())
    assert all("hoist_loop_invariant_subsets" in line for line in gone)
    assert len(gone) == 1
    assert "loop-invariant-code-motion" in ours.pipeline
    assert "loop-invariant-code-motion" not in without.pipeline
    assert "structured.vectorize" not in found[expected.SCALAR].script
    assert "linalg-fuse-elementwise-ops" in found["loops + fusion"].pipeline
    assert "loop-invariant-code-motion" in found["loops + motion"].pipeline
    assert "loop-invariant-code-motion" not in found["loops"].pipeline + found["loops + fusion"].pipeline


def test_every_pair_of_the_table_ran_in_one_session(expected):
    pairs = [pair for row in expected.FORWARD for pair in (row.added, row.taken) if pair]
    assert all(any(set(pair) <= set(names) for names in expected.SESSIONS) for pair in pairs)


def test_a_script_without_the_moves_that_are_left_out_is_refused(expected):
    candidate = expected.Candidate("module {}", "")
    with pytest.raises(ValueError, match="must have moves like"):
        expected.rewritten(candidate, expected.VECTORS)


def test_lines_hold_ratios_of_pairs_of_one_session_and_what_failed(expected):
    def one(*seconds, outcome="ok"):
        return {"seconds": list(seconds) or None, "outcome": outcome}

    session = {
        "loops": one(4.0, 8.0, 4.0),
        "loops + fusion": one(2.0, 4.0, 2.0),
        "vectorized": one(outcome="crashed: x"),
    }
    forward = {"sessions": [{name: {**each, "part": 1} for name, each in session.items()}]}
    assert expected.parts_of_calls({"nano": {"forward": forward}}) == ""
    fusion, motion, vectors, _ = expected.FORWARD
    assert expected.gain(forward, fusion.added).startswith("2 x [2, 2]")
    assert expected.gain(forward, motion.added) == "-"
    assert expected.gain(forward, vectors.added) == "crashed"
    runs = [
        {"cached": c, "tokens": [1] * 20, "seconds": [s] * 20} for c, s in ((True, 1.0), (False, 12.0), (True, 3.0))
    ]
    lines = expected.cache_lines({"nano": {"generation": {"short": {"prompt": 1, "runs": runs}}}})
    assert lines == ["| key-value cache, 20 tokens behind 1 | 10 to 20 x | 6 x | - |"]
