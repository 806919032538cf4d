"""Steps in a terminal: commands on a recording, and the command itself in a terminal of 80 columns and 24 lines."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pytest
from debug_support import match, payload_file, script, tile

from autotune.cli.interrupt import ENDS
from autotune.contrib.debug.debugged import debug
from autotune.contrib.debug.session import HELP, DebugSession
from autotune.contrib.debug.whatif import compare, first_difference

MM = match("mm", "linalg.matmul")
BODY = f"""{MM}
{tile("%a, %i", "%mm", "[8]")}
{match("none", "linalg.conv_2d")}
transform.structured.vectorize %none : !transform.any_op"""
PROMPT = re.compile(r"(debug|\d+ more lines, Enter shows them)> $")
PROGRAM = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from autotune.cli import main; main()"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def payload(tmp_path_factory):
    """A file with a payload."""
    return payload_file(tmp_path_factory.mktemp("terminal"))


@pytest.fixture(scope="module")
def recorded(payload):
    """Four steps, of which two are marked."""
    return debug(payload, script(BODY))


@pytest.fixture
def session(payload, recorded):
    """A session that can apply the script again."""
    return DebugSession(recorded, lambda given: debug(payload, script(BODY), skip=given.skip, edits=given.edits))


def said(session, *commands):
    """What the last of some commands prints, as one text."""
    return "\n".join([session.answer(command) for command in commands][-1])


def test_commands_go_to_and_fro(session):
    assert "step 1 of 4" in said(session, "1")
    assert "step 2 of 4" in said(session, "")
    assert "step 4 of 4" in said(session, "n 9")
    assert "step 3 of 4" in said(session, "back")
    assert "step 2 of 4" in said(session, "1", "until tile_using_for")
    assert "step 3 of 4" in said(session, "1", "marks")
    assert "step 4 of 4" in said(session, "marks")
    assert "step 3 of 4" in said(session, "why")
    assert session.answer("quit") is None
    assert "commands are" in said(session, "jump")


def test_into_and_over_follow_calls(payload):
    inner = f"^bb0(%x: !transform.any_op):\n{tile('%a, %i', '%x', '[8]')}"
    body = f"{MM}\ntransform.foreach %mm : !transform.any_op {{\n{inner}\n}}\n{match('again', 'linalg.matmul')}"
    session = DebugSession(debug(payload, script(body)))
    assert "foreach 1 of 1" in said(session, "into")
    assert "foreach" not in said(session, "over")


def test_handles_diff_and_cost_are_of_the_step(session):
    assert "%i: %for" in said(session, "2", "handles")
    assert "%mm: invalidated" in said(session, "2", "handles")
    assert "+    %for = scf.for" in said(session, "2", "diff")
    assert re.search(r"%for +4 x 1 ", said(session, "2", "cost"))
    assert "scf.for" not in said(session, "1", "cost")


def test_a_step_is_left_out_and_a_text_replaced(session):
    text = said(session, "2", "edit [8] > [4]")
    assert text.startswith("step 2 is the first that differs")
    assert "%c4" in said(session, "diff")
    assert "must replace a text" in said(session, "edit [9] > [4]")
    assert "left out" in said(session, "2", "skip")
    assert "%c8" in said(session, "undo", "2", "diff")
    assert "edit must read" in said(session, "edit what")


def test_two_recordings_differ_first_where_they_are_said_to(payload, recorded):
    other = debug(payload, script(BODY.replace("[8]", "[4]")))
    assert first_difference(recorded, recorded) == 0
    assert first_difference(recorded, other) == 2
    text = "\n".join(compare(recorded, other))
    assert text.startswith("the first 1 steps are the same; step 2 differs")
    assert "%c8" in text
    assert "%c4" in text


def test_the_faster_of_two_and_the_step_that_makes_it_so_are_named(payload, recorded):
    body = f"""{MM}
{tile("%a, %i, %j, %k", "%mm", "[8, 16, 1]")}
transform.annotate %k "autotune.sums" : !transform.any_op
transform.structured.vectorize %a : !transform.any_op"""
    fast = debug(payload, script(body))
    for pair in ((recorded, fast), (fast, recorded)):
        text = "\n".join(compare(*pair))
        assert float(re.search(r"expected to be ([\d.]+) times as fast", text)[1]) > 2
        assert "of its steps, 4 gains most: structured.vectorize" in text
    assert "times as fast" not in "\n".join(compare(recorded, debug(payload, script(BODY.replace("[8]", "[4]")))))


class Terminal:
    """A command in a terminal of 80 columns and 24 lines."""

    def __init__(self, *words):
        self.ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = [sys.executable, "-c", PROGRAM, *words]
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)

    def read(self, until):
        """What is printed up to a prompt, or the end, without escape sequences."""
        text, deadline = "", time.monotonic() + 120
        while time.monotonic() < deadline:
            if select.select([self.ours], [], [], 1.0)[0]:
                try:
                    text += os.read(self.ours, 1 << 16).decode()
                except OSError:  # the other end is closed
                    break
            if until is not None and until.search(ESCAPE.sub("", text)):
                break
        return ESCAPE.sub("", text).replace("\r\n", "\n")

    def ask(self, command):
        """What is printed from a command to the next prompt."""
        os.write(self.ours, f"{command}\n".encode())
        return self.read(PROMPT)

    def wait_until_idle(self):
        """Until it waits for a key: what CPython's `input` is sent between prompt and wait, it sees at the next key."""
        stat, deadline = Path(f"/proc/{self.process.pid}/stat"), time.monotonic() + 120
        while stat.read_text().rsplit(") ", 1)[1][0] != "S" and time.monotonic() < deadline:
            time.sleep(0.01)

    def end(self, keys):
        """Exit code after some keys, and what is printed then."""
        self.wait_until_idle()
        os.write(self.ours, keys)
        text = self.read(None)
        code = self.process.wait(60)
        os.close(self.ours)  # not before it has ended: a terminal that is closed hangs up on what ends
        return code, text


@pytest.fixture
def terminal(payload, tmp_path):
    """The debugger of a script in a terminal, at its first prompt."""
    path = tmp_path / "mine.mlir"
    path.write_text(script(BODY))
    opened = Terminal("debug", payload, "--schedule", str(path))
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.process.wait()


def check_screen(text):
    """What a command prints must fit the screen, with the command and the next prompt."""
    lines = text.split("\n")
    assert len(lines) <= 24, text
    assert max(map(len, lines)) <= 80, text


def test_every_command_fits_a_screen_of_80_by_24(terminal):
    first = terminal.read(PROMPT).split("\r")[-1]
    check_screen(first)
    assert HELP.splitlines()[0] in first
    assert "step 1 of 4" in first
    for command in ("next", "diff", "handles", "cost", "list", "help", "marks", "why", "edit [8] > [4]", "nonsense"):
        text = terminal.ask(command)
        check_screen(text)
        while "more lines" in text:
            text = terminal.ask("")
            check_screen(text)
    assert "commands are" in text
    code, rest = terminal.end(b"q\n")
    assert code == 0
    assert "Traceback" not in rest


def test_ctrl_c_at_the_prompt_is_one_line(terminal):
    terminal.read(PROMPT)
    code, rest = terminal.end(b"\x03")
    assert code == 130
    assert ENDS[signal.SIGINT] in rest
    assert "Traceback" not in rest


def test_options_show_a_step_and_its_costs(autotune, payload, tmp_path):
    path = tmp_path / "mine.mlir"
    path.write_text(script(BODY))
    code, out, _ = autotune("debug", payload, "--schedule", path, "--step", "2", "--diff", "--cost")
    assert code == 0
    assert "step 2 of 4: structured.tile_using_for" in out
    assert "+    %for = scf.for" in out
    assert re.search(r"%for +4 x 1 +12 KiB a run", out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step", "5"], "a step must be from 1 to 4, got 5"),
        (["--skip", "5"], "a step must be from 1 to 4, got 5"),
        (["--until", "fuse"], "it must be an op that the script applies"),
        (["--edit", "5:[9]>[4]"], "an edit must replace a text of line 5"),
        (["--edit", "nothing"], "an edit must read LINE:OLD>NEW"),
        (["--page", "/nowhere/page.html"], "a page must be a file that can be written"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(refused, payload, tmp_path, words, said):
    path = tmp_path / "mine.mlir"
    path.write_text(script(BODY))
    assert said in refused("debug", payload, "--schedule", path, *words)


def test_the_documented_example_prints_what_its_page_shows(autotune, monkeypatch, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "debug.md").read_text()
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r'^```mlir title="([^"]+)"\n(.*?)^```$', page, re.M | re.S):
        Path(name).write_text(text)
    command, shown = re.search(r"^```sh\nautotune (debug .*?)\n```\n\n```text\n(.*?)^```$", page, re.M | re.S).groups()
    assert autotune(*command.split())[1] == shown
    marks = autotune("debug", "matmul,m=64,n=64,k=64", "--schedule", "better.mlir")[1]
    assert "!" not in marks


def test_two_payloads_are_called_by_their_names(autotune, tmp_path):
    folders = [tmp_path / "narrow", tmp_path / "wide"]
    for folder, n in zip(folders, (16, 32), strict=True):
        folder.mkdir()
        payload_file(folder, n=n)
    path = tmp_path / "mine.mlir"
    path.write_text(script(BODY))
    files = [str(folder / "payload.mlir") for folder in folders]
    code, out, _ = autotune("debug", *files, "--schedule", path)
    assert code == 0
    assert out.startswith("the payloads differ before the first step\nall 4 steps are the same\n")
    assert re.search(r"narrow/payload\.mlirisexpectedtobe2\.0\dtimesasfastas", re.sub(r"\s", "", out))
