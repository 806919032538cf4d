"""Shares of the roof: one above 100 % is said to be so, and why."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.core.host.machine import this_machine
from autotune.reports.format import above_roof
from autotune.reports.winner import describe
from autotune.store.bundle import read_bundle
from autotune.tuning.stages.roofline import why_above
from autotune.worker.bench.roofs import reference_flops

BUNDLE = Path(__file__).parents[2] / "results/icelake-3c3bf114/bundles/matmul_m512_n512_k512"


@pytest.mark.parametrize("share", [None, 0.3, 1.0])
def test_a_share_that_can_be_needs_no_word(share):
    assert not why_above(share, 1e-4, this_machine(), 1e11)


@pytest.mark.parametrize(("slow", "why"), [(1.5, "reached 67% of what it did at the start"), (1.0, "busy all along")])
def test_a_share_above_the_roof_is_said_to_be_so_and_why(slow, why):
    machine, roof = this_machine(), 1e11
    said = why_above(1.198, slow * reference_flops(machine) / roof, machine, roof)
    assert said.startswith("it would be faster than the FMA roof")
    assert why in said


def test_a_table_explains_shares_above_the_roof_only_where_there_are_any():
    assert not above_roof([None, 0.2, 1.0])
    assert "above the roof" in above_roof([None, 1.04])


def test_a_bundle_of_a_busy_core_says_so_wherever_it_is_shown():
    bundle = read_bundle(BUNDLE)
    sessions = tuple(
        replace(session, reference_seconds=tuple(3 * seconds for seconds in session.reference_seconds))
        for session in bundle.manifest.samples
    )
    busy = describe(replace(bundle, manifest=replace(bundle.manifest, samples=sessions)))
    assert busy.roof_fraction > 1
    assert "something else used the core" in busy.unsteady
    assert not describe(bundle).unsteady


def test_a_share_above_a_roof_that_is_unknown_has_a_reason():
    assert "the core was busy all along" in why_above(1.2, 1e-4, this_machine(), 0.0)
