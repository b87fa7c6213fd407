"""Tests that every regular expression in the source takes time linear in its text."""

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # how a pattern is made up, nothing else tells
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

import akin
import evaluation
import indexer
import models
import service
from service.resolve.identifiers import address_key
from tests.support.growing import grows_too_fast

PACKAGES: tuple[ModuleType, ...] = (akin, evaluation, indexer, models, service)
WAYS = {"search", "match", "fullmatch", "finditer", "findall", "split", "sub"}


@dataclass(frozen=True, slots=True)
class Used:
    """A pattern, the place where it is defined, and the methods it is used with."""

    where: str
    pattern: "re.Pattern[Any]"
    ways: frozenset[str]


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and the syntax tree of each module that uses regular expressions."""
    for package in PACKAGES:
        (root,) = map(Path, package.__path__)
        for path in sorted(root.rglob("*.py")):
            parts = (package.__name__, *path.relative_to(root).with_suffix("").parts)
            text = path.read_text(encoding="utf-8")
            if re.search(r"^import re$", text, re.MULTILINE):
                yield ".".join(parts).removesuffix(".__init__"), ast.parse(text)


def calls_of_re(tree: ast.AST) -> list[str]:
    """Return the functions of ``re`` that a tree calls, except ``re.escape``."""
    return [
        call.func.attr
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "re"
        and call.func.attr != "escape"
    ]


def methods_used(trees: list[ast.Module], name: str) -> frozenset[str]:
    """Return the methods used on the pattern ``name`` in ``trees``; three ways to match if there are none."""
    uses = {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }
    return frozenset(uses & WAYS) or frozenset({"search", "match", "fullmatch"})


def patterns() -> list[Used]:
    """Return every pattern of the packages."""
    found = []
    for name, tree in sources():
        if calls_of_re(tree):
            module = importlib.import_module(name)
            held = {key: each for key, each in vars(module).items() if isinstance(each, re.Pattern)}
            found += [Used(f"{name}.{key}", each, methods_used([tree], key)) for key, each in held.items()]
    return found


PATTERNS = patterns()


def sample(items: Any) -> str:
    """Return a shortest text that matches a part of a parsed pattern."""
    return "".join(one_of(code, given)[0] for code, given in items)


def one_of(code: Any, given: Any) -> list[str]:
    """Return texts that match one item; for a set, a character of each part."""
    if code in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
        return [sample(given[2]) * min(given[0], 50)]
    if code in {codes.SUBPATTERN, codes.ATOMIC_GROUP}:
        return [sample(given[3] if code is codes.SUBPATTERN else given)]
    if code is codes.BRANCH:
        return [sample(each) for each in given[1]]
    if code is codes.IN:
        return characters(given)
    if code is codes.NOT_LITERAL:
        return ["x" if given != ord("x") else "y"]
    return [{codes.LITERAL: chr(given) if code is codes.LITERAL else "", codes.ANY: "x"}.get(code, "")]


def characters(parts: Any) -> list[str]:
    """Return characters of a set."""
    if parts[0][0] is codes.NEGATE:
        inner = re.compile("[^" + "".join(map(re.escape, characters(parts[1:]))) + "]")
        return [each for each in "x1 \t(.," if inner.match(each)] or ["~"]
    kinds = {
        codes.CATEGORY_SPACE: [" ", "\n"],
        codes.CATEGORY_DIGIT: ["1"],
        codes.CATEGORY_WORD: ["a"],
        codes.CATEGORY_NOT_WORD: ["-", " "],
        codes.CATEGORY_NOT_SPACE: ["x"],
        codes.CATEGORY_NOT_DIGIT: ["x"],
    }
    found = []
    for code, given in parts:
        found += (
            [chr(given)]
            if code is codes.LITERAL
            else [chr(given[0])]
            if code is codes.RANGE
            else kinds.get(given, [])
        )
    return found


def pumps(items: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield, for each unbounded repetition of a pattern, the text before it and a text that it repeats."""
    for code, given in items:
        if code in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
            _, most, body = given
            if most == codes.MAXREPEAT:
                yield from ((before, text) for each in body for text in one_of(*each))
                yield before, sample(body)
            yield from pumps(body, before)
        elif code in {codes.SUBPATTERN, codes.ATOMIC_GROUP}:
            yield from pumps(given[3] if code is codes.SUBPATTERN else given, before)
        elif code is codes.BRANCH:
            for each in given[1]:
                yield from pumps(each, before)
        elif code in {codes.ASSERT, codes.ASSERT_NOT}:
            yield from pumps(given[1], before)
        before += one_of(code, given)[0]


def hostile(pattern: "re.Pattern[Any]") -> list[tuple[str, str, str]]:
    """Return the parts of long texts: a beginning, a text to repeat, and an end that may not match."""
    items = parser.parse(pattern.pattern, pattern.flags)
    whole = sample(items)
    repeated = dict.fromkeys(pumps(items))
    repeated |= dict.fromkeys([("", whole)])
    repeated |= dict.fromkeys(("", each) for each in whole)
    repeated |= dict.fromkeys(("", first + second) for first, second in pairwise(whole))
    repeated |= dict.fromkeys(("", before + body) for before, body in repeated)
    repeated |= dict.fromkeys(("", body) for _, body in repeated)
    return [(before, body, end) for before, body in repeated if body for end in ("", "\0", "x", "\n\0")]


def way_of(pattern: "re.Pattern[Any]", way: str) -> Callable[[Any], object]:
    """Return a function that applies the pattern in one way."""
    if way == "sub":
        return lambda text: pattern.sub("", text)
    if way == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    method: Callable[[Any], object] = getattr(pattern, way)
    return method


def slow_texts(used: Used) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the ways to use a pattern, with the texts for which time grows faster than their length."""
    for way in sorted(used.ways):
        ask = way_of(used.pattern, way)
        for before, body, end in hostile(used.pattern):

            def make(n: int, before: str = before, body: str = body, end: str = end) -> Any:
                text = before + body * (n // len(body)) + end
                return text.encode() if isinstance(used.pattern.pattern, bytes) else text

            if grows_too_fast(ask, make, size=500):
                yield way, (before, body, end)


def test_all_patterns_have_names() -> None:
    """Every pattern is compiled at module level; others would not be found by these tests."""
    nameless = {
        name
        for name, tree in sources()
        if len(calls_of_re(tree)) != sum(each.where.rpartition(".")[0] == name for each in PATTERNS)
    }
    assert set() == nameless
    assert len(PATTERNS) > 40


@pytest.mark.parametrize("used", PATTERNS, ids=[each.where for each in PATTERNS])
def test_time_is_linear(used: Used) -> None:
    """This also holds for repeated parts of the pattern, with an end at which the pattern must give up."""
    assert [] == list(slow_texts(used))


@pytest.mark.parametrize(
    ("way", "pattern"),
    [
        ("sub", r"^[A-Za-z]+://(?i:www\.|dx\.)?|/*#.*$|/+$"),
        ("split", r",\s+|\s+and\s+"),
        ("search", r">\s*(?:abstract|summary)\s*[:.]?\s*</"),
        ("fullmatch", r"\s*(?:\d\s*|\W+)"),
    ],
)
def test_patterns_that_are_not_linear_are_found(way: str, pattern: str) -> None:
    """The check finds patterns that are known not to be linear."""
    used = Used("", re.compile(pattern), frozenset({way}))
    assert next(slow_texts(used))


def test_an_address_is_read_in_linear_time() -> None:
    """This holds for an address of many slashes, fragment signs or line ends."""
    for body in ("/", "#", "/#", "#\n", "a://"):
        assert not grows_too_fast(address_key, lambda size, body=body: f"http://a{body * size}x")  # type: ignore[misc]  # ours
