"""What of a secret must not be seen in a text, and how it is found there, however it is spelt."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

HIDDEN = "…"
SHORTEST_PIECE = 4  # a shorter piece of an address tells little, and stands in harmless texts too
# What stands in many addresses, and in what services say of them.
_WORDS = re.compile(
    "(alert|channel|event|hook|integration|message|path|room|service|token|trigger|webhook|workflow)s?"
    "|enqueue|incoming|invoke|manual|notify|send"
)
_BETWEEN_PIECES = re.compile(r"[/;:=,]")
_MAY_BE_BASE64 = re.compile(r"(?:[\w+/-]|%2[BF])+={0,2}", re.ASCII | re.IGNORECASE)
_FOR_ADDRESSES = str.maketrans("-_", "+/")


def parts_of(secret: str) -> set[str]:
    """Return what must not be seen: the whole and, of an address, each piece that may be telling.

    >>> sorted(parts_of("https://a.org/hooks/x9Yz?token=q7Rt"))[-2:]
    ['token=q7Rt', 'x9Yz']
    """
    if not secret:
        return set()
    whole = {secret}
    try:
        address = urlsplit(secret)
        password, host = address.password or "", address.hostname or ""
    except ValueError:
        return whole
    if "://" not in secret:
        return whole
    found = [address.path, address.query, address.fragment, address.netloc.rpartition("@")[0]]
    found += _BETWEEN_PIECES.split(address.path)
    for pair in re.split("[&;]", address.query):
        value = pair.partition("=")[2] or pair
        found += [value, *_BETWEEN_PIECES.split(value)]
    if address.scheme not in ("http", "https"):  # apprise has tokens for hosts
        host = ""
        found += address.netloc.replace("@", ":").split(":")
    pieces = {*found, *map(unquote, found), *map(unquote_plus, found)}
    pieces = {piece for piece in pieces if len(piece) >= SHORTEST_PIECE}
    pieces = {p for p in pieces if not _WORDS.fullmatch(p.lower()) and p.lower() not in host}
    return whole | pieces | ({password, unquote(password)} - {""})


def hide(parts: Iterable[str], text: str) -> str:
    """Return a text without the parts: as they are, escaped, quoted, or in base64.

    >>> hide({"s3cret"}, "bad login: s3cret, S3CRET, dXNlcjpzM2NyZXQ=")
    'bad login: …, …, …'
    """
    parts = set(parts)
    if not parts:
        return text
    coded = [part.encode() for part in parts]

    def unless_telling(found: re.Match[str]) -> str:
        telling = any(part in said for said in _decoded(found[0]) for part in coded)
        return HIDDEN if telling else found[0]

    text = _MAY_BE_BASE64.sub(unless_telling, text)
    spellings = sorted({s for part in parts for s in _spellings(part)}, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, spellings)), HIDDEN, text, flags=re.IGNORECASE)


def _spellings(part: str) -> Iterator[str]:
    as_json = [json.dumps(part, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    # Some write the slash of a JSON text with a backslash.
    for told in (part, *as_json, *(text.replace("/", "\\/") for text in as_json)):
        yield from (told, html.escape(told), quote(told), quote(told, safe=""), quote_plus(told))


def _decoded(text: str) -> Iterator[bytes]:
    """Return what a text is if it is base64: from any letter on, since others may stand before."""
    letters = unquote(text).rstrip("=").translate(_FOR_ADDRESSES)
    for start in range(4):
        rest = letters[start:]
        rest = rest[:-1] if len(rest) % 4 == 1 else rest
        yield base64.b64decode(rest + "=" * (-len(rest) % 4))
