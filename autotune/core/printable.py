"""Untrusted text made safe where it is shown: a terminal executes control characters, a C compiler ends comments."""

import re
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches

UNITS = "s|ms|us|ns|GFLOP/s|GB/s|[KMG]iB"
WHOLE = re.compile(rf"\[[-+\d.e, ]*\]|\d (?:{UNITS})(?![\w/])")  # intervals, and numbers with their units
HARD_SPACE = "\N{NO-BREAK SPACE}"


def one_line(text: str) -> str:
    r"""A text as one line that a terminal only prints: white space is one blank, what does not print is spelled out.

    Example:
        >>> one_line("a\n b\x1b[31m")
        'a b\\x1b[31m'
    """
    return spelled(" ".join(text.split()))


def without_middle(text: str, most: int) -> str:
    """A text, or its beginning and its end where it is longer than allowed.

    Example:
        >>> without_middle("name must be short, aaaaaaaaaaaaaaaa is not; cut it", 40)
        'name must be short ... aaa is not; cut it'
    """
    half = (most - 4) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest of known names as a question; empty where none is near.

    Example:
        >>> did_you_mean("numy", ["numpy", "torch"])
        "did you mean 'numpy'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def first_lines(text: str, count: int = 3, width: int = 500) -> str:
    """The first lines of a diagnostic, on one line."""
    found = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(found[:count])[:width]


def lines(text: str) -> str:
    """A text that a terminal only prints, its lines and tabs as they are."""
    return text if is_plain(text) else "\n".join(spelled(line) for line in text.split("\n"))


def is_plain(text: str) -> bool:
    """Whether a text has nothing but lines and tabs of what prints."""
    return text.isprintable() or all(line.replace("\t", "").isprintable() for line in text.split("\n"))


def spelled(line: str) -> str:
    """A line in which every character that does not print, but for tabs, is written as Python writes it."""
    return "".join(each if each.isprintable() or each == "\t" else repr(each)[1:-1] for each in line)


def in_comment(text: str) -> str:
    """A text as one line that neither ends a C comment nor begins one, nor goes on in the next line.

    Example:
        >>> in_comment("a*b, see */ int evil; /*")
        'a*b, see * / int evil; / *'
    """
    line = "".join(c if c.isprintable() else " " for c in text)
    line = re.sub(r"\?\?/", "? ?/", line)  # a trigraph for the backslash
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|\\$", " ", line)


def is_unicode(name: str) -> bool:
    """Whether a name, such as that of a file, is text: bytes that are no UTF-8 are lone surrogates in Python."""
    return name.encode(errors="replace").decode() == name


def fold(sentence: str, width: int, indent: int = 0, hanging: int = 0) -> list[str]:
    """The lines of a sentence, broken between words; intervals, and numbers with their units, stay whole.

    A word that is longer than a line, such as a path, stays whole too, so that it can be copied.

    Args:
        sentence: One or several lines.
        width: Characters of a line.
        indent: Spaces before its first line.
        hanging: Spaces before the others.

    Example:
        >>> fold("a call takes 1.23 ms [1.22, 1.25] here", 26, 0, 2)
        ['a call takes 1.23 ms', '  [1.22, 1.25] here']
    """
    kept = WHOLE.sub(lambda found: found[0].replace(" ", HARD_SPACE), sentence)
    lines = [
        line
        for part in kept.splitlines()
        for line in textwrap.wrap(
            part,
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return [line.replace(HARD_SPACE, " ") for line in lines]
