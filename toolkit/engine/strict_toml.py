"""TOML into frozen dataclasses, strictly, with every mistake of a document reported at once.

Nothing is coerced: a number is not taken for a string, nor a string for a list of characters. What a class demands of
its fields beyond their types is given as rules, so that a broken rule is reported beside the mistakes of other tables.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from cattrs import BaseValidationError, ClassValidationError, Converter, IterableValidationError
from cattrs.errors import ForbiddenExtraKeysError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

_T = TypeVar("_T")

FieldRule = Callable[[Any], str]
"""Says what is wrong with a value of the right type, '' when nothing is."""

TableRule = Callable[[Any], Iterator[tuple[str, str]]]
"""Yields (key, problem) for what is wrong between the fields of a table; the key '' means the table itself."""

_WORDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class _RuleError(ValueError):
    def __init__(self, problem: str, key: str = "") -> None:
        super().__init__(problem)
        self.key = key


def strict_converter(*words: type[StrEnum]) -> Converter:
    """Return a converter for strings, whole numbers, booleans, tuples and these enums, that coerces none of them."""
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    for vocabulary in words:
        converter.register_structure_hook(vocabulary, _word)
    converter.register_structure_hook_factory(lambda cls: getattr(cls, "__origin__", None) is tuple, _tuple_hook)
    return converter


def add_class(
    converter: Converter,
    cls: type[Any],
    rules: Mapping[str, FieldRule] | None = None,
    table_rule: TableRule | None = None,
) -> None:
    """Teach the converter a dataclass, after the classes of its fields; a field's underscores are hyphens in TOML.

    Args:
        converter: what `strict_converter` returned.
        cls: the dataclass.
        rules: field name -> rule.
        table_rule: runs when every field of the table is right.
    """
    overrides = {}
    for field in fields(cls):
        key = field.name.replace("_", "-")
        rule = (rules or {}).get(field.name)
        overrides[field.name] = (
            override(rename=key) if rule is None else override(rename=key, struct_hook=_ruled(converter, rule))
        )
    build = make_dict_structure_fn(cls, converter, **overrides)  # type: ignore[arg-type]

    def structure(value: Any, target: Any) -> Any:
        made = build(_exactly(dict)(value, target), target)
        broken = [_RuleError(problem, key) for key, problem in table_rule(made)] if table_rule else []
        if broken:
            raise ClassValidationError("rules between fields", broken, cls)
        return made

    converter.register_structure_hook(cls, structure)


def read_toml(
    converter: Converter, cls: type[_T], text: str, expected: Mapping[str, str] | None = None
) -> tuple[_T | None, list[str]]:
    """Return a document's value and no problem, or None and every problem as ``key: what is wrong``.

    Args:
        converter: knows the class.
        cls: what the whole document is.
        text: TOML.
        expected: top-level keys whose value is known from where the document lies.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return None, [f"not TOML: {error}"]
    problems = []
    for key, wanted in (expected or {}).items():
        found = document.get(key)
        if isinstance(found, str) and found != wanted:
            problems.append(f"{key}: is {found!r}, but the folder says {wanted!r}")
    try:
        value = converter.structure(document, cls)
    except BaseValidationError as error:
        return None, problems + [f"{path}: {problem}" if path else problem for path, problem in _problems(error, "")]
    return (None, problems) if problems else (value, [])


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not kind:  # isinstance would take true for the number 1
            raise _RuleError(f"is {value!r}, not {_WORDS[kind]}")
        return value

    return check


def _word(value: Any, cls: type[StrEnum]) -> StrEnum:
    words = [member.value for member in cls]
    if value not in words:
        raise _RuleError(f"is {value!r}, not one of {', '.join(words)}")
    return cls(value)


def _ruled(converter: Converter, rule: FieldRule) -> Callable[[Any, Any], Any]:
    def structure(value: Any, target: Any) -> Any:
        made = converter.structure(value, target)
        problem = rule(made)
        if problem:
            raise _RuleError(problem)
        return made

    return structure


def _tuple_hook(cls: Any, converter: Converter) -> Callable[[Any, Any], tuple[Any, ...]]:
    element = cls.__args__[0]
    inner = converter.get_structure_hook(element)

    def structure(value: Any, target: Any) -> tuple[Any, ...]:
        made, broken = [], []
        for index, item in enumerate(_exactly(list)(value, target)):
            try:
                made.append(inner(item, element))
            except (_RuleError, BaseValidationError) as error:
                error.add_note(IterableValidationNote("", index, element))
                broken.append(error)
        if broken:
            raise IterableValidationError("elements", broken, cls)
        return tuple(made)

    return structure


def _problems(error: Exception, path: str) -> Iterator[tuple[str, str]]:
    """Yield (key path, problem) for every leaf of the nested errors; elements of lists count from 1."""
    if isinstance(error, ClassValidationError):
        below, own = error.group_exceptions()
        for inner, note in below:
            yield from _problems(inner, _join(path, note.name.replace("_", "-")))
        for inner in own:
            yield from _problems(inner, path)
    elif isinstance(error, IterableValidationError):
        for inner, place in error.group_exceptions()[0]:
            yield from _problems(inner, f"{path} #{int(place.index) + 1}")
    elif isinstance(error, ForbiddenExtraKeysError):
        known = ", ".join(field.name.replace("_", "-") for field in fields(error.cl))
        for key in sorted(error.extra_fields):
            yield _join(path, key), f"is an unknown key; the keys here are {known}"
    elif isinstance(error, KeyError):
        yield path, "is missing"
    else:
        key = error.key if isinstance(error, _RuleError) else ""
        yield _join(path, key) if key else path, str(error)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
