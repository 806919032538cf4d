"""Untrusted text where it is shown: one line, nothing that commands a terminal, nothing that leaves a comment."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from autotune.core.console import PrintableText
from autotune.core.printable import in_comment, is_plain, lines, one_line

HOSTILE = "\x1b[31mRED\x1b]0;title\x07\r\x08\x9b2J\u202edlrow\n\x00"


@given(st.text())
def test_one_line_prints_whatever_it_was(text):
    assert one_line(text).isprintable() or "\t" in text


@given(st.text())
def test_lines_stay_lines(text):
    found = lines(text)
    assert is_plain(found)
    assert found.count("\n") == text.count("\n")
    assert lines(found) == found


@given(st.text(alphabet=st.sampled_from("*/\\?\n ax")))
def test_comment_is_never_left(text):
    inside = in_comment(text)
    assert "*/" not in inside
    assert "/*" not in inside
    assert "??/" not in inside
    assert not inside.endswith("\\")
    assert "\n" not in inside


def test_console_spells_out_what_would_command_the_terminal():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, markup=False, width=200)
    console.push_render_hook(PrintableText())
    console.print(HOSTILE)
    assert not set("\x1b\x07\r\x08\x9b\u202e\x00") & set(stream.getvalue())
    assert "\\x1b[31mRED" in stream.getvalue()
