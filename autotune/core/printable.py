"""Escaping of untrusted text for terminals and C comments, and line folding."""

import re
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches

UNITS = "s|ms|us|ns|GFLOP/s|GB/s|[KMG]iB"
WHOLE = re.compile(rf"\[[-+\d.e, ]*\]|\d (?:{UNITS})(?![\w/])")  # not broken: intervals, and numbers with their units
MOST_SAID = 4000  # characters of a sentence
HARD_SPACE = "\N{NO-BREAK SPACE}"


def one_line(text: str) -> str:
    r"""Return a text as one printable line: white space is collapsed, other unprintable characters are escaped.

    Example:
        >>> one_line("a\n b\x1b[31m")
        'a b\\x1b[31m'
    """
    return spelled(" ".join(text.split()))


def without_middle(text: str, most: int) -> str:
    """Return a text, with its middle elided where it is longer than `most` characters.

    Example:
        >>> without_middle("name must be short, aaaaaaaaaaaaaaaa is not; cut it", 40)
        'name must be short ... aaa is not; cut it'
    """
    half = (most - 4) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def brief_line(text: str) -> str:
    """Return a text as one printable line of at most `MOST_SAID` characters, since names in it may have any length."""
    return without_middle(one_line(text), MOST_SAID)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the closest known name; empty where none is close.

    Example:
        >>> did_you_mean("numy", ["numpy", "torch"])
        "did you mean 'numpy'?"
    """
    matches = get_close_matches(name, list(known), n=1)
    return f"did you mean {matches[0]!r}?" if matches else ""


def first_lines(text: str, count: int = 3, width: int = 500) -> str:
    """Return the first non-empty lines of a diagnostic, joined into one."""
    stripped = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(stripped[:count])[:width]


def lines(text: str) -> str:
    """Escape unprintable characters other than newlines and tabs."""
    return text if is_plain(text) else "\n".join(spelled(line) for line in text.split("\n"))


def is_plain(text: str) -> bool:
    """Return whether all characters of a text are printable, newlines or tabs."""
    return text.isprintable() or all(line.replace("\t", "").isprintable() for line in text.split("\n"))


def spelled(line: str) -> str:
    """Escape the unprintable characters of a line, other than tabs, as `repr` does."""
    return "".join(each if each.isprintable() or each == "\t" else repr(each)[1:-1] for each in line)


def in_comment(text: str) -> str:
    """Return a text as one line that neither ends nor begins a C comment, nor continues on the next line.

    Example:
        >>> in_comment("a*b, see */ int evil; /*")
        'a*b, see * / int evil; / *'
    """
    line = "".join(c if c.isprintable() else " " for c in text)
    line = re.sub(r"\?\?/", "? ?/", line)  # a trigraph for the backslash
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|\\$", " ", line)


def is_unicode(name: str) -> bool:
    """Return whether a name, such as that of a file, is valid Unicode: Python decodes other bytes to surrogates."""
    return name.encode(errors="replace").decode() == name


def fold(sentence: str, width: int, indent: int = 0, hanging: int = 0) -> list[str]:
    """Fold a sentence into lines, between words; intervals, and numbers with their units, are not broken.

    A word that is longer than a line, such as a path, is not broken either, so that it can be copied.

    Args:
        sentence: One or several lines.
        width: Characters of a line.
        indent: Spaces before the first line.
        hanging: Spaces before the other lines.

    Example:
        >>> fold("a call takes 1.23 ms [1.22, 1.25] here", 26, 0, 2)
        ['a call takes 1.23 ms', '  [1.22, 1.25] here']
    """
    unbreakable = WHOLE.sub(lambda match: match[0].replace(" ", HARD_SPACE), sentence)
    lines = [
        line
        for part in unbreakable.splitlines()
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
