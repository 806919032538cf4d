"""A damaged store: the error names the line, and the file is left alone."""

import os
import re

import pytest
from store_support import SPACE, fill, make, one_line, sweep_of

from autotune.core.errors import StoreError
from autotune.store.store import Store, trials


@pytest.mark.parametrize("bad", [b"garbage", b"[]", b"{}", b"\xff\xfe\x00"])
def test_damaged_line_is_named_and_the_file_is_left_alone(path, bad):
    fill(path, 2)
    lines = path.read_bytes().splitlines()
    lines[3] = bad
    damaged = b"\n".join(lines) + b"\n"
    path.write_bytes(damaged)
    for call in (lambda: Store.open(path), lambda: trials(path)):
        with pytest.raises(StoreError, match=r"line 4 .*move it away or pass --store PATH") as error:
            call()
        assert str(path) in one_line(error)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\0\1\2",
        os.urandom(300),
        b"hello",
        b"hello\n",
        b"{}\n",
        b'{"op_code":0,"worker_id":"x","study_name":"mine"}\n',
        b'{"op_code":0,"worker_id":"x","study_name":"autotune/format-99"}\n',
    ],
)
def test_file_that_is_no_store_is_refused_and_left_alone(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    for call in (lambda: Store.open(path), lambda: trials(path)):
        with pytest.raises(StoreError, match=r"line 1 .*--store PATH") as error:
            call()
        assert str(path) in one_line(error)
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_record_that_makes_no_sense_is_named(path):
    fill(path, 1)
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"worker_id":"x"}\n')
    with pytest.raises(StoreError, match="line 5 does not") as error:
        Store.open(path)
    assert str(path) in one_line(error)
    Store.open(path.with_name("other")).close()


def test_incomplete_trial_is_named(path):
    fill(path, 1)
    path.write_bytes(path.read_bytes().replace(b'"samples":', b'"simples":'))
    with pytest.raises(StoreError, match="must be complete"):
        trials(path)


def test_trial_of_a_time_that_is_none_is_named(path):
    fill(path, 1)
    path.write_bytes(path.read_bytes().replace(b"[0.002,", b"[5e-324,"))
    with pytest.raises(StoreError, match="must be complete"):
        trials(path)


OF_OTHER_TYPES = {
    "a key that is an object": (rb'"key":"[^"]*"', b'"key":{}'),
    "times that are words": (rb'"seconds":\[[^]]*\]', b'"seconds":["0.1","0.2"]'),
    "an error that is a list": (rb'"max_error":[^,]*', b'"max_error":[]'),
    "calls that are huge": (rb'"calls":[0-9]+', b'"calls":1e308'),
    "a phase that is a word": (rb'"phases":\{[^}]*\}', b'"phases":{"jit":"x"}'),
    "a knob beyond 64 bits": (rb'"config":\{("[^"]*"):[^,}]*', rb'"config":{\1:1' + b"0" * 30),
    "a sweep that says nothing": (rb'"sweep":\{.*\}\}\}', b'"sweep":null}}'),
    "a sweep of no number of bytes": (rb'"bytes":[^,}]*', b'"bytes":"x"'),
    "a sweep whose default is none": (rb'"flops":', b'"default":[],"flops":'),
    "attributes that are a number": (rb'"user_attrs":\{"trial":.*\},"system_attrs"', b'"user_attrs":3,"system_attrs"'),
    "a study without a name": (rb'"study_name":"[^"]*/[^"f]*"', b'"study_name":""'),
}


@pytest.mark.parametrize("name", OF_OTHER_TYPES)
def test_what_is_of_another_type_is_one_line(path, name):
    fill(path, 2)
    pattern, other = OF_OTHER_TYPES[name]
    changed, count = re.subn(pattern, other, path.read_bytes())
    assert count
    path.write_bytes(changed)
    with pytest.raises(StoreError) as error:
        trials(path)
    assert str(path) in one_line(error)


def test_a_summary_that_is_no_object_is_one_line(path):
    with Store.open(path) as store:
        store.write_summary("nano", {})
    path.write_bytes(re.sub(rb'"summary":\{[^}]*\}', b'"summary":3', path.read_bytes()))
    with Store.read(path) as store, pytest.raises(StoreError, match=r"a summary in .* must be an object, it is 3"):
        store.summaries()


DEEP = b"[" * 100_000
SENSELESS = [
    DEEP + b"\n",
    b'{"a":' * 50_000 + b"\n",
    b"{}\n",
    b'{"op_code":4,"worker_id":"x"}\n',
    b'{"op_code":99,"worker_id":"x"}\n',
]


@pytest.mark.parametrize("line", [2, 3, 5])
@pytest.mark.parametrize("bad", SENSELESS, ids=["deep list", "deep object", "no record", "incomplete", "unknown"])
def test_the_line_that_is_named_is_the_one_that_is_damaged(path, bad, line):
    fill(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = bad
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(StoreError, match=f"line {line} ") as error:
            Store.open(path, create=create, exclusive=create)
        assert str(path) in one_line(error)
    assert path.read_bytes() == before


def test_a_last_line_too_deep_to_read_is_cut_off_as_a_torn_one(path):
    fill(path, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + DEEP)
    Store.open(path).close()
    assert path.read_bytes() == whole


def rearranged(lines):
    """What editors, copies and merges make of a file's lines: header, study, its sweep, trials, another such study."""
    return {
        "a trial twice": [*lines[:4], lines[3], *lines[4:]],
        "a range twice": [*lines[:5], *lines[3:5], *lines[5:]],
        "at the end again": [*lines, lines[4]],
        "a study twice": [*lines[:2], *lines[1:]],
        "two stores in one": [*lines, *lines],
        "without the first study": [lines[0], *lines[2:]],
        "without both studies": [line for line in lines if b'"op_code":0' not in line or line is lines[0]],
        "without the first study and its sweep": [lines[0], *lines[3:]],
        "trial before its study": [lines[0], lines[3], *lines[1:3], *lines[4:]],
        "studies swapped": [lines[0], lines[6], *lines[2:6], lines[1], *lines[7:]],
        "a trial of another file": [lines[0], lines[3].replace(b'"study_id":1', b'"study_id":0'), *lines[1:]],
        "an attribute of no trial": [*lines, b'{"op_code":8,"worker_id":"x","trial_id":99,"user_attr":{"a":1}}\n'],
    }


@pytest.fixture
def two_sweeps(path):
    """Lines of a store of two sweeps: a header, and each three trials behind its study."""
    with Store.open(path) as store:
        for machine in ("m", "n"):
            sweep = sweep_of(store, machine=machine)
            for number in range(3):
                sweep.add(make(number), SPACE)
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("what", rearranged([b""] * 20))
def test_lines_that_do_not_belong_together_are_refused_in_one_line(path, two_sweeps, what):
    damaged = b"".join(rearranged(two_sweeps)[what])
    path.write_bytes(damaged)
    for call in (lambda: Store.open(path), lambda: trials(path)):
        with pytest.raises(StoreError, match=r"line \d+ .*move it away or pass --store PATH") as error:
            call()
        assert str(path) in one_line(error)
    assert path.read_bytes() == damaged


def test_ends_of_lines_of_another_system_change_nothing(path, two_sweeps):
    path.write_bytes(b"".join(two_sweeps).replace(b"\n", b"\r\n"))
    assert len(trials(path)) == 6


def test_two_processes_that_create_the_same_study_at_once_are_no_damage(path, two_sweeps):
    again = two_sweeps[1].replace(b'"worker_id":"', b'"worker_id":"other')
    path.write_bytes(b"".join([*two_sweeps[:2], again, *two_sweeps[2:]]))
    assert len(trials(path)) == 6
    with Store.open(path) as store:
        assert [len(sweep.trials()) for sweep in store.sweeps()] == [3, 3]


OF_A_STRANGER = [b'{"op_code":[],"worker_id":"x"}', b'{"op_code":4,"worker_id":"x"}', b'{"op_code":99,"worker_id":"x"}']


@pytest.mark.parametrize("line", OF_A_STRANGER, ids=["a list", "incomplete", "unknown"])
def test_a_record_that_makes_no_sense_is_one_line_in_the_middle_of_a_sweep(path, line):
    with Store.open(path) as store:
        sweep = sweep_of(store)
        sweep.add(make(0), SPACE)
        with path.open("ab") as file:
            file.write(line + b"\n")
        with pytest.raises(StoreError) as error:
            sweep.add(make(1), SPACE)
        assert str(path) in one_line(error)


@pytest.mark.parametrize("left", [0, 100])
def test_a_store_that_has_become_shorter_is_named_and_nothing_is_written_to_it(path, left):
    with Store.open(path) as store:
        sweep = sweep_of(store)
        sweep.add(make(0), SPACE)
        os.truncate(path, left)
        for call in (sweep.refresh, lambda: sweep.add(make(1), SPACE)):
            with pytest.raises(StoreError, match=r"must only grow; .* has become shorter") as error:
                call()
            assert str(path) in one_line(error)
    assert path.stat().st_size == left
