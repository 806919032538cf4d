"""A damaged store: the error names the line, and the file is left alone."""

import os

import pytest
from store_support import fill, one_line

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
