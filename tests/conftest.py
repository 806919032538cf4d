"""What tests share: the command line as a function, golden files, and a PostgreSQL server.

``pytest --update-golden`` writes the golden files anew; look at the difference before you keep it.
"""

import gc
import os
import shutil
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import kept_bytecode  # noqa: F401 - loaded first, for what it does
import pytest
from golden_files import GOLDEN
from hypothesis import settings
from postgres_support import NoServerError, new_database, own_postgres
from warm_pythons import COLD, CONVERTER, KEEPER, PROGRAM_CONVERTER, READER, WarmPython, stands_beside_tests

from autotune import cli
from autotune.core import care
from autotune.core.host.llvms import load_triton

load_triton()  # tests that import MLIR themselves come after it, too

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
settings.register_profile("untimed", deadline=None, max_examples=40)  # no test is about its own time
settings.load_profile("untimed")
LONG = ("test_wheel.py", "test_pages.py")  # half a minute each: begun last, they would keep one process busy alone


def pytest_configure():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job: children would, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write what is compared to tests/golden there instead"
    )


def pytest_sessionstart(session):
    """Processes of `-n` load the modules from different ones on: what one has compiled, the others read."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    modules = sorted(Path(__file__).parent.rglob("test_*.py"))
    sys.path += sorted({str(module.parent) for module in modules} - set(sys.path))
    first = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for module in modules[first:] + modules[:first]:
        with suppress(Exception, pytest.skip.Exception):  # told when the module is collected
            import_module(module.stem)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_collection_finish():
    gc.freeze()  # thousands of tests, of which nothing is garbage, would be looked through again and again
    gc.set_threshold(20_000)  # and what tests make seldom has cycles


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than cores: some always wait, for a process to end or for a time to pass."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Processes of `-n` begin with a part each, so that what a module prepares is hardly ever prepared in two."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """What is named and imported in tests is remembered in a folder of theirs; fonts stay where they are."""
    fonts = os.environ.get("MPLCONFIGDIR") or os.path.expanduser("~/.cache/matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("MPLCONFIGDIR", fonts)
        yield


@pytest.fixture(scope="session", autouse=True)
def little_care():
    """Hardly a test is about speed: those that are ask for full care."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(care.VARIABLE, "little")
        yield


@pytest.fixture(scope="session", autouse=True)
def lasting_roofs():
    """Roofs that are kept stand beside other tests, which slow the core by as much as they like."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.worker.limits_cache.is_valid", stands_beside_tests)
        yield


@pytest.fixture(scope="session", autouse=True)
def warm_keepers():
    """Keepers of this process start in milliseconds."""
    keepers = WarmPython((*KEEPER, *READER, "warm_reference"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.worker.isolation.keeper.start_keeping", keepers.start_keeping)
        yield keepers
    keepers.close()


@pytest.fixture(scope="module")
def cold_keepers():
    """Keepers start as the tool starts them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.worker.isolation.keeper.start_keeping", COLD)
        yield


@pytest.fixture
def cold_start(monkeypatch):
    """Keepers of one test start as the tool starts them, those of its module do not."""
    monkeypatch.setattr("autotune.worker.isolation.keeper.start_keeping", COLD)


@pytest.fixture(scope="session")
def converters():
    """What converters of ONNX models are forked from."""
    forked = WarmPython(CONVERTER)
    yield forked
    forked.close()


def forking_from(forked):
    """Let converters be forked from a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("payload.importers.converter.run_module", forked.run_module)
        yield


@pytest.fixture(scope="module")
def warm_converters(converters):
    """Converters of ONNX models start in milliseconds."""
    yield from forking_from(converters)


@pytest.fixture(scope="session")
def program_converters():
    """What converters of programs of PyTorch are forked from."""
    forked = WarmPython(PROGRAM_CONVERTER)
    yield forked
    forked.close()


@pytest.fixture(scope="module")
def warm_program_converters(program_converters):
    """Converters of programs of PyTorch start in milliseconds."""
    yield from forking_from(program_converters)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed; apt-get install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def autotune(monkeypatch, capsys):
    """Run a command; gives exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["autotune", *map(str, arguments)])
        return cli.run(), *capsys.readouterr()

    return run


@pytest.fixture
def refused(autotune):
    """Run a command that must be refused; gives the one line it says."""

    def run(*arguments, words=""):
        code, out, said = autotune(*arguments)
        assert code == 2, said
        assert out == ""
        assert said.endswith("\n")
        assert len(said.splitlines()) == 1, said
        assert said.startswith("autotune: ")
        assert words in said
        return said

    return run


@pytest.fixture
def golden(request):
    """Compare a text to a file of tests/golden, or write it there."""

    def check(name, text):
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path.name} must be in tests/golden; run pytest --update-golden and review it"
        assert text == path.read_text(), f"{path.name} differs; if that is meant, run pytest --update-golden"

    return check


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of this session's own, in a temporary folder; skips where none is installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed; pip install '.[postgres]'")
    try:
        with own_postgres("fsync=off", "max_connections=40") as server:
            yield server
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture
def postgres_url(postgres):
    """The URL of an empty database."""
    return new_database(postgres)
