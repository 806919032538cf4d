"""What tests share: the command line as a function, and golden files.

``pytest --update-golden`` writes the golden files anew; look at the difference before you keep it.
"""

import sys
from pathlib import Path

import pytest

from autotune import cli

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write what is compared to tests/golden there instead"
    )


@pytest.fixture
def autotune(monkeypatch, capsys):
    """Run a command; gives exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["autotune", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        return done.value.code, *capsys.readouterr()

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
