"""Store in a SQLite database through Optuna, for one machine."""

from pathlib import Path

import sqlalchemy
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection

from autotune.core.errors import StoreError
from autotune.core.printable import one_line
from autotune.store.address import shown
from autotune.store.header import HEADER, check_header

OPTUNA = {"alembic_version", "studies", "trials", "version_info"}  # tables that every version of Optuna creates
MOST_NAME = 60  # letters of a table's name in a message


def open_database(url: str, create: bool) -> BaseStorage:
    """Connect to a database; write the header to an empty one if `create`.

    Raises:
        StoreError: The URL is invalid, or the database is missing or used for something else.
    """
    try:
        parsed = sqlalchemy.make_url(url)
    except ValueError:  # not chained: its message may contain a password
        parsed = None
    if parsed is None:
        raise StoreError("a store's URL must be DRIVER://USER:PASSWORD@HOST:PORT/DATABASE, it is not; mend it")
    file = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if file and not create and not Path(file).is_file():
        raise StoreError(f"store must exist to be read; {file} does not; run `autotune tune` or pass --store PATH")
    check_tables(parsed, shown(url))
    storage = RDBStorage(url, skip_table_creation=not create)
    studies = storage.get_all_studies()
    if studies or not create:
        check_header(shown(url), min(studies).study_name if studies else None)
    else:
        storage.create_new_study([StudyDirection.MINIMIZE], HEADER)
    return storage


def check_tables(url: sqlalchemy.URL, where: str) -> None:
    """Refuse a database with foreign tables only, to which Optuna would add its own.

    Raises:
        StoreError: The database has tables, but none of Optuna's.
    """
    engine = sqlalchemy.create_engine(url)
    try:
        tables = set(sqlalchemy.inspect(engine).get_table_names())
    finally:
        engine.dispose()
    if tables and tables.isdisjoint(OPTUNA):  # one of them is enough: another tuner may be creating them now
        raise StoreError(
            f"a store's database must be its own, {where} holds {one_line(min(tables))[:MOST_NAME]}; name an empty one"
        )
