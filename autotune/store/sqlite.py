"""A store in a database that Optuna alone opens: SQLite, for one machine."""

from pathlib import Path

import sqlalchemy
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection

from autotune.core.errors import StoreError
from autotune.core.printable import one_line
from autotune.store.address import shown
from autotune.store.header import HEADER, check_header

OPTUNA = {"alembic_version", "studies", "trials", "version_info"}  # tables that every version of Optuna makes
MOST_NAME = 60  # letters of a table's name in a message


def open_database(url: str, create: bool) -> BaseStorage:
    """Connect to a database; an empty one gets its header if `create`.

    Raises:
        StoreError: The URL is none, or the database is missing or of something else.
    """
    try:
        parsed = sqlalchemy.make_url(url)
    except ValueError:  # not as a cause: it may quote a password
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
    """Raise unless a database has tables of Optuna's or none: Optuna would write its own beside those of others.

    Raises:
        StoreError: The database holds other tables alone.
    """
    engine = sqlalchemy.create_engine(url)
    try:
        found = set(sqlalchemy.inspect(engine).get_table_names())
    finally:
        engine.dispose()
    if found and found.isdisjoint(OPTUNA):  # of which another tuner may just be making the first
        raise StoreError(
            f"a store's database must be its own, {where} holds {one_line(min(found))[:MOST_NAME]}; name an empty one"
        )
