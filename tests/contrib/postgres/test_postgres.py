"""A store on a PostgreSQL server: claims, what Optuna reads, and databases that are of something else."""

import re
import sys
import time

import optuna
import pytest
from postgres_support import execute, query, through
from store_support import SPACE, fill, make, numbers, one_line, start_writer, sweep_of

from autotune.contrib.postgres import server as module
from autotune.contrib.postgres.database import open_postgres
from autotune.core.errors import StoreError
from autotune.store.store import Store, trials
from autotune.store.sweep import to_record


def optuna_url(url):
    return url.replace("postgresql://", "postgresql+psycopg://")


class TestStart:
    @pytest.mark.parametrize(
        ("change", "law"),
        [
            (lambda url: through(url, 1), "must be a database that answers"),
            (lambda url: re.sub(r":[^:@]+@", ":sEcret@", url), "password authentication failed"),
            (lambda url: re.sub(r"/\w+$", "/nosuch", url), 'database "nosuch" does not exist'),
            (lambda url: re.sub(r":[^:@]+@", ":sEcret@sEcret@", url), "with one @"),
            (lambda url: re.sub(r":\d+/.*", ":sEcret", url), "a store's URL must be"),
            (lambda url: re.sub(r"/\w+$", "", url), "a store's URL must be"),
        ],
    )
    def test_what_is_wrong_is_one_line_without_the_password(self, postgres, postgres_url, refused, change, law):
        wrong = change(postgres_url)
        for verb in (["inspect", wrong], ["lab", "copy", wrong, "s"]):
            said = refused(*verb, words=law)
            assert postgres.password not in said
            assert "sEcret" not in said

    def test_sweep_does_not_wait_for_a_server_that_was_never_there(self, postgres_url):
        with pytest.raises(StoreError, match="refused") as error:
            Store.open(through(postgres_url, 1), pause=pytest.fail)
        one_line(error)

    def test_missing_driver_names_the_extra(self, postgres_url, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(StoreError, match=re.escape("[postgres]")):
            Store.open(postgres_url)

    def test_server_that_is_too_old_is_refused(self, postgres_url, monkeypatch):
        monkeypatch.setattr(module, "LEAST_VERSION", (99,))
        with pytest.raises(StoreError, match="must be 99 or newer") as error:
            Store.open(postgres_url)
        one_line(error)

    def test_database_of_something_else_is_refused_and_left_alone(self, postgres_url):
        execute(postgres_url, "create table customers (name text)")
        for create in (True, False):
            with pytest.raises(StoreError, match="holds customers"):
                Store.open(postgres_url, create=create)
        assert query(postgres_url, "select tablename from pg_tables where schemaname = 'public'") == [("customers",)]

    def test_studies_of_somebody_else_are_refused(self, postgres_url):
        optuna.create_study(storage=optuna_url(postgres_url), study_name="mine")
        with pytest.raises(StoreError, match="autotune header"):
            Store.open(postgres_url)

    @pytest.mark.parametrize(
        ("change", "law"),
        [
            ("update alembic_version set version_num = 'v99'", "optuna"),
            ("update studies set study_name = 'autotune/format-99' where study_id = 1", "must have format 1"),
        ],
    )
    def test_another_version_is_refused_in_one_line(self, postgres_url, change, law):
        fill(postgres_url, 1)
        execute(postgres_url, change)
        for call in (lambda: Store.open(postgres_url), lambda: trials(postgres_url)):
            with pytest.raises(StoreError, match=law) as error:
                call()
            one_line(error)

    def test_tuners_that_make_one_store_at_once_make_one(self, postgres_url):
        writers = [start_writer(postgres_url, 5)[0] for _ in range(3)]
        for process in writers:
            process.join()
        assert [process.exitcode for process in writers] == [0, 0, 0]
        assert numbers(postgres_url) == list(range(5))

    def test_signs_in_passwords_are_written_encoded(self, postgres, postgres_url):
        execute(postgres_url, "create role odd login superuser password 'a@b/{c}:%d'")
        url = postgres_url.replace(f"autotune:{postgres.password}", "odd:a%40b%2F%7Bc%7D%3A%25d")
        fill(url, 2)
        assert numbers(url) == [0, 1]


class TestClaims:
    def test_claim_is_of_one_tuner_until_it_is_given_back(self, postgres_url):
        with Store.open(postgres_url) as one, Store.open(postgres_url) as two:
            mine, theirs = sweep_of(one), sweep_of(two)
            assert mine.claim("key0")
            assert not theirs.claim("key0")
            mine.release("key0")
            assert theirs.claim("key0")
            theirs.add(make(0), SPACE)
            theirs.release("key0")
            assert not mine.claim("key0"), "it is recorded"

    def test_other_machines_may_try_the_same(self, postgres_url):
        with Store.open(postgres_url) as one, Store.open(postgres_url) as two:
            assert sweep_of(one).claim("key0")
            assert sweep_of(two, machine="other").claim("key0")

    def test_claims_of_a_killed_tuner_are_free(self, postgres_url):
        process, told = start_writer(postgres_url, 0, "key7")
        assert told.recv() == "key7"
        with Store.open(postgres_url) as store:
            sweep = sweep_of(store)
            assert not sweep.claim("key7")
            process.kill()
            end = time.monotonic() + 10  # until the server notices
            while not (claimed := sweep.claim("key7")) and time.monotonic() < end:
                time.sleep(0.01)
            assert claimed

    def test_trial_that_somebody_else_recorded_meanwhile_is_not_recorded_twice(self, postgres_url):
        with Store.open(postgres_url) as one, Store.open(postgres_url) as two:
            mine, theirs = sweep_of(one), sweep_of(two)
            theirs.add(make(0), SPACE)
            mine.add(make(0, "crashed"), SPACE)
            assert [trial.outcome for trial in mine.recorded] == ["ok"]


def test_record_is_what_optuna_would_have_written(postgres_url):
    kinds = [make(0), make(1, "crashed", diagnostic="\udcff\0"), make(2, "non-finite", max_error=float("inf"))]
    records = [to_record(trial, SPACE) for trial in kinds]
    database = open_postgres(postgres_url, create=True, writable=True)
    log = database.log("ours", "trial")
    for record in records:
        log.add(record, lambda fresh: False)
    database.server.close()
    theirs = optuna.create_study(storage=optuna_url(postgres_url), study_name="theirs")
    theirs.add_trials(records)
    ours = optuna.load_study(storage=optuna_url(postgres_url), study_name="ours")
    for mine, other in zip(ours.trials, theirs.trials, strict=True):
        for name in ("number", "state", "values", "params", "distributions", "user_attrs", "datetime_complete"):
            assert getattr(mine, name) == getattr(other, name), name
        assert mine.datetime_start == other.datetime_start
        assert list(mine.system_attrs) == ["autotune/brief-1"]
    assert ours.best_trial.number == theirs.best_trial.number


def test_reader_needs_no_right_to_write(postgres, postgres_url):
    fill(postgres_url, 2)
    execute(
        postgres_url,
        "create role looker login password 'only'",
        "grant select on all tables in schema public to looker",
    )
    url = postgres_url.replace(f"autotune:{postgres.password}", "looker:only")
    assert trials(url)["number"].tolist() == [0, 1]
    with pytest.raises(StoreError, match="permission denied"):
        fill(url, 1, first=2)


def test_location_in_a_message_has_no_password(refused, postgres_url, postgres):
    said = refused("inspect", postgres_url, "--store", postgres_url, words="give one store")
    said += refused("report", postgres_url, "--explain", words="go with a bundle")
    assert postgres.password not in said
