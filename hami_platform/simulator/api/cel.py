"""The part of the Common Expression Language that webhook match conditions use, compiled to closures.

An expression outside that part is refused when it is compiled, never guessed. Errors behave as in CEL: `||`, `&&`,
`all` and `exists` absorb an error when another operand decides. Source: cel-spec langdef, Kubernetes CEL environment.
Knows nothing of webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_platform.simulator.api import cel_values as values
from hami_platform.simulator.api.cel_values import CelError

Scope = Mapping[str, Any]
Code = Callable[[Scope], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<float>\d+\.\d+)|(?P<int>\d+)|(?P<raw>r(?:'[^']*'|"[^"]*"))|(?P<str>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<op>\|\||&&|==|!=|<=|>=|\.\?|\[\?|[-+*/%!<>?:.,()\[\]{}]))""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_MACROS = ("all", "exists", "exists_one", "filter", "map")
_VARIABLES = ("object", "oldObject", "request", "namespaceObject")
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the expression: `kind` is a group's name of the tokenizer, or `end`."""

    kind: str
    text: str


def compile_expression(text: str) -> Code:
    """Compile an expression over object, oldObject and request. Raises CelError that says what is not understood."""
    parser = _Parser(_tokens(text))
    code = parser.expression(frozenset(_VARIABLES))
    parser.expect_end()
    return code


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise CelError(f"syntax error at {text[position : position + 20]!r}")
        found.append(Token(match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return [*found, Token("end", "")]


class _Parser:
    """Recursive descent over CEL's precedence; `names` are the variables in scope."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def expression(self, names: frozenset[str]) -> Code:
        condition = self._or(names)
        if not self._take("?"):
            return condition
        then = self._or(names)
        self._expect(":")
        return values.choose(condition, then, self.expression(names))

    def expect_end(self) -> None:
        if self._tokens[self._at].kind != "end":
            raise CelError(f"syntax error at {self._tokens[self._at].text!r}")

    def _take(self, text: str) -> bool:
        token = self._tokens[self._at]
        if token.kind == "op" and token.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise CelError(f"expected {text!r}, found {self._tokens[self._at].text!r}")

    def _next(self, kind: str) -> str:
        token = self._tokens[self._at]
        if token.kind != kind:
            raise CelError(f"expected a {kind}, found {token.text!r}")
        self._at += 1
        return token.text

    def _or(self, names: frozenset[str]) -> Code:
        code = self._and(names)
        while self._take("||"):
            code = values.either(code, self._and(names))
        return code

    def _and(self, names: frozenset[str]) -> Code:
        code = self._relation(names)
        while self._take("&&"):
            code = values.both(code, self._relation(names))
        return code

    def _relation(self, names: frozenset[str]) -> Code:
        code = self._sum(names)
        while True:
            token = self._tokens[self._at]
            if token.text not in values.RELATIONS or token.kind not in ("op", "name"):
                return code
            self._at += 1
            code = values.binary(values.RELATIONS[token.text], code, self._sum(names))

    def _sum(self, names: frozenset[str]) -> Code:
        code = self._product(names)
        while self._tokens[self._at].kind == "op" and self._tokens[self._at].text in "+-":
            operator = self._next("op")
            code = values.binary(values.ARITHMETIC[operator], code, self._product(names))
        return code

    def _product(self, names: frozenset[str]) -> Code:
        code = self._unary(names)
        while self._tokens[self._at].kind == "op" and self._tokens[self._at].text in ("*", "/", "%"):
            operator = self._next("op")
            code = values.binary(values.ARITHMETIC[operator], code, self._unary(names))
        return code

    def _unary(self, names: frozenset[str]) -> Code:
        if self._take("!"):
            return values.negated(self._unary(names))
        if self._take("-"):
            return values.binary(values.ARITHMETIC["-"], lambda _: 0, self._unary(names))
        return self._member(names)

    def _member(self, names: frozenset[str]) -> Code:
        code = self._primary(names)
        while True:
            if self._take("."):
                code = self._selected(code, names)
            elif self._take(".?"):
                code = values.optional_select(code, self._next("name"))
            elif self._take("[?"):
                code = values.optional_index(code, self._closed(names, "]"))
            elif self._take("["):
                code = values.binary(values.index, code, self._closed(names, "]"))
            else:
                return code

    def _closed(self, names: frozenset[str], end: str) -> Code:
        code = self.expression(names)
        self._expect(end)
        return code

    def _selected(self, target: Code, names: frozenset[str]) -> Code:
        name = self._next("name")
        if not self._take("("):
            return values.select(target, name)
        if name in _MACROS:
            return self._macro(name, target, names)
        return values.method(name, target, self._arguments(names))

    def _macro(self, name: str, target: Code, names: frozenset[str]) -> Code:
        variable = self._next("name")
        self._expect(",")
        return values.comprehension(name, target, variable, self._closed(names | {variable}, ")"))

    def _arguments(self, names: frozenset[str]) -> list[Code]:
        found: list[Code] = []
        while not self._take(")"):
            if found:
                self._expect(",")
            found.append(self.expression(names))
        return found

    def _primary(self, names: frozenset[str]) -> Code:
        if self._take("("):
            return self._closed(names, ")")
        if self._take("["):
            return self._list(names)
        if self._take("{"):
            return self._map(names)
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "name":
            return self._named(token.text, names)
        return values.constant(_literal(token))

    def _named(self, name: str, names: frozenset[str]) -> Code:
        if name in _WORDS:
            return values.constant(_WORDS[name])
        if self._take("("):
            if name == "has":
                return self._has(names)
            return values.function(name, self._arguments(names))
        if name not in names:
            raise CelError(f"undeclared reference to '{name}'")
        return values.variable(name)

    def _has(self, names: frozenset[str]) -> Code:
        code = self._closed(names, ")")
        target = values.selection(code)
        if target is None:
            raise CelError("invalid argument to has() macro")
        return values.present(*target)

    def _list(self, names: frozenset[str]) -> Code:
        items: list[Code] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            items.append(self.expression(names))
        return lambda scope: [item(scope) for item in items]

    def _map(self, names: frozenset[str]) -> Code:
        pairs: list[tuple[Code, Code]] = []
        while not self._take("}"):
            if pairs:
                self._expect(",")
            key = self.expression(names)
            self._expect(":")
            pairs.append((key, self.expression(names)))
        return lambda scope: {key(scope): value(scope) for key, value in pairs}


def _literal(token: Token) -> Any:
    if token.kind == "int":
        return int(token.text)
    if token.kind == "float":
        return float(token.text)
    if token.kind == "raw":
        return token.text[2:-1]
    if token.kind == "str":
        return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), token.text[1:-1])
    raise CelError(f"syntax error at {token.text!r}")
