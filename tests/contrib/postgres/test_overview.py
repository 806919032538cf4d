"""What `inspect` shows of a store on a server is what it shows of a file, and it reads no more than that."""

import json

import pytest
from postgres_support import execute, new_database
from sweep_support import SPACE, fill_store, fill_wide_store, make_trial

from autotune.contrib.postgres import brief
from autotune.reports.holdings import keep, read_holdings
from autotune.reports.streaming import glance
from autotune.store.copying import copy_store
from autotune.store.store import Store


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store in a file: two payloads, one of two machines, default configs and duplicates."""
    path = fill_store(tmp_path_factory.mktemp("store") / "s", tasks=("first", "second"))
    fill_wide_store(path)
    fill_store(path, payload="other", trials=9, factor=2.0, summary=False)
    fill_store(path, payload="other", trials=25, machine="n", factor=1.5)
    default = make_trial("third", 4).config
    with Store.open(path) as store:
        sweep = store.sweep("mine", "third", {"machine": "m"}, flops=3e7, default=default)
        for number in (0, 3, 4, 14):
            sweep.add(make_trial("third", number), SPACE)
        store.sweep("empty", "none", {"machine": "m"}, default=default)
    return path


@pytest.fixture(scope="module")
def both(path, postgres):
    """The store in the file, and on a server; nobody writes to them."""
    url = new_database(postgres)
    copy_store(path, url)
    return path, url


def shown(autotune, place, *options):
    code, out, said = autotune("inspect", place, *options)
    assert (code, said) == (0, "")
    return out


def figures(text):
    """What --json printed, without the last digits of sums: their order is the server's own."""
    return json.loads(text, parse_float=lambda number: f"{float(number):.12g}")


@pytest.mark.parametrize("options", [(), ("--full",), ("--top", 4), ("--payload", "other"), ("--where", "tile_m == 8")])
def test_what_is_shown_is_the_same(both, autotune, options):
    path, url = both
    assert shown(autotune, url, *options) == shown(autotune, path, *options)


@pytest.mark.parametrize("options", [(), ("--top", 1), ("--top", 50), ("--where", "outcome == 'ok'")])
def test_what_is_told_is_the_same(both, autotune, options):
    path, url = both
    assert figures(shown(autotune, url, "--json", *options)) == figures(shown(autotune, path, "--json", *options))


def test_trials_are_written_as_csv_sweep_by_sweep(both, autotune, tmp_path):
    path, url = both
    query = "tile_m == 8 and outcome == 'ok'"
    for place, name in ((path, "file"), (url, "server")):
        frame = read_holdings(place).frame
        shown(autotune, place, "--csv", tmp_path / name)
        assert (tmp_path / name).read_text() == frame.to_csv(index=False)
        shown(autotune, place, "--csv", tmp_path / name, "--where", query)
        assert (tmp_path / name).read_text() == keep(frame, query).to_csv(index=False)


def test_csv_is_not_begun_where_nothing_is_left(both, refused, tmp_path):
    refused("inspect", both[1], "--csv", tmp_path / "csv", "--where", "tile_m > 99", words="true of none of")
    refused("inspect", both[1], "--csv", tmp_path / "csv", "--where", "nosuch > 99", words="--where must be")
    assert not (tmp_path / "csv").exists()


def test_records_without_a_line_of_numbers_are_read_whole(path, postgres_url, autotune):
    url = postgres_url
    copy_store(path, url)
    execute(url, "delete from trial_system_attributes where trial_id % 3 = 0")
    assert figures(shown(autotune, url, "--json")) == figures(shown(autotune, path, "--json"))
    execute(url, "delete from trial_system_attributes")
    assert shown(autotune, url) == shown(autotune, path)


def test_only_what_is_shown_is_read_whole(both, monkeypatch):
    read, real = [], brief.read_values
    monkeypatch.setattr(brief, "read_values", lambda *asked: (read.extend(asked[1]), real(*asked))[1])
    found = glance(both[1], "other", 1)
    assert sum(each.course.trials for each in found.figures) == 34
    assert len(read) == 2
    assert [len(each.best) for each in found.figures] == [1, 1]


def test_payload_that_is_not_there_is_one_line(both, refused):
    assert "other" in refused("inspect", both[1], "--payload", "nosuch", words="must hold trials of 'nosuch'")


def test_store_without_trials_says_so(postgres_url, autotune):
    with Store.open(postgres_url):
        pass
    assert "no trials" in shown(autotune, postgres_url)
    assert json.loads(shown(autotune, postgres_url, "--json")) == []
