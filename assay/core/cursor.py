"""The tokens of a program text: what comes next, and errors that point to it (the line, a caret, what was expected there)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from assay.core.errors import AssayError, UserError

X = TypeVar("X")

TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<float>0x[0-9a-fA-F]+(\.[0-9a-fA-F]*)?p[+-]?\d+ | \d+\.\d+([eE][+-]?\d+)? | \d+[eE][+-]?\d+)
      | (?P<int>\d+)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | `(?P<quoted>[^`\n]*)`
      | (?P<string>"(\\.|[^"\\\n])*")
      | (?P<op>\.\.|//|[()\[\]{}:;,.=+\-*%?])""",
    re.VERBOSE,
)


WIDTH = 160  # characters of a line that an error shows


class Token(NamedTuple):
    """`kind` is name, quoted, int, float, string, op or end."""

    kind: str
    text: str
    at: int


class Cursor:
    """A place among the tokens of a text.  Everything that reads moves on, or raises UserError at the place that is wrong."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        at = 0
        while at < len(text):
            m = TOKEN.match(text, at)
            if m is None:
                self.fail(f"unexpected character {text[at]!r}", at)
            kind = m.lastgroup if m.lastgroup in ("space", "int", "name", "quoted", "op") else None
            kind = kind or ("string" if m["string"] else "float")
            if kind != "space":
                self.tokens.append(Token(kind, m["quoted"] if kind == "quoted" else m[0], at))
            at = m.end()
        self.tokens.append(Token("end", "end of text", len(text)))
        self.pos = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.pos]

    def ahead(self, k: int) -> str:
        """The text of the token k places further on."""
        return self.tokens[min(self.pos + k, len(self.tokens) - 1)].text

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        """Raise UserError with the line and a caret."""
        at = self.token.at if at is None else at
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[start : end if end >= 0 else len(self.text)]
        number, column = self.text.count("\n", 0, at) + 1, at - start
        first = max(0, column - WIDTH // 2)
        shown = line[first : first + WIDTH]
        raise UserError(f"line {number}, column {column + 1}: {what}\n  {shown}\n  {' ' * (column - first)}^")

    def expected(self, what: str) -> NoReturn:
        self.fail(f"expected {what}, found {self.token.text!r}")

    def is_(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("op", "name")

    def accept(self, text: str) -> bool:
        found = self.is_(text)
        self.pos += found
        return found

    def expect(self, text: str, why: str = "") -> None:
        if not self.accept(text):
            self.expected(f"{text!r}{why}")

    def word(self, what: str) -> str:
        if self.token.kind not in ("name", "quoted"):
            self.expected(what)
        self.pos += 1
        return self.tokens[self.pos - 1].text

    def natural(self, what: str) -> int:
        if self.token.kind != "int":
            self.expected(what)
        self.pos += 1
        return int(self.tokens[self.pos - 1].text)

    def integer(self, what: str) -> int:
        return -self.natural(what) if self.accept("-") else self.natural(what)

    def string(self, what: str) -> str:
        if self.token.kind != "string":
            self.expected(what)
        try:
            value = json.loads(self.token.text)
        except ValueError:
            self.fail("not a string in JSON notation")
        self.pos += 1
        return value

    def many(self, close: str, item: Callable[[], X]) -> list[X]:
        """item, item, ... close"""
        found: list[X] = []
        while not self.accept(close):
            if found:
                self.expect(",", f" or {close!r}")
            found.append(item())
        return found

    def build(self, at: int, make: Callable[[], X]) -> X:
        """make(), its errors shown at the place `at`."""
        try:
            return make()
        except AssayError as error:
            self.fail(str(error), at)
