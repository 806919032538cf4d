"""Where the program may find itself: under limits of memory, in a folder that is gone, without asserts."""

import errno
import json
import os
import py_compile
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from autotune.cli import verbs
from autotune.cli.help import GroupedOptions
from autotune.cli.say import complain
from autotune.cli.system_errors import sentence_of
from autotune.core.host.address_space import LEAST
from autotune.core.host.files import too_large, why_refused
from autotune.core.host.machine import this_machine
from autotune.worker.worker import Worker

BUNDLE = Path(__file__).parents[2] / "results/icelake-3c3bf114/bundles/matmul_m64_n64_k64"
ONE_CALL = """
import resource

from autotune.worker.worker import Worker
with Worker() as worker:
    print(tuple(worker.call(resource.getrlimit, resource.RLIMIT_AS)))
"""
ONE_MEASUREMENT = """
import autotune as at
task = at.tasks("matmul,m=8,n=8,k=8")[0]
print(list(at.measure(task, [task.family().default()], samples=3)["outcome"]), __debug__)
"""
MAIN = "from autotune.cli import main; main()"


def run(code, *arguments, limit=None, **options):
    """Run Python code, under a limit of address space in KiB."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    if limit is not None:
        command = ["sh", "-c", f'ulimit -v {limit} && exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_a_hard_limit_of_the_system_is_kept_and_no_obstacle():
    limit = 3_000_000
    done = run(ONE_CALL, limit=limit)
    assert done.stdout == f"{(limit << 10, limit << 10)}\n", done.stderr


def test_a_good_bundle_is_right_under_a_limit_of_memory():
    done = run(MAIN, "replay", BUNDLE, limit=1_500_000)
    assert "verified, max error" in " ".join(done.stdout.split()), done.stdout + done.stderr
    assert "wrong" not in done.stdout


@pytest.mark.parametrize("limit", [100_000, 300_000, 450_000, LEAST // 1024 - 1])
def test_too_little_memory_for_the_program_itself_is_one_line(limit):
    done = run(MAIN, "replay", BUNDLE, limit=limit)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("autotune: the address space of this process must be at least ")
    assert line.endswith("; raise ulimit -v")


def test_too_little_memory_for_the_compiler_is_an_error_in_python():
    done = run("import autotune.compiler", limit=450_000)
    assert done.stderr.splitlines()[-1].startswith("autotune.core.errors.MachineError: the address space ")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (
            errno.EMFILE,
            r"this process must be able to open files, it has too many for a limit of -?\d+; raise ulimit -n",
        ),
        (
            errno.EAGAIN,
            r"processes must start, the system starts none(, .* \d+)?; raise ulimit -u, or end other programs",
        ),
        (errno.ENOMEM, r"this process must get the memory it asks for, it did not.*; raise ulimit -v, .*"),
        (errno.ENOSPC, r"the disk must have room, it is full; make room"),
    ],
)
def test_what_the_system_has_no_more_of_is_said_with_the_way_out(number, words):
    assert re.fullmatch(words, sentence_of(OSError(number, os.strerror(number))))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_path_that_is_closed_to_the_user_is_named_with_the_way_out(number):
    why = os.strerror(number)
    sentence = sentence_of(OSError(number, why, "report.html"))
    assert sentence == f"report.html must be open to this user, it is not: {why}; name another, or allow it"


def test_a_file_where_a_folder_should_be_is_said(tmp_path, refused):
    place = tmp_path / "pictures"
    place.write_text("mine")
    refused("inspect", BUNDLE, "--plots", place, words=f"{place} must be a folder or a new name, it is neither: ")
    assert place.read_text() == "mine"


TOO_LONG = """
import resource
import sys
from pathlib import Path

from autotune.cli.system_errors import sentence_of
from autotune.core.errors import StoreError
from autotune.core.host.whole_file import write_file
from autotune.store.store import Store

sys.dont_write_bytecode = True  # or what fits of it is kept for all tests
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
try:
    write_file(Path(sys.argv[1]) / "page.html", bytes(100))
except OSError as error:
    print(sentence_of(error))
try:
    Store.open(Path(sys.argv[1]) / "s.journal")
except StoreError as error:
    print(error)
"""


def test_a_limit_of_the_length_of_files_is_named_with_the_way_out(tmp_path):
    lines = run(TOO_LONG, tmp_path).stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "File too large for this user, who may write 0.0625 KiB; raise ulimit -f" in line


SHORT_BYTECODE = """
import resource
import sys

from autotune import cli

sys.dont_write_bytecode, sys.pycache_prefix = False, sys.argv[1]
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "limited":
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
cli.keep_bytecode_whole()
import large
"""


@pytest.mark.parametrize(("how", "kept"), [("limited", 0), ("free", 1)])
def test_no_bytecode_is_kept_that_is_cut_off(tmp_path, how, kept):
    (tmp_path / "large.py").write_text(f"TEXT = {'x' * 500!r}")
    assert run(SHORT_BYTECODE, tmp_path, how).returncode == 0
    assert len(list(tmp_path.rglob("large*.pyc"))) == kept


def test_bytecode_that_is_cut_off_is_named_and_is_no_interrupt(tmp_path, monkeypatch, refused):
    (tmp_path / "cut.py").write_text("TEXT = 'x'")
    monkeypatch.syspath_prepend(tmp_path)
    bytecode = py_compile.compile(str(tmp_path / "cut.py"))
    os.truncate(bytecode, 40)
    monkeypatch.setattr(verbs, "command", lambda: failing(lambda: __import__("cut")))
    refused("list", words=f"bytecode of Python must be whole, {bytecode} is cut off; delete it")


def test_a_file_that_ends_early_is_no_interrupt(monkeypatch, refused):
    def end() -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr(verbs, "command", lambda: failing(end))
    refused("list", words="files must be whole, one that is read ends too early: Ran out of input; restore it")


def failing(function):
    """A command line of one verb, which calls a function."""
    app = typer.Typer(add_completion=False)
    app.command(cls=GroupedOptions)(function)
    command = typer.main.get_command(app)
    return lambda **options: command(args=[], **options)


def test_a_file_that_we_find_too_large_is_no_limit_of_the_user():
    assert why_refused(too_large("big", 1 << 20)) == "it is larger than 1 MiB"


def test_a_limit_of_files_is_one_line():
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 6 && exec "$@"', "sh", sys.executable, "-c", MAIN, "inspect", BUNDLE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "autotune: this process must be able to open files, it has too many for a limit of 6; raise ulimit -n"
    ]


def test_a_home_that_cannot_be_written_and_a_locale_that_lacks_characters_end_no_command(tmp_path):
    """Nor are they messages of a library."""
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env = os.environ | locale | {"HOME": "/proc/nowhere"}
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        env.pop(name, None)
    done = run(MAIN, "report", BUNDLE, "-o", tmp_path / "page.html", env=env)
    assert done.returncode == 0
    assert done.stderr == f"autotune: {tmp_path / 'page.html'}\n"
    assert "\N{MINUS SIGN}" in (tmp_path / "page.html").read_text(encoding="utf-8")
    code = "from autotune import cli; cli.print_whatever_it_is(); print('100% |\\u2588|')"
    assert run(code, env=env).stdout == "100% |?|\n"


def test_a_refusal_of_a_name_of_any_length_is_a_line_with_its_way_out(capsys):
    complain(f"names must be short, {'a' * 10**6!r} is not; rename it")
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 5000
    assert line.startswith("autotune: names must be short, 'aaa")
    assert line.endswith("is not; rename it")


def test_a_current_folder_that_is_gone_is_said(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r}); {MAIN}"
    done = run(code, "tune", "nano", cwd=gone, env=os.environ | {"PYTHONSAFEPATH": "1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "autotune: the current folder must exist, it was deleted; change to one that does\n"


@pytest.mark.parametrize("verb", ["show", "replay", "regress", "inspect", "report", "emit", "explain", "debug"])
def test_a_path_that_cannot_be_looked_at_is_named_as_it_was_given(verb, refused):
    name = "n" * 300  # longer than any file's: as of a folder without permission, even looking is an error
    line = refused(verb, name, words=name)
    assert set(re.findall(rf"{name}/([\w.]+)", line)) <= {"manifest.json"}
    assert "must" in line


NEXT_FILE = """
import os
import sys

from autotune.cli import open_what_is_closed

open_what_is_closed()
print(sys.stdin.read(), file=sys.stderr)
sys.exit(10 + os.open(os.devnull, os.O_RDONLY))
"""


def in_shell(words, code):
    """The exit code of Python code and what follows it in a shell."""
    command = ["sh", "-c", f'"$0" -c "$1" {words}', sys.executable, code]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_is_opened_in_the_place_of_a_standard_one_that_is_closed(closed):
    assert in_shell(closed, NEXT_FILE) > 12


@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full"])
def test_a_refusal_that_nobody_can_read_is_one_yet(end):
    assert in_shell(f"inspect no_such_store.journal {end}", MAIN) == 2


READERS = {
    "echo": ["list"],
    "rich": ["inspect", str(BUNDLE)],
    "code": ["show", "matmul,m=8,n=8,k=8", "--stage", "payload"],
    "json": ["list", "--json"],
    "help": ["tune", "--help"],
}
# Runs commands, each in a process forked from one that has imported what they do; writes their ends into a file.
COMMANDS = """
import json, os, sys, tempfile
from autotune import cli
import autotune.cli.inspect_bundle, autotune.cli.verbs, autotune.reports.show
path, *commands = sys.argv[1:]
ends = []
for words in map(json.loads, commands):
    with tempfile.TemporaryFile("w+") as said:
        pid = os.fork()
        if not pid:
            os.dup2(said.fileno(), 2)
            sys.argv = ["autotune", *words]
            cli.main()
            sys.exit()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        ends.append((code, said.read()))
with open(path, "w") as file:
    json.dump(ends, file)
"""


def read_by_nobody(path, stdout, **options):
    """Run commands whose results nobody takes; the exit code and stderr of each, by its name."""
    words = [json.dumps(words) for words in READERS.values()]
    command = [sys.executable, "-c", COMMANDS, str(path), *words]
    subprocess.run(command, stdout=stdout, check=True, **options)
    return dict(zip(READERS, json.loads(path.read_text()), strict=True))


@contextmanager
def unread():
    """An end of a pipe whose other end is closed."""
    end, begun = os.pipe()
    os.close(end)
    yield begun
    os.close(begun)


def test_results_that_nobody_reads_end_a_command_without_a_word(tmp_path):
    with unread() as pipe:
        ends = read_by_nobody(tmp_path / "ends", pipe)
    for name, (code, said) in ends.items():
        assert code == 141, (name, said)
        assert "Traceback" not in said, name
        assert "pipe" not in said.lower(), name


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_results_that_have_no_room_are_one_line_that_names_standard_output(buffered, tmp_path):
    with open("/dev/full", "w") as full:
        ends = read_by_nobody(tmp_path / "ends", full, env=os.environ | {"PYTHONUNBUFFERED": buffered})
    for name, (code, said) in ends.items():
        assert code == 2, (name, said)
        assert [line for line in said.splitlines() if "arena" not in line] == [
            "autotune: standard output must take what is printed, it does not: No space left on device; make room, or "
            "print elsewhere"
        ], name


def test_results_that_have_no_room_are_said_of_a_check_that_failed():
    code = f"""
from autotune.cli import verbs
def fail():
    print("the table")
    raise verbs.ProofError("wrong")
verbs.command = lambda: lambda **_: fail()
{MAIN}
"""
    env = os.environ | {"PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env
        )
    assert done.returncode == 1
    assert [line.split(" must")[0] for line in done.stderr.splitlines()] == [
        "autotune: wrong",
        "autotune: standard output",
    ]


@pytest.mark.parametrize("end", ["pipe", "disk"])
def test_progress_that_nobody_reads_ends_no_command(tmp_path, end):
    words = ["tune", "matmul,m=8,n=8,k=8", "--trials", "2", "--store", tmp_path / "s.journal"]
    words += ["--bundle", tmp_path / "b"]
    with unread() if end == "pipe" else open("/dev/full", "w") as stderr:
        command = [sys.executable, "-c", MAIN, *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    assert done.returncode == 0
    assert "bundle: " in done.stdout


def test_everything_works_without_asserts_and_docstrings():
    env = os.environ | {"PYTHONOPTIMIZE": "2"}  # which leaves out whatever 1 does: all is compiled anew for either
    done = run(ONE_MEASUREMENT, env=env)
    assert done.stdout == "['ok'] False\n", done.stderr
    assert run(MAIN, "tune", "--help", env=env).returncode == 0


def test_the_time_of_a_candidate_does_not_bound_the_roofs():
    with Worker(seconds=0.1) as worker:
        assert worker.roofs(this_machine()).flops > 0
