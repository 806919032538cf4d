"""Preprocessor for the short form of a dialect: operations without quotes and types, which are inserted for MLIR.

    %y = gpt.linear(%x, %w)      becomes    %y = "gpt.linear"(%x, %w) : (tensor<4x8xf32>, none) -> (none)
    ^bb0(%layer, %x):                       ^bb0(%layer: none, %x: none):
    return %y                               return %y : none

Operations defined by IRDL only have MLIR's generic form, which repeats the type of every operand. Here a value has the
type that the file gives it, as for arguments of the entry function; all others get ``none`` and are inferred later.
Line numbers do not change.
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
    """Operation whose types are being inserted.

    Attributes:
        operands: Names of its operands.
        results: Names of its results.
    """

    operands: list[str]
    results: list[str]


@dataclass
class ShortForm:
    """Text whose quotes and types are being inserted.

    Attributes:
        dialect: Name of the dialect.
        tokens: Tokens of the text; inserted text is appended to the preceding token.
        types: Types of values that the file states, by name.
    """

    dialect: str
    tokens: list[str]
    types: dict[str, str] = field(default_factory=dict)

    def complete(self) -> str:
        """Insert all quotes and types, and return the text."""
        at, header = 0, -1
        left: list[str] = []  # results of the current statement
        regions: list[ShortOp] = []
        while (at := self.skip(at)) < len(self.tokens):
            token = self.tokens[at]
            if token == "func.func":
                at, header = self.function(at)
            elif token in GIVES:
                at, types = self.gives(at)
                if token in RETURNS and header >= 0:
                    self.tokens[header] += f" -> ({types})"
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
        """Return a token; an empty string after the last."""
        return self.tokens[number] if number < len(self.tokens) else ""

    def skip(self, number: int) -> int:
        """Return the index of the first token from `number` on that is neither space nor comment."""
        while number < len(self.tokens) and (self.tokens[number].isspace() or self.tokens[number].startswith("//")):
            number += 1
        return number

    def is_op(self, number: int) -> bool:
        """Return whether a token is the name of an operation of the dialect, followed by operands."""
        name = self.tokens[number].strip('"')
        return name.startswith(f"{self.dialect}.") and self.at(self.skip(number + 1)) == "("

    def matching(self, number: int) -> int:
        """Return the index of the bracket that closes the one at `number`; of the last token if none does."""
        expected = []
        for index in range(number, len(self.tokens)):
            token = self.tokens[index]
            if token in CLOSING:
                expected.append(CLOSING[token])
            elif expected and token == expected[-1]:
                expected.pop()
            if not expected:
                return index
        return len(self.tokens) - 1

    def names(self, number: int) -> tuple[int, list[str]]:
        """Return the index after the equal sign of a statement, and the names of its results."""
        results: list[str] = []
        while self.at(number).startswith("%") or self.at(number) == ",":
            name, _, count = self.at(number).partition(":")
            if name != ",":
                results += [f"{name}#{i}" for i in range(int(count))] if count else [name]
            number = self.skip(number + 1)
        return number + (self.at(number) == "="), results

    def typed(self, number: int, end: int, *, complete: bool) -> None:
        """Record the types of arguments between brackets; insert missing ones if `complete` is true."""
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
        """Record the types of a function's arguments and, if they are stated, of its results.

        Returns:
            Index of the token after them, and of the token after which result types must be inserted; -1 if they exist.
        """
        while number < len(self.tokens) and self.tokens[number] != "(":
            number += 1
        if number == len(self.tokens):
            return number, -1
        end = self.matching(number)
        self.typed(number + 1, end, complete=False)
        position = next((i for i in range(end, len(self.tokens)) if self.tokens[i] in RETURNS), len(self.tokens))
        names, after, _ = self.terminator_operands(position)
        returned = self.line_types(after) if self.at(after) == ":" else []
        if self.at(header := self.skip(end + 1)) != "->":
            self.note(names, returned)
            return end + 1, end
        behind, declared = self.types_at(header)
        self.note(names, returned or declared)
        return behind, -1

    def block_arguments(self, number: int) -> int:
        """Insert the types of a block's arguments; return the index after them."""
        start = self.skip(number + 1)
        if self.at(start) != "(":
            return number + 1
        end = self.matching(start)
        self.typed(start + 1, end, complete=True)
        return end + 1

    def terminator_operands(self, number: int) -> tuple[list[str], int, int]:
        """Return the operands of a terminator, the index after them, and the index of the last one."""
        names: list[str] = []
        last, number = number, self.skip(number + 1)
        while self.at(number).startswith("%") or (names and self.at(number) == ","):
            names += [self.tokens[number]] if self.tokens[number] != "," else []
            last, number = number, self.skip(number + 1)
        return names, number, last

    def gives(self, number: int) -> tuple[int, str]:
        """Insert the types of a terminator's operands; return the index after it and the types."""
        names, after, last = self.terminator_operands(number)
        types = ", ".join(self.types.get(name, OPEN) for name in names)
        if names and self.at(after) != ":":
            self.tokens[last] += f" : {types}"
        return after, types

    def types_of(self, close: int, statement: ShortOp) -> int:
        """Insert the type of an operation after its operands or region; return the index after it."""
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
        """Return the index after the types that follow an arrow, and the types."""
        start = self.skip(arrow + 1)
        inside = self.at(start) == "("
        end = self.matching(start) if inside else start
        if not inside and self.at(start + 1) == "<":
            end = self.matching(start + 1)
        return end + 1, split_types("".join(self.tokens[start + inside : end + (not inside)]))

    def line_types(self, colon: int) -> list[str]:
        """Return the types after a colon, up to the end of the line."""
        end = colon + 1
        while end < len(self.tokens) and "\n" not in self.tokens[end] and self.tokens[end][0] not in "}/":
            end += 1
        return split_types("".join(self.tokens[colon + 1 : end]))

    def note(self, names: list[str], types: list[str]) -> None:
        """Record the stated types of values; a type recorded earlier is kept."""
        for name, value_type in zip(names, types, strict=False):
            self.types.setdefault(name, value_type)


def complete(text: str, dialect: str) -> str:
    """Insert the quotes and types that the short form of a file omits.

    >>> complete("%y = gpt.gelu(%x)", "gpt")
    '%y = "gpt.gelu"(%x) : (none) -> (none)'
    """
    return ShortForm(dialect, TOKEN.findall(text)).complete()


def split_types(text: str) -> list[str]:
    """Split a list of types at the commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts if each.strip()]
