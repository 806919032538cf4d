"""A server that goes away, is full, or whose answers are lost: nothing finished is lost, nothing is recorded twice."""

import time
from contextlib import suppress

import pytest
from postgres_support import Dropper, execute, query, through
from store_support import SPACE, fill, make, numbers, one_line, start_writer, sweep_of

from autotune.core.errors import StoreError
from autotune.store.store import Store


def test_restarted_server_is_waited_for_and_claims_are_kept(postgres, postgres_url):
    said = []

    def pause(sentence):
        said.append(sentence)
        if len(said) == 2:
            postgres.start()

    with Store.open(postgres_url, pause=pause) as one:
        mine = sweep_of(one)
        mine.add(make(0), SPACE)
        assert mine.claim("key1")
        postgres.stop()
        mine.add(make(1), SPACE)
        assert mine.claim("key2")
        with Store.open(postgres_url) as two:
            theirs = sweep_of(two)
            assert [trial.number for trial in theirs.recorded] == [0, 1]
            assert not theirs.claim("key2")
    assert len(said) == 2
    assert all("must be a database that answers" in line and "the sweep waits" in line for line in said)
    assert postgres.password not in "".join(said)


def test_server_that_goes_away_is_an_error_where_nobody_waits(postgres, postgres_url):
    with Store.open(postgres_url) as store:
        sweep = sweep_of(store)
        postgres.stop()
        try:
            with pytest.raises(StoreError, match="start or mend it") as error:
                sweep.add(make(0), SPACE)
        finally:
            postgres.start()
        assert postgres.password not in one_line(error)
        sweep.add(make(0), SPACE)
    assert numbers(postgres_url) == [0]


def test_full_server_is_waited_for(postgres_url):
    fill(postgres_url, 1)
    execute(
        postgres_url,
        """create function full_disk() returns trigger language plpgsql as $$
        begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$""",
        "create trigger full_disk before insert on trial_user_attributes execute function full_disk()",
    )
    said = []

    def pause(sentence):
        said.append(sentence)
        if len(said) == 2:
            execute(postgres_url, "drop trigger full_disk on trial_user_attributes")

    with Store.open(postgres_url, pause=pause) as store:
        sweep_of(store).add(make(1), SPACE)
    assert numbers(postgres_url) == [0, 1]
    assert len(said) == 2
    assert said[0].startswith("store must have room; the disk of the server of postgresql://autotune:***@")


def test_answer_that_is_lost_does_not_record_a_trial_twice(postgres, postgres_url):
    said = []
    with Dropper(postgres.port) as proxy, Store.open(through(postgres_url, proxy.port), pause=said.append) as store:
        sweep = sweep_of(store)
        proxy.armed = True
        sweep.add(make(0), SPACE)
        sweep.add(make(1), SPACE)
        assert [trial.number for trial in sweep.recorded] == [0, 1]
    assert len(said) == 1
    assert query(postgres_url, "select count(*) from trial_user_attributes") == [(2,)]


def test_no_finished_trial_is_lost_or_repeated_whatever_dies(postgres, postgres_url):
    fill(postgres_url, 0)
    finished = set()
    for moment in (0.15, 0.0, 0.4, 0.25):
        process, told = start_writer(postgres_url, 10_000)
        finished.add(told.recv())
        time.sleep(moment)
        postgres.stop()
        postgres.start()
        time.sleep(moment)
        process.kill()
        process.join()
        with suppress(EOFError):
            while True:
                finished.add(told.recv())
    found = [trial.number for trial in recorded(postgres_url)]
    assert len(found) == len(set(found))
    assert finished <= set(found)
    assert len(finished) > 10
    assert set(found) == set(range(len(found)))


def recorded(url):
    with Store.open(url) as store:
        return sweep_of(store).recorded
