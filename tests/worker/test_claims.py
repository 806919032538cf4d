"""Cores that tuners measure on: each has its own while there are enough, and gives it back with its last worker."""

import subprocess
import sys

import pytest

from autotune.worker.bench import claims
from autotune.worker.bench.claims import CoreClaim

OTHER = """
import sys
from autotune.worker.bench import claims
claims.physical_cores = lambda: (0, 1, 2)
print(*claims.CoreClaim(int(sys.argv[1])).cores, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def three_cores(monkeypatch, tmp_path):
    """A machine of three cores, and a folder of locks that no real tuner uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(claims.tempfile, "tempdir", None)
    monkeypatch.setattr(claims, "physical_cores", lambda: (0, 1, 2))
    monkeypatch.setattr(claims, "_locked", {})  # workers of other tests may be open
    monkeypatch.setattr(claims, "_claims", 0)
    yield
    assert not claims._locked


def other(threads):
    """A tuner in another process, and the cores it was given."""
    running = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return running, tuple(map(int, running.stdout.readline().split()))


def test_tuners_have_cores_of_their_own_and_share_the_highest_when_none_is_left():
    mine = CoreClaim(1)
    first, cores = other(2)
    second, none_left = other(1)
    assert (mine.cores, cores, none_left) == ((2,), (0, 1), (2,))
    for each in (first, second):
        each.communicate()
    third, again = other(2)
    assert again == (0, 1)
    third.kill()
    third.communicate()
    mine.close()
    fourth, highest = other(1)
    assert highest == (2,)
    fourth.communicate()


def test_workers_of_one_tuner_share_its_cores_until_the_last_is_closed():
    one, two = CoreClaim(1), CoreClaim(2)
    assert (one.cores, two.cores) == ((2,), (1, 2))
    two.close()
    two.close()
    running, cores = other(1)
    assert cores == (0,)
    running.communicate()
    one.close()


def test_more_threads_than_cores_are_given_all_of_them():
    claim = CoreClaim(5)
    assert (claim.cores, claim.shared) == ((0, 1, 2), ())
    claim.close()


def test_a_claim_says_which_cores_it_shares():
    running, _ = other(1)
    claim = CoreClaim(3)
    assert (claim.cores, claim.shared) == ((0, 1, 2), (2,))
    claim.close()
    running.communicate()


def test_cores_that_somebody_allotted_are_not_claimed():
    claim = CoreClaim(1, (0,))
    assert (claim.cores, claims._locked) == ((0,), {})
    claim.close()


def test_somebody_elses_folder_is_left_alone(tmp_path):
    (tmp_path / f"{claims.PREFIX}{claims.os.geteuid()}").symlink_to(tmp_path)
    claim = CoreClaim(1)
    assert (claim.cores, claims._locked) == ((2,), {})
    claim.close()
