"""Lines of a script, split at the numbers that a knob can set, as a param or as an attribute by `SETS`.

The lines are those that the built-in families write. They are compared as text for several configs and written again
with their comments, which MLIR's parser would drop.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.core.scripts.marks import SETS

PARAM = "!transform.param<i64>"
KNOB = re.compile(rf'(%\w+) = transform\.tune\.knob<"[\w.-]+"> = (\d+) from options = .* -> {PARAM}')
ANY = r"!transform\.any_op"
PARAMS = f"(?:, {PARAM})*"

# Operations that take params: head, numbers, middle and tail; the types of the params come between the last two.
SIZES = (
    re.compile(rf"(.* = transform\.structured\.tile_using_for %\w+ tile_sizes \[)([^]]*)(\] : \({ANY}){PARAMS}(\).*)"),
    re.compile(rf"(transform\.structured\.vectorize %\w+ vector_sizes \[)([^]]*)(\] : {ANY}){PARAMS}()"),
    re.compile(rf"(.* = transform\.structured\.split %\w+ after )(\d+)( \{{[^}}]*\}} : {ANY}){PARAMS}()"),
)
# An operation whose number is an attribute, and the name of that attribute.
ATTRIBUTE = re.compile(rf"(transform\.loop\.unroll %\w+ \{{)factor = (\d+)(\}} : {ANY})()")
FACTOR = "factor"


@dataclass(frozen=True)
class ScriptLine:
    """One line of a script.

    Attributes:
        parts: Text before the numbers, between them and the types of params, and after those.
        numbers: Numbers that a knob can set; empty for most lines.
        attribute: Name of the attribute with the number; empty if it can be a param.
    """

    parts: tuple[str, str, str]
    numbers: tuple[int, ...] = ()
    attribute: str = ""

    @property
    def kind(self) -> tuple[object, ...]:
        """Key of lines that differ only in their numbers."""
        return self.parts, len(self.numbers), self.attribute

    def write(self, replacements: Sequence[str | None]) -> str:
        """Return the text of the line with some numbers replaced.

        Args:
            replacements: Replacement of each number: a handle, or the name of an attribute's knob; `None` to keep it.
        """
        head, middle, tail = self.parts
        shown = [name or str(number) for name, number in zip(replacements, self.numbers, strict=True)]
        if self.attribute:
            sets = f', {SETS} = {{{self.attribute} = "{replacements[0]}"}}' if replacements[0] else ""
            return f"{head}{self.attribute} = {self.numbers[0]}{sets}{middle}{tail}"
        return f"{head}{', '.join(shown)}{middle}{f', {PARAM}' * sum(name is not None for name in replacements)}{tail}"


def read_lines(text: str) -> list[ScriptLine]:
    """Parse the lines of a script that a family wrote; handles of knobs are replaced by their numbers."""
    handles: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        if match := KNOB.fullmatch(line):
            handles[match[1]] = match[2]
        else:
            lines.append(read_line(line, handles))
    return lines


def read_line(line: str, handles: Mapping[str, str]) -> ScriptLine:
    """Parse a line; handles of knobs are replaced by their numbers."""
    for pattern in (*SIZES, ATTRIBUTE):
        if (match := pattern.fullmatch(line)) is None:
            continue
        words = [handles.get(word, word) for word in match[2].split(", ")]
        if all(map(str.isdigit, words)):
            attribute = FACTOR if pattern is ATTRIBUTE else ""
            return ScriptLine((match[1], match[3], match[4]), tuple(map(int, words)), attribute)
    return ScriptLine((line, "", ""))


def is_comment(line: ScriptLine) -> bool:
    """Return whether a line is a comment."""
    return line.parts[0].lstrip().startswith("//")


def ops_in(lines: Sequence[ScriptLine]) -> list[ScriptLine]:
    """Return the lines that are not comments."""
    return [line for line in lines if not is_comment(line)]
