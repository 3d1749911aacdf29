"""What compiled CEL expressions do: selection, operators, macros, functions. Knows nothing of syntax."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Scope = Mapping[str, Any]
Code = Callable[[Scope], Any]


class CelError(Exception):
    """The expression is not understood, or its evaluation failed; the text is for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing, made by `.?field` and `[?index]`."""

    present: bool
    value: Any = None


@dataclass(frozen=True, slots=True)
class Select:
    """`target.name`; a class so that has() can take it apart."""

    target: Code
    name: str

    def __call__(self, scope: Scope) -> Any:
        found = self.target(scope)
        if isinstance(found, Optional):
            return _optional(found.value, self.name) if found.present else found
        return index(found, self.name)


def select(target: Code, name: str) -> Code:
    """A field of a map."""
    return Select(target, name)


def selection(code: Code) -> tuple[Code, str] | None:
    """The parts of a field selection, or None."""
    return (code.target, code.name) if isinstance(code, Select) else None


def present(target: Code, name: str) -> Code:
    """has(target.name)."""

    def run(scope: Scope) -> bool:
        found = target(scope)
        if isinstance(found, Optional):
            found = found.value if found.present else {}
        if not isinstance(found, dict):
            raise CelError("no such overload: has() on a value that is not a map")
        return name in found

    return run


def _optional(found: Any, key: Any) -> Optional:
    if isinstance(found, Optional):
        return _optional(found.value, key) if found.present else found
    if isinstance(found, dict):
        return Optional(key in found, found.get(key))
    if isinstance(found, list) and isinstance(key, int):
        return Optional(0 <= key < len(found), found[key] if 0 <= key < len(found) else None)
    raise CelError("no such overload: optional selection on a value that is neither map nor list")


def optional_select(target: Code, name: str) -> Code:
    """target.?name."""
    return lambda scope: _optional(target(scope), name)


def optional_index(target: Code, key: Code) -> Code:
    """target[?key]."""
    return lambda scope: _optional(target(scope), key(scope))


def constant(value: Any) -> Code:
    """A literal."""
    return lambda _: value


def variable(name: str) -> Code:
    """A name of the scope."""
    return lambda scope: scope[name]


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError("no such overload: a condition is not a bool")
    return value


def _absorbing(first: Code, second: Code, decisive: bool) -> Code:
    """`||` (decisive true) and `&&` (decisive false): an error counts only when the other side does not decide."""

    def run(scope: Scope) -> bool:
        try:
            left = _boolean(first(scope))
        except CelError:
            if _boolean(second(scope)) is decisive:
                return decisive
            raise
        return decisive if left is decisive else _boolean(second(scope))

    return run


def either(first: Code, second: Code) -> Code:
    """first || second."""
    return _absorbing(first, second, decisive=True)


def both(first: Code, second: Code) -> Code:
    """first && second."""
    return _absorbing(first, second, decisive=False)


def negated(code: Code) -> Code:
    """!code."""
    return lambda scope: not _boolean(code(scope))


def choose(condition: Code, then: Code, otherwise: Code) -> Code:
    """condition ? then : otherwise."""
    return lambda scope: then(scope) if _boolean(condition(scope)) else otherwise(scope)


def binary(function: Callable[[Any, Any], Any], left: Code, right: Code) -> Code:
    """A strict operator of two operands."""
    return lambda scope: function(left(scope), right(scope))


def equal(left: Any, right: Any) -> bool:
    """CEL's ==: true is not 1, and values of different kinds are unequal."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def contained(item: Any, container: Any) -> bool:
    """item in list, key in map."""
    if isinstance(container, dict):
        return item in container
    if isinstance(container, list):
        return any(equal(item, other) for other in container)
    raise CelError("no such overload: in")


def index(container: Any, key: Any) -> Any:
    """container[key]. Raises CelError for a missing key, as CEL does."""
    if isinstance(container, dict):
        if key not in container:
            raise CelError(f"no such key: {key}")
        return container[key]
    if isinstance(container, list) and isinstance(key, int):
        if not 0 <= key < len(container):
            raise CelError(f"index out of bounds: {key}")
        return container[key]
    raise CelError(f"no such overload: selecting {key!r}")


def _typed(function: Callable[[Any, Any], Any], *, arithmetic: bool) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        kinds = ((int, float), (str,), (list,)) if arithmetic and function is operator.add else ((int, float), (str,))
        for kind in kinds[: 1 if arithmetic and function is not operator.add else None]:
            if isinstance(left, kind) and isinstance(right, kind) and bool not in (type(left), type(right)):
                return function(left, right)
        raise CelError("no such overload")

    return run


RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _typed(operator.lt, arithmetic=False),
    "<=": _typed(operator.le, arithmetic=False),
    ">": _typed(operator.gt, arithmetic=False),
    ">=": _typed(operator.ge, arithmetic=False),
    "in": contained,
}


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise CelError("division by zero")
    return int(left / right) if isinstance(left, int) and isinstance(right, int) else left / right


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": _typed(operator.add, arithmetic=True),
    "-": _typed(operator.sub, arithmetic=True),
    "*": _typed(operator.mul, arithmetic=True),
    "/": _typed(_divide, arithmetic=True),
    "%": _typed(operator.mod, arithmetic=True),
}


def _items(found: Any) -> list[Any]:
    if isinstance(found, dict | list):
        return list(found)  # a map is walked by its keys
    raise CelError("no such overload: a macro needs a list or a map")


def comprehension(name: str, target: Code, bound: str, body: Code) -> Code:
    """all, exists, exists_one, filter, map over a list or a map's keys."""

    def run(scope: Scope) -> Any:
        results = ((item, body, {**scope, bound: item}) for item in _items(target(scope)))
        if name == "map":
            return [code(inner) for _, code, inner in results]
        if name == "filter":
            return [item for item, code, inner in results if _boolean(code(inner))]
        if name == "exists_one":
            return sum(_boolean(code(inner)) for _, code, inner in results) == 1
        return _fold([(code, inner) for _, code, inner in results], decisive=name == "exists")

    return run


def _fold(steps: list[tuple[Code, Scope]], *, decisive: bool) -> bool:
    failure: CelError | None = None
    for code, inner in steps:
        try:
            if _boolean(code(inner)) is decisive:
                return decisive
        except CelError as error:
            failure = error
    if failure is not None:
        raise failure
    return not decisive


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise CelError("no such overload: not a string")


def _of_optional(value: Any) -> Optional:
    if isinstance(value, Optional):
        return value
    raise CelError("no such overload: not an optional value")


def _size(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise CelError("no such overload: size")


_METHODS: dict[str, tuple[int, Callable[..., Any]]] = {
    "startsWith": (1, lambda text, start: _text(text).startswith(_text(start))),
    "endsWith": (1, lambda text, end: _text(text).endswith(_text(end))),
    "contains": (1, lambda text, part: _text(part) in _text(text)),
    "matches": (1, lambda text, pattern: re.search(_text(pattern), _text(text)) is not None),
    "lowerAscii": (0, lambda text: _text(text).lower()),
    "split": (1, lambda text, by: _text(text).split(_text(by))),
    "size": (0, _size),
    "hasValue": (0, lambda value: _of_optional(value).present),
    "value": (0, lambda value: _of_optional(value).value),
    "orValue": (1, lambda value, other: value.value if _of_optional(value).present else other),
}


_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "size": (1, _size),
    "string": (1, str),
    "int": (1, int),
}


def method(name: str, target: Code, arguments: list[Code]) -> Code:
    """A member function. Raises CelError when it is not one of the supported ones."""
    return _called(name, _METHODS, [target, *arguments], 1)


def function(name: str, arguments: list[Code]) -> Code:
    """A global function. Raises CelError when it is not one of the supported ones."""
    return _called(name, _FUNCTIONS, arguments, 0)


def _called(name: str, known: dict[str, tuple[int, Callable[..., Any]]], operands: list[Code], receivers: int) -> Code:
    found = known.get(name)
    if found is None or len(operands) != found[0] + receivers:
        raise CelError(f"found no matching overload for '{name}' with {len(operands) - receivers} arguments")
    return lambda scope: found[1](*(operand(scope) for operand in operands))
