"""Teams: what a slot announces, which machines of a kind are compared, and cores that two slots never share."""

import pickle
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

from autotune.contrib.cluster.cluster import ClusterMember
from autotune.contrib.cluster.kinds import kinds_of, open_team
from autotune.contrib.cluster.open_slot import software, take_cores
from autotune.contrib.cluster.slot import HERE, Slot, SlotRequest, perform, read_delivery
from autotune.contrib.cluster.team import Team, compare
from autotune.core.errors import MachineError, OptionError
from autotune.core.evaluator import Evaluation
from autotune.core.trial import Samples

SLOT = Slot("92578e66aa00bb11", software(1), "avx512f", 1, 0.012, 1.1e-4, 3.2e-4)


def member(host, number=0, **changed):
    return ClusterMember(f"tcp://{host}:{number}", f"{host}-{number}", host, replace(SLOT, **changed))


class MadeUpCluster:
    where, grows = "tcp://head:8786", True

    def __init__(self, *members):
        self.there = list(members)

    def members(self):
        return self.there

    def facts(self, addresses):
        return {address: {"machine": {}} for address in addresses}


def test_what_a_slot_announces_is_read_back():
    assert Slot.of(SLOT.resources) == SLOT
    assert Slot.of({"GPU": 1.0}) is None
    assert SLOT.resources[SLOT.kind] == 1.0


def test_a_machine_that_is_too_slow_is_left_out_with_a_sentence():
    kept, (sentence,) = compare([member("a"), member("b", memory_seconds=5e-4)])
    assert [each.host for each in kept] == ["a"]
    assert "machine b is left out: it reads memory 1.56 x slower" in sentence


def test_a_machine_that_is_a_little_slower_is_kept_with_a_sentence():
    kept, (sentence,) = compare([member("a"), member("b", compute_seconds=1.2e-4)])
    assert {each.host for each in kept} == {"a", "b"}
    assert "its times are divided by" in sentence


def test_a_noisy_machine_is_left_out_where_there_is_a_calm_one_and_the_calmest_come_first():
    kept, (sentence,) = compare([member("a", noise_floor=0.3), member("b", noise_floor=0.05), member("c")])
    assert [each.host for each in kept] == ["c", "b"]
    assert "differ by 30%" in sentence
    assert len(compare([member("a", noise_floor=0.3), member("b", noise_floor=0.4)])[0]) == 2


def test_slots_of_one_machine_are_never_held_against_each_other():
    kept, sentences = compare([member("a", 1), member("a", 2, compute_seconds=9e-4, noise_floor=0.5)])
    assert (len(kept), sentences) == (2, [])


def test_times_are_those_of_the_fastest_machine_of_the_team():
    team = Team(MadeUpCluster(member("a"), member("b")), SLOT, None, 60.0, [].append)
    slow = Evaluation("ok", Samples((2e-3,) * 4, (1.2e-4,) * 4, 1, 1.2e-4, 1.2e-4))
    fast = Evaluation("ok", Samples((1e-3,) * 4, (1.0e-4,) * 4, 1, 1.0e-4, 1.0e-4))
    assert team.normalised(fast, "fast").samples.normalised == pytest.approx(1e-3)
    assert team.normalised(slow, "slow").samples.normalised == pytest.approx(2e-3 / 1.2)


def test_a_kind_is_named_where_there_are_several_and_other_software_is_refused():
    other, old = member("b", fingerprint="0ff0"), member("c", software="autotune 0.0.9")
    cluster, notes = MadeUpCluster(member("a"), other, old), []
    with pytest.raises(OptionError, match="pass --for: 0ff0, 92578e66aa00bb11"):
        open_team(cluster, "", 1, 60.0, notes.append)
    assert [slot.fingerprint for slot in kinds_of(cluster, 1, notes.append)] == ["0ff0", SLOT.fingerprint]
    assert "tcp://c:0 is not used: it must have the software of the tuner" in notes[0]


def test_where_nobody_can_be_used_one_line_says_why(monkeypatch):
    monkeypatch.setattr("autotune.contrib.cluster.kinds.WAIT_SECONDS", 0.0)
    monkeypatch.setattr("autotune.contrib.cluster.kinds.LOOK_SECONDS", 0.01)
    for there, words in (
        ([], "none joined; join one by `autotune lab join tcp://head:8786`"),
        ([member("c", software="old")], "tcp://c:0: it must have the software"),
        ([member("a", threads=2, software=software(2))], "a slot must have 1 thread"),
    ):
        with pytest.raises(MachineError, match=words):
            kinds_of(MadeUpCluster(*there), 1, [].append)


def test_two_slots_never_take_the_same_core_and_give_cores_back():
    with ExitStack() as mine:
        assert take_cores((900001, 900002), 1, mine) == (900002,)
        with ExitStack() as other:
            assert take_cores((900001, 900002), 1, other) == (900001,)
            with pytest.raises(MachineError, match="0 of 2 are free"):
                take_cores((900001, 900002), 1, other)
        with ExitStack() as third, pytest.raises(MachineError, match="needs 2 core"):
            take_cores((900001, 900002), 2, third)
    with ExitStack() as again:
        assert take_cores((900001, 900002), 2, again) == (900001, 900002)


def test_cores_of_a_process_that_is_killed_are_free():
    code = (
        "import contextlib, time; from autotune.contrib.cluster.open_slot import take_cores; "
        "stack = contextlib.ExitStack(); take_cores((900003,), 1, stack); print('taken', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "taken\n"
        with ExitStack() as stack, pytest.raises(MachineError):
            take_cores((900003,), 1, stack)
        holder.kill()
        holder.wait()
    with ExitStack() as stack:
        assert take_cores((900003,), 1, stack) == (900003,)


def test_a_process_without_a_slot_says_so_whatever_is_asked():
    pytest.importorskip("distributed")  # which teaches pickle to keep tracebacks
    assert HERE.open is None
    request = SlotRequest("evaluate")
    delivery = read_delivery(perform(pickle.dumps(request)), request)
    assert isinstance(delivery.answer.error, MachineError)
    assert "must have a slot" in str(delivery.answer.error)


def test_names_of_a_cluster_load_neither_dask_nor_mlir():
    code = "import sys, autotune.contrib.cluster.slot; print({'distributed', 'dask', 'mlir'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
