"""The short form of a dialect's text: ops of it may be written without quotes and types, which are put in for MLIR.

    %y = gpt.linear(%x, %w)      becomes    %y = "gpt.linear"(%x, %w) : (tensor<4x8xf32>, none) -> (none)
    ^bb0(%layer, %x):                       ^bb0(%layer: none, %x: none):
    return %y                               return %y : none

Ops that IRDL defines have MLIR's generic form alone, which repeats the type of every operand. Here a value has the type
that the file gives it, the entry's arguments theirs, and all others ``none``: to be inferred. Lines stay lines.
"""

import re
from dataclasses import dataclass, field

from autotune.core.ops.dialect import OPEN

TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|%[\w$.-]+(?:[:#]\d+)?|->|[\w.$!@^*?-]+|\s+|.', re.S)
CLOSING = {"(": ")", "{": "}", "<": ">", "[": "]"}
RETURNS = ("return", "func.return")
GIVES = (*RETURNS, "vector.yield")


@dataclass
class ShortOp:
    """An op that is being completed.

    Attributes:
        operands: Names of the values it reads.
        results: Names of the values it gives.
    """

    operands: list[str]
    results: list[str]


@dataclass
class ShortForm:
    """A text that is being completed.

    Attributes:
        dialect: Name of the dialect.
        tokens: Tokens of the text; what is put in is appended to the one before.
        types: Types of values that the file gives them, by name.
    """

    dialect: str
    tokens: list[str]
    types: dict[str, str] = field(default_factory=dict)

    def complete(self) -> str:
        """The text with quotes and types."""
        at, header = 0, -1
        left: list[str] = []  # results of the statement, as far as it is read
        regions: list[ShortOp] = []
        while (at := self.skip(at)) < len(self.tokens):
            token = self.tokens[at]
            if token == "func.func":
                at, header = self.function(at)
            elif token in GIVES:
                at, given = self.gives(at)
                if token in RETURNS and header >= 0:
                    self.tokens[header] += f" -> ({given})"
                    header = -1
            elif token.startswith("^"):
                at = self.block_arguments(at)
            elif token.startswith("%"):
                at, left = self.names(at)
            elif self.is_op(at):
                self.tokens[at] = f'"{token.strip(chr(34))}"'
                close = self.matching(self.skip(at + 1))
                statement = ShortOp([t for t in self.tokens[at:close] if t.startswith("%")], left)
                at, left = self.skip(close + 1), []
                if self.tokens[at : at + 1] == ["("]:  # a region
                    regions.append(statement)
                    at = self.skip(at + 1) + 1
                else:
                    at = self.types_of(close, statement)
            elif token == "}" and regions and self.at(self.skip(at + 1)) == ")":
                at = self.types_of(self.skip(at + 1), regions.pop())
            else:
                at += 1
        return "".join(self.tokens)

    def at(self, number: int) -> str:
        """A token; nothing behind the last."""
        return self.tokens[number] if number < len(self.tokens) else ""

    def skip(self, number: int) -> int:
        """The first token from a number on that is neither space nor comment."""
        while number < len(self.tokens) and (self.tokens[number].isspace() or self.tokens[number].startswith("//")):
            number += 1
        return number

    def is_op(self, number: int) -> bool:
        """Whether a token is the name of an op of the dialect, before its operands."""
        name = self.tokens[number].strip('"')
        return name.startswith(f"{self.dialect}.") and self.at(self.skip(number + 1)) == "("

    def matching(self, number: int) -> int:
        """The bracket that closes the one at a number; the end of the text where none does."""
        waiting = []
        for index in range(number, len(self.tokens)):
            token = self.tokens[index]
            if token in CLOSING:
                waiting.append(CLOSING[token])
            elif waiting and token == waiting[-1]:
                waiting.pop()
            if not waiting:
                return index
        return len(self.tokens) - 1

    def names(self, number: int) -> tuple[int, list[str]]:
        """Names of the results of a statement, and the token behind its equal sign."""
        found: list[str] = []
        while self.at(number).startswith("%") or self.at(number) == ",":
            name, _, count = self.at(number).partition(":")
            if name != ",":
                found += [f"{name}#{i}" for i in range(int(count))] if count else [name]
            number = self.skip(number + 1)
        return number + (self.at(number) == "="), found

    def typed(self, number: int, end: int, *, complete: bool) -> None:
        """Note the types of arguments between brackets; put in those that are left out."""
        while (number := self.skip(number)) < end:
            name = self.tokens[number]
            after = self.skip(number + 1)
            if not name.startswith("%"):
                number += 1
            elif self.at(after) == ":":
                start = number = self.skip(after + 1)
                while number < end and self.tokens[number] not in (",", "{"):
                    number = (self.matching(number) if self.tokens[number] in CLOSING else number) + 1
                self.types[name] = "".join(self.tokens[start:number]).strip()
                number = self.matching(number) + 1 if self.at(number) == "{" and number < end else number
            else:
                self.tokens[number] += f": {OPEN}" if complete else ""
                number += 1

    def function(self, number: int) -> tuple[int, int]:
        """Note types of a function's arguments, and of what it returns where that is written.

        Returns:
            The token behind them, and where types of its results are to be put in; -1 where they stand.
        """
        while number < len(self.tokens) and self.tokens[number] != "(":
            number += 1
        if number == len(self.tokens):
            return number, -1
        end = self.matching(number)
        self.typed(number + 1, end, complete=False)
        position = next((i for i in range(end, len(self.tokens)) if self.tokens[i] in RETURNS), len(self.tokens))
        names, after, _ = self.given(position)
        returned = self.line_types(after) if self.at(after) == ":" else []
        if self.at(header := self.skip(end + 1)) != "->":
            self.note(names, returned)
            return end + 1, end
        behind, declared = self.types_at(header)
        self.note(names, returned or declared)
        return behind, -1

    def block_arguments(self, number: int) -> int:
        """Complete the arguments of a block; give the token behind them."""
        start = self.skip(number + 1)
        if self.at(start) != "(":
            return number + 1
        end = self.matching(start)
        self.typed(start + 1, end, complete=True)
        return end + 1

    def given(self, number: int) -> tuple[list[str], int, int]:
        """Names behind a terminator, the token behind them, and the last of them."""
        names: list[str] = []
        last, number = number, self.skip(number + 1)
        while self.at(number).startswith("%") or (names and self.at(number) == ","):
            names += [self.tokens[number]] if self.tokens[number] != "," else []
            last, number = number, self.skip(number + 1)
        return names, number, last

    def gives(self, number: int) -> tuple[int, str]:
        """Complete what a terminator gives; give the token behind it, and the types."""
        names, after, last = self.given(number)
        types = ", ".join(self.types.get(name, OPEN) for name in names)
        if names and self.at(after) != ":":
            self.tokens[last] += f" : {types}"
        return after, types

    def types_of(self, close: int, statement: ShortOp) -> int:
        """Complete an op behind its operands or its region; give the token behind it."""
        after = self.skip(close + 1)
        if self.at(after) == "{":
            close = self.matching(after)
            after = self.skip(close + 1)
        if self.at(after) == ":":
            behind, types = self.types_at(self.skip(self.matching(self.skip(after + 1)) + 1))
            self.note(statement.results, types)
            return behind
        reads, gives = (
            ", ".join(self.types.get(name, OPEN) for name in names) for names in (statement.operands, statement.results)
        )
        self.tokens[close] += f" : ({reads}) -> ({gives})"
        return close + 1

    def types_at(self, arrow: int) -> tuple[int, list[str]]:
        """The token behind the types that follow an arrow, and those."""
        start = self.skip(arrow + 1)
        inside = self.at(start) == "("
        end = self.matching(start) if inside else start
        if not inside and self.at(start + 1) == "<":
            end = self.matching(start + 1)
        return end + 1, split_types("".join(self.tokens[start + inside : end + (not inside)]))

    def line_types(self, colon: int) -> list[str]:
        """Types behind a colon, up to the end of the line."""
        end = colon + 1
        while end < len(self.tokens) and "\n" not in self.tokens[end] and self.tokens[end][0] not in "}/":
            end += 1
        return split_types("".join(self.tokens[colon + 1 : end]))

    def note(self, names: list[str], types: list[str]) -> None:
        """Note the types that the file gives values; an argument keeps its own."""
        for name, each in zip(names, types, strict=False):
            self.types.setdefault(name, each)


def complete(text: str, dialect: str) -> str:
    """The text of a file with what its short form leaves out.

    >>> complete("%y = gpt.gelu(%x)", "gpt")
    '%y = "gpt.gelu"(%x) : (none) -> (none)'
    """
    return ShortForm(dialect, TOKEN.findall(text)).complete()


def split_types(text: str) -> list[str]:
    """Types of a list, at the commas that are in no bracket."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found if each.strip()]
