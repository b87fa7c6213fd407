"""Hostile requests, as programs send them by mistake and people on purpose, for every endpoint.

Everything that an answer must not repeat has ``MARK`` in it.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI

from tests.support.servers.asgi import MARK, Poison


def schema_of(app: FastAPI, method: str, path: str) -> dict[str, Any] | None:
    """Return the JSON schema of an endpoint's body; ``None`` if it takes no body."""
    content = app.openapi()["paths"][path][method.lower()].get("requestBody", {}).get("content", {})
    schema: dict[str, Any] | None = content.get("application/json", {}).get("schema")
    return schema


# Replacements of any value of a body, as JSON text.
VALUES: dict[str, str] = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "1e999": "1e999",
    "-0.0": "-0.0",
    "2**63": str(2**63),
    "5,000 digits": "9" * 5_000,
    "a million digits": "9" * 1_000_000,
    "1e-400": "1e-400",
    "null": "null",
    "true": "true",
    "empty text": '""',
    "blank text": '" \\n\\t"',
    "NUL": f'"{MARK}\\u0000"',
    "lone high surrogate": f'"{MARK}\\ud800"',
    "lone low surrogate": f'"\\udfff{MARK}"',
    "reversed surrogates": '"\\udc00\\ud800"',
    "bidi": f'"\u202e{MARK}\u2066\u200f"',
    "BOM": f'"\ufeff{MARK}"',
    "combining marks": '"a' + "\u0301" * 5_000 + '"',
    "zero width": '"' + "\u200b" * 500 + '"',
    "a ligature that grows": '"' + "\ufdfa" * 2_000 + '"',
    "long text": f'"{MARK * 20_000}"',
    "traversal": f'"../../../../etc/passwd{MARK}"',
    "CRLF": f'"{MARK}\\r\\nX-Injected: 1"',
    "markup": f'"<script>{MARK}</script>"',
    "template": '"${7*7}{{7*7}}%n%s"',
    "SQL": '"\' OR 1=1 --"',
    "formula": f'"=cmd|{MARK}"',
    "empty array": "[]",
    "empty object": "{}",
    "nested arrays": "[" * 900 + "]" * 900,
    "an array of null": "[null]",
    "50,000 zeros": "[" + "0," * 50_000 + "0]",
    "50,000 texts": "[" + '"a",' * 50_000 + '"a"]',
    "50,000 objects": "[" + "{}," * 50_000 + "{}]",
    "5,000 unknown fields": "{" + ",".join(f'"{MARK}{i}":0' for i in range(5_000)) + "}",
    "unknown field": f'{{"{MARK}": 1}}',
    "surrogate field": '{"\\ud800": 1}',
    "__proto__": '{"__proto__": {}, "$ref": "#"}',
    "a number as text": '"1"',
    "a fraction": "0.5",
    "minus one": "-1",
}

# Whole bodies, in the chunks in which they arrive.
BODIES: dict[str, Sequence[bytes]] = {
    "nothing": (),
    "null": (b"null",),
    "a number": (b"1",),
    "text": (b'"' + MARK.encode() + b'"',),
    "array": (b"[]",),
    "open brace": (b"{",),
    "trailing comma": (b'{"a":1,}',),
    "two documents": (b"{}{}",),
    "comment": (b"{} // x",),
    "single quotes": (b"{'a': 1}",),
    "NaN alone": (b"NaN",),
    "nul byte": (b"\0",),
    "half a byte pair": (b"\xff\xfe",),
    "latin-1": b'{"query": "\xe9"}'.split(b"|"),
    "overlong": (b'{"a": "\xc0\xaf"}',),
    "utf-16": ("{}".encode("utf-16"),),
    "utf-32": ("{}".encode("utf-32"),),
    "encoded surrogate": (b'{"a": "\xed\xa0\x80"}',),
    "BOM": (b"\xef\xbb\xbf{}",),
    "deep arrays": (b"[" * 100_000,),
    "deep closed arrays": (b"[" * 100_000 + b"]" * 100_000,),
    "deep objects": (b'{"query":' * 50_000,),
    "deep closed objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000,),
    "a million digits": (b"9" * 1_000_000,),
    "a million digits in a field": (b'{"limit": ' + b"9" * 1_000_000 + b"}",),
    "spaces": (b" " * 500_000,),
    "one byte at a time": [b'{"a":1}'[i : i + 1] for i in range(7)],
    "empty chunks": [b""] * 500 + [b"{}"],
    "too large": (b" " * 2_100_000,),
    "too large in parts": [b" " * 100_000] * 25,
    "endless array": (b"[" + b"0," * 900_000 + b"0]",),
    "duplicate keys": (b'{"query": {}, "query": 1, "query": {}}',),
    "170,000 keys": (b"{" + b",".join(b'"%d":0' % i for i in range(170_000)) + b"}",),
    "a long key": (b'{"' + b"k" * 1_000_000 + b'": 1}',),
    "form": (b"a=1&b=2",),
    "multipart": (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n',),
    "xml": (b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',),
    "yaml": (b"!!python/object/apply:os.system [id]",),
    "pickle": (b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00.",),
}

# In a path, percent-encoded as a server receives it.
PATHS: dict[str, str] = {
    "traversal": "..%2F..%2F..%2Fetc%2Fpasswd",
    "plain traversal": "../../../etc/passwd",
    "encoded dots": "%2e%2e%2f" * 5,
    "backslashes": "..%5C..%5Cwindows",
    "NUL": f"{MARK}%00.json",
    "CRLF": f"{MARK}%0d%0aX-Injected:%201",
    "bad UTF-8": "%ff%fe%c0%af",
    "overlong slash": "%c0%ae%c0%ae%c0%af",
    "bidi": quote(f"\u202e{MARK}"),
    "blank": "%20",
    "surrogates": "%ed%a0%80",
    "long": MARK * 500,
    "a query mark": f"{MARK}%3Fa=1%23b",
    "percent": f"{MARK}%25%32%65",
    "not a number": "NaN",
    "a number": "9" * 5_000,
    "slashes": "///////",
    "a template": "%7B%7B7*7%7D%7D",
    "markup": f"%3Cscript%3E{MARK}",
    "SQL": "'%20OR%201=1--",
    "a prefix": f"DOI:10.1/{MARK}",
    "an empty prefix": "DOI:",
    "an arXiv id": "ARXIV:9999.99999v99",
    "a corpus id": "CorpusId:" + "9" * 400,
    "another prefix": "ACL:..%2F..",
    "a colon": ":",
    "an export": f"{MARK}.bib",
    "semicolon": f"{MARK};a=b",
    "half an escape": "%",
    "no escape": "%zz",
}

QUERIES: dict[str, bytes] = {
    "bad UTF-8": b"q=%ff%fe&title=%c0%af&limit=%00",
    "NaN": b"limit=NaN&offset=NaN&size=1e999&focus=inf",
    "a number too large": b"limit=" + b"9" * 5_000 + b"&offset=" + b"9" * 5_000,
    "minus": b"limit=-1&offset=-1&skip=-1",
    "empty": b"limit=&q=&title=&text=&query=&fields=&cursor=&format=",
    "repeated": b"&".join([b"title=a", b"limit=1"] * 2_000),
    "long": b"title=" + MARK.encode() * 5_000,
    "long text": b"query=" + MARK.encode() * 5_000 + b"&q=" + MARK.encode() * 5_000,
    "NUL": b"title=%00&query=%00&q=%00",
    "surrogates": b"title=%ed%a0%80&query=%ed%a0%80",
    "bidi": b"title=%E2%80%AE" + MARK.encode(),
    "CRLF": b"title=%0d%0aX-Injected:1&cursor=%0d%0a",
    "traversal": b"title=../../etc/passwd&format=../../etc/passwd&fields=../..",
    "no names": b"&&&===&&",
    "raw bytes": b"\xff\xfe=\x80",
    "a cursor": b"cursor=" + MARK.encode(),
    "a long cursor": b"cursor=" + b"A" * 8_000,
    "a binary cursor": b"cursor=%00%01%02",
    "fields": b"fields=" + b"title," * 2_000,
    "a field nobody has": b"fields=" + MARK.encode() + b"&format=" + MARK.encode(),
    "from": b"from=" + MARK.encode() + b"&pool=" + MARK.encode() + b"&year=" + MARK.encode(),
    "SQL": b"title=%27%20OR%201=1--&query=%25%25%25___",
    "a formula": b"title==cmd&query=%2B%2D%40",
}

HEADERS: dict[str, tuple[tuple[bytes, bytes], ...]] = {
    "a bomb": ((b"content-encoding", b"gzip"),),
    "deflate": ((b"content-encoding", b"deflate"),),
    "two encodings": ((b"content-encoding", b"gzip, br"),),
    "an encoding nobody has": ((b"content-encoding", MARK.encode()),),
    "a length that lies": ((b"content-length", b"5"),),
    "a length too large": ((b"content-length", b"9" * 30),),
    "a length below 0": ((b"content-length", b"-1"),),
    "no number for a length": ((b"content-length", MARK.encode()),),
    "an odd digit for a length": ((b"content-length", "²".encode()),),
    "a key that is none": ((b"authorization", b"Bearer " + MARK.encode()),),
    "half a scheme": ((b"authorization", b"Bearer"),),
    "binary credentials": ((b"authorization", b"Bearer \xff\xfe\x00"),),
    "basic": ((b"authorization", b"Basic YTpi"),),
    "a long key": ((b"x-api-key", b"a" * 10_000),),
    "a key in pieces": ((b"x-api-key", b"akin__"),),
    "no host": ((b"host", b""),),
    "binary header": ((b"x-request-id", b"\xff\xfe"),),
    "its own request id": ((b"x-request-id", MARK.encode()),),
    "accept nothing": ((b"accept", b""),),
    "accept what is not there": ((b"accept", MARK.encode() + b"/x"),),
    "accept nonsense": ((b"accept", b",;q=NaN,*/*;q=" + b"9" * 500),),
    "accept a table": ((b"accept", b"text/csv"),),
    "accept many": ((b"accept", b"text/csv;q=0.1," * 3_000),),
    "a language": ((b"accept-language", b"\xff"),),
    "an origin": ((b"origin", b"null"),),
    "forwarded": ((b"x-forwarded-for", MARK.encode()), (b"x-forwarded-proto", b"\xff")),
    "a range": ((b"range", b"bytes=0-" + b"9" * 99),),
    "a cookie": ((b"cookie", b"a=" + b"\xff" * 5_000),),
    "an expectation": ((b"expect", b"200-ok"),),
    "a method override": ((b"x-http-method-override", b"DELETE"),),
    "idempotency": ((b"idempotency-key", b"\xff" * 1_000),),
}

TYPES: tuple[bytes | None, ...] = (
    None,
    b"",
    b"text/plain",
    b"application/x-www-form-urlencoded",
    b"multipart/form-data",
    b"multipart/form-data; boundary=x",
    b"multipart/form-data; boundary=" + b"x" * 3_000,
    b"application/xml",
    b"application/json; charset=utf-7",
    b"application/json; charset=" + MARK.encode(),
    b"application/octet-stream",
    b"application/vnd.api+json",
    b"json",
    b"application/",
    b"/",
    b";;;",
    b"\xff\xfe",
    b"application/json, text/csv",
    b"application/x-ndjson",
    b"x" * 5_000,
)


def examples(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return a value that fits the schema, with every field that the schema names."""
    if "$ref" in schema:
        return examples(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return examples(schema[union][0], schemas)
    if "properties" in schema:
        return {name: examples(each, schemas) for name, each in schema["properties"].items()}
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [examples(schema["items"], schemas)]
    least = schema.get("minimum", 1)
    return {"integer": least, "number": least, "boolean": False, "string": "We fit a graph. It holds."}.get(
        schema.get("type", ""), {}
    )


def poisoned(example: Any, value: str) -> Iterator[str]:
    """Yield the example as JSON with ``value`` instead of each of its parts in turn, and of the whole."""
    if isinstance(example, dict):
        for name, each in example.items():
            rest = json.dumps({other: example[other] for other in example if other != name})[1:-1]
            for inner in poisoned(each, value):
                yield f"{{{rest}{', ' if rest else ''}{json.dumps(name)}: {inner}}}"
    elif isinstance(example, list):
        for i, each in enumerate(example):
            for inner in poisoned(each, value):
                before = "".join(json.dumps(other) + ", " for other in example[:i])
                yield f"[{before}{inner}]"
    yield value


def parameters(app: FastAPI, method: str, path: str) -> dict[str, str]:
    """Return the query parameters of an endpoint with valid values; optional ones are empty."""
    given = app.openapi()["paths"][path][method.lower()].get("parameters", [])
    return {each["name"]: "flood" if each["required"] else "" for each in given if each["in"] == "query"}


def poisons(bodies: Sequence[Any], parameters: Mapping[str, str]) -> Iterator[Poison]:
    """Yield hostile requests for an endpoint with these bodies (empty: it takes no body) and parameters."""
    required = [f"{name}={value}" for name, value in parameters.items() if value]
    # One result for each answer is enough.
    required += ["limit=1"] if "limit" in parameters else []
    good = json.dumps(bodies[0]).encode() if bodies else b""
    for name, chunks in BODIES.items():
        yield Poison(f"body: {name}", chunks)
    for name, named in PATHS.items():
        yield Poison(f"path: {name}", (good,), path=named)
    for name, query in QUERIES.items():
        yield Poison(f"query: {name}", (good,), query=query)
    for name, headers in HEADERS.items():
        bomb = gzip.compress(b"0" * 10_000_000) if name == "a bomb" else good
        yield Poison(f"header: {name}", (bomb,), headers=headers)
    for content_type in TYPES:
        yield Poison(f"type: {content_type!r}"[:60], (good,), content_type=content_type)
    for turn, (name, value) in enumerate(VALUES.items()):
        in_url = quote(value.encode()[:3_000])
        yield Poison(f"path value: {name}", (good,), path=in_url)
        for parameter in {**parameters, "title": "", "limit": ""}:
            rest = [each for each in required if not each.startswith(f"{parameter}=")]
            query = "&".join([*rest, f"{parameter}={in_url}"])
            yield Poison(f"{parameter}: {name}", (good,), query=query.encode())
        for example in bodies or [None]:
            places = list(poisoned(example, value))
            # Each value takes a third of the places, the next value another third; and always the whole body.
            for body in [*places[turn % 3 : -1 : 3], places[-1]]:
                yield Poison(f"value: {name} in {body[:150]}", (body.encode(),))
