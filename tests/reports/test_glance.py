"""What `inspect` shows of a store on a server is what it shows of a file, and it reads no more than that."""

import json

import pytest
from postgres_support import execute
from sweep_support import SPACE, fill_store, fill_wide_store, make_trial

from autotune.reports import glance as module
from autotune.reports.glance import glance
from autotune.store.copying import copy_store
from autotune.store.store import Store


@pytest.fixture
def both(tmp_path, postgres_url):
    """One store, in a file and on a server: two payloads, one of two machines, default configs and duplicates."""
    path = fill_store(tmp_path / "s", tasks=("first", "second"))
    fill_wide_store(path)
    fill_store(path, payload="other", trials=9, factor=2.0, summary=False)
    fill_store(path, payload="other", trials=25, machine="n", factor=1.5)
    default = make_trial("first", 0).config
    with Store.open(path) as store:
        sweep = store.sweep("mine", "third", {"machine": "m"}, flops=3e7, default=default)
        for number in (4, 3, 0, 14):
            sweep.add(make_trial("third", number), SPACE)
        store.sweep("empty", "none", {"machine": "m"}, default=default)
    copy_store(path, postgres_url)
    return path, postgres_url


def shown(autotune, place, *options):
    code, out, said = autotune("inspect", place, *options)
    assert (code, said) == (0, "")
    return out


@pytest.mark.parametrize(
    "options",
    [(), ("--full",), ("--json",), ("--top", 4), ("--payload", "other"), ("--where", "tile_m == 8")],
)
def test_what_is_shown_is_the_same(both, autotune, options):
    path, url = both
    assert shown(autotune, url, *options) == shown(autotune, path, *options)


def test_records_without_a_line_of_numbers_are_read_whole(both, autotune):
    path, url = both
    execute(url, "delete from trial_system_attributes where trial_id % 3 = 0")
    assert shown(autotune, url, "--json") == shown(autotune, path, "--json")
    execute(url, "delete from trial_system_attributes")
    assert shown(autotune, url) == shown(autotune, path)


def test_only_what_is_shown_is_read_whole(both, monkeypatch):
    read, real = [], module.read_trials
    monkeypatch.setattr(module, "read_trials", lambda connection, rows: (read.extend(rows), real(connection, rows))[1])
    found = glance(both[1], "other", 1)
    assert len(found.frame) == 34
    assert len(read) == 2
    assert found.frame["config"].notna().sum() == 2


def test_payload_that_is_not_there_is_one_line(both, refused):
    assert "other" in refused("inspect", both[1], "--payload", "nosuch", words="must hold trials of 'nosuch'")


def test_store_without_trials_says_so(postgres_url, autotune):
    with Store.open(postgres_url):
        pass
    assert "no trials" in shown(autotune, postgres_url)
    assert json.loads(shown(autotune, postgres_url, "--json")) == []
