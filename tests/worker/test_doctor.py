"""`autotune doctor`: the machine's noise is measured and kept, and what is wrong is said in one line."""

import json

import pytest

from autotune.core.host.machine import Roofs, this_machine
from autotune.worker import doctor
from autotune.worker.bench.noise import LEAST_FLOOR, read_floor
from autotune.worker.worker import Worker


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Run in an empty folder, compare few programs, and measure no roofs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "A_A_PAIRS", 1)
    monkeypatch.setattr(doctor, "MANY_PAIRS", 2)
    monkeypatch.setattr(Worker, "roofs", lambda self, machine: Roofs(1e11, 1e10, 1e11))
    return tmp_path


def test_noise_is_measured_and_kept_for_this_machine(autotune, place):
    code, out, said = autotune("doctor", "--noise", "--json")
    found = json.loads(out)
    assert code == bool(found["missing"])
    (path,) = place.glob("tuned/*/noise.json")
    assert read_floor(path.parent, this_machine()) == found["noise_floor"] >= LEAST_FLOOR
    assert json.loads(path.read_text())["pairs"] == 2
    assert said == f"autotune: noise floor {found['noise_floor']:.2%} kept in {path.relative_to(place)}\n"
    assert found["fingerprint"] == this_machine().fingerprint


def test_without_noise_nothing_is_kept(autotune, place):
    code, out, _ = autotune("doctor")
    assert code == ("missing:" in out)
    assert this_machine().fingerprint in out
    assert not list(place.iterdir())


@pytest.mark.parametrize("arguments", [("--nonsense",), ("--noise", "much"), ("--noise=3",)])
def test_misuse_is_refused(refused, arguments):
    refused("doctor", *arguments)


def test_place_that_cannot_be_written_is_refused_before_anything_is_measured(refused, place, monkeypatch):
    (place / "tuned").touch()
    monkeypatch.setattr(doctor, "examine", None)
    refused("doctor", "--noise", words="tuned")
