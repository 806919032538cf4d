"""Lines of a script, with the numbers in them that a knob may give: as a param, or as an attribute by `SETS`.

They are those that families of ours write, compared as text for several configs, and written again with their comments:
what MLIR parsed has none.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.core.scripts.marks import SETS

PARAM = "!transform.param<i64>"
KNOB = re.compile(rf'(%\w+) = transform\.tune\.knob<"[\w.-]+"> = (\d+) from options = .* -> {PARAM}')
ANY = r"!transform\.any_op"
PARAMS = f"(?:, {PARAM})*"

# Ops that take params: their text as head, numbers, middle, tail; the types of params stand between the last two.
SIZES = (
    re.compile(rf"(.* = transform\.structured\.tile_using_for %\w+ tile_sizes \[)([^]]*)(\] : \({ANY}){PARAMS}(\).*)"),
    re.compile(rf"(transform\.structured\.vectorize %\w+ vector_sizes \[)([^]]*)(\] : {ANY}){PARAMS}()"),
    re.compile(rf"(.* = transform\.structured\.split %\w+ after )(\d+)( \{{[^}}]*\}} : {ANY}){PARAMS}()"),
)
# An attribute that takes none, and its name.
ATTRIBUTE = re.compile(rf"(transform\.loop\.unroll %\w+ \{{)factor = (\d+)(\}} : {ANY})()")
FACTOR = "factor"


@dataclass(frozen=True)
class ScriptLine:
    """One line of a script.

    Attributes:
        parts: Text before the numbers, between them and the types of params, and behind those.
        numbers: Numbers that a knob may give; none in most lines.
        attribute: Name of the attribute that the number is; empty where it may be a param.
    """

    parts: tuple[str, str, str]
    numbers: tuple[int, ...] = ()
    attribute: str = ""

    @property
    def kind(self) -> tuple[object, ...]:
        """What lines have in common that differ in their numbers alone."""
        return self.parts, len(self.numbers), self.attribute

    def write(self, given: Sequence[str | None]) -> str:
        """The line, with a name instead of each number that has one: a handle, or of an attribute the knob's."""
        head, middle, tail = self.parts
        shown = [name or str(number) for name, number in zip(given, self.numbers, strict=True)]
        if self.attribute:
            sets = f', {SETS} = {{{self.attribute} = "{given[0]}"}}' if given[0] else ""
            return f"{head}{self.attribute} = {self.numbers[0]}{sets}{middle}{tail}"
        return f"{head}{', '.join(shown)}{middle}{f', {PARAM}' * sum(name is not None for name in given)}{tail}"


def read_lines(text: str) -> list[ScriptLine]:
    """The lines of a script that a family wrote, its knobs as the numbers they are set to."""
    handles: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        if found := KNOB.fullmatch(line):
            handles[found[1]] = found[2]
        else:
            lines.append(read_line(line, handles))
    return lines


def read_line(line: str, handles: Mapping[str, str]) -> ScriptLine:
    """A line, with numbers instead of the handles of knobs."""
    for pattern in (*SIZES, ATTRIBUTE):
        if (found := pattern.fullmatch(line)) is None:
            continue
        words = [handles.get(word, word) for word in found[2].split(", ")]
        if all(map(str.isdigit, words)):
            attribute = FACTOR if pattern is ATTRIBUTE else ""
            return ScriptLine((found[1], found[3], found[4]), tuple(map(int, words)), attribute)
    return ScriptLine((line, "", ""))


def is_comment(line: ScriptLine) -> bool:
    """Whether a line is there for readers alone."""
    return line.parts[0].lstrip().startswith("//")


def ops_in(lines: Sequence[ScriptLine]) -> list[ScriptLine]:
    """Lines without comments."""
    return [line for line in lines if not is_comment(line)]
