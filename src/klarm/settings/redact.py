"""Removes secrets from text, however they are encoded there."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Set
from math import ceil
from string import ascii_lowercase, ascii_uppercase
from typing import TypeVar
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

HIDDEN = "…"
# A shorter piece of a URL reveals little, and occurs in harmless text as well.
MIN_PIECE = 4
# Words that occur in many URLs and in the error messages of services.
_WORDS = re.compile(
    "(alert|channel|event|hook|integration|message|path|room|service|token|trigger|webhook|workflow)s?"
    "|enqueue|incoming|invoke|manual|notify|send"
)
_BETWEEN_PIECES = re.compile(r"[/;:=,]")
_DIVIDER = re.compile(r"[/;:=,&?#@]")
# This many consecutive characters of a longer secret are no coincidence.
_MIN_FRAGMENT = 8
_BASE64_LETTER = re.compile(r"[A-Za-z0-9+/_-]|%2[BF]", re.ASCII | re.IGNORECASE)
_HEX_DIGIT = re.compile(r"[0-9a-fA-F]")
_NO_LETTERS = re.compile(r"\\[nrt]|0x")
_RUN_BEFORE = re.compile(r"(?:[\w+/-]|%2[BF])*$", re.ASCII | re.IGNORECASE)
_RUN_AFTER = re.compile(r"(?:[\w+/-]|%2[BF])*={0,2}", re.ASCII | re.IGNORECASE)
_ONLY_A_HOST = re.compile(r"https?://[^/?#@\s]+/?", re.IGNORECASE)
_FOR_ADDRESSES = str.maketrans("-_", "+/")
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
Span = tuple[int, int]
_Text = TypeVar("_Text", str, bytes)


def parts_of(secret: str) -> set[str]:
    """Return what must be hidden: the secret and, if it is a URL, each piece that may reveal it.

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
    if _ONLY_A_HOST.fullmatch(secret):
        return set()  # messages name the host anyway
    found = [address.path, address.query, address.fragment, address.netloc.rpartition("@")[0]]
    found += _BETWEEN_PIECES.split(address.path)
    for pair in re.split("[&;]", address.query):
        value = pair.partition("=")[2] or pair
        found += [value, *_BETWEEN_PIECES.split(value)]
    if address.scheme not in ("http", "https"):  # in Apprise URLs, the host may be a token
        host = ""
        found += address.netloc.replace("@", ":").split(":")
    pieces = {*found, *map(unquote, found), *map(unquote_plus, found)}
    pieces = {piece for piece in pieces if len(piece) >= MIN_PIECE}
    pieces = {p for p in pieces if not _WORDS.fullmatch(p.lower()) and p.lower() not in host}
    return whole | pieces | ({password, unquote(password)} - {""})


def fragments_of(secret: str) -> set[str]:
    """Return what must be hidden even in part: a token, or the smallest pieces of a URL.

    >>> sorted(fragments_of("https://a.org/hooks/x9Yzx9Yz?token=q7Rtq7Rt"))
    ['q7Rtq7Rt', 'x9Yzx9Yz']
    """
    if "://" not in secret:
        return {secret} if len(secret) >= _MIN_FRAGMENT else set()
    return {p for p in parts_of(secret) if len(p) >= _MIN_FRAGMENT and not _DIVIDER.search(p)}


def hide(parts: Iterable[str], text: str, fragments: Iterable[str] = ()) -> str:
    """Return a text without the parts, also if they are escaped, quoted, in base64 or in hex.

    Any eight consecutive characters of `fragments` are hidden, too.

    >>> hide({"s3cret"}, "bad login: s3cret, S3CRET, dXNlcjpzM2NyZXQ=, 733363726574")
    'bad login: …, …, …, …'
    >>> hide({"k7Qz9vXwLm2p"}, "no key k7Qz9vXw*** here", ["k7Qz9vXwLm2p"])
    'no key …*** here'
    """
    parts = set(parts)
    if not parts:
        return text
    revealing = {part for part in parts if len(part) >= MIN_PIECE}
    revealing |= {
        f[i : i + _MIN_FRAGMENT] for f in fragments for i in range(len(f) - _MIN_FRAGMENT + 1)
    }
    revealing = {piece.translate(_LOWER) for piece in revealing}
    text = _without_coded({piece.encode(errors="replace") for piece in revealing}, text)
    spellings = sorted({s for part in parts for s in _spellings(part)}, key=len, reverse=True)
    text = re.sub("|".join(map(re.escape, spellings)), HIDDEN, text, flags=re.IGNORECASE)
    return _covered(text, _found(revealing, text.translate(_LOWER)))


def _spellings(part: str) -> Iterator[str]:
    as_json = [json.dumps(part, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    # Some JSON encoders escape the slash with a backslash.
    for text in (part, *as_json, *(text.replace("/", "\\/") for text in as_json)):
        yield from (text, html.escape(text), quote(text), quote(text, safe=""), quote_plus(text))


def _without_coded(revealing: Set[bytes], text: str) -> str:
    """Return a text without stretches that decode, from base64 or hex, to something secret.

    The code may be wrapped or follow a word directly, so decoding is tried at every alignment.
    """
    spans: list[Span] = []
    for letters, digits, decode in (
        (_BASE64_LETTER, 4, _from_base64),
        (_HEX_DIGIT, 2, bytes.fromhex),
    ):
        # Escaped line breaks and prefixes such as 0x are not part of the code.
        read = list(letters.finditer(_NO_LETTERS.sub(_blanked, text)))
        said = "".join(unquote(found[0]) for found in read)
        per_byte = digits / len(decode("A" * digits))
        for start in range(digits):
            decoded = decode(said[start:] + "A" * (-len(said[start:]) % digits))
            for begin, end in _found(revealing, decoded.lower()):
                last = min(start + ceil(end * per_byte), len(read)) - 1
                spans.append((read[start + int(begin * per_byte)].start(), read[last].end()))
    return _covered(text, [_whole_run(text, *span) for span in spans])


def _from_base64(letters: str) -> bytes:
    return base64.b64decode(letters.translate(_FOR_ADDRESSES))


def _found(pieces: Iterable[_Text], text: _Text) -> list[Span]:
    """Return every span at which one of the pieces occurs."""
    spans = []
    for piece in pieces:
        at = text.find(piece)
        while at >= 0:
            spans.append((at, at + len(piece)))
            at = text.find(piece, at + 1)
    return spans


def _whole_run(text: str, begin: int, end: int) -> Span:
    """Return a span extended by the letters around it, which belong to the same code."""
    before = _RUN_BEFORE.search(text[:begin])
    after = _RUN_AFTER.match(text, end)
    return begin - len(before[0] if before else ""), after.end() if after else end


def _covered(text: str, spans: Iterable[Span]) -> str:
    """Return a text in which each stretch covered by spans is replaced by one mark."""
    kept, at = [], 0
    for begin, end in sorted(spans):
        if end > at:
            if begin > at or not at:
                kept += [text[at:begin], HIDDEN]
            at = end
    return "".join(kept) + text[at:]


def _blanked(found: re.Match[str]) -> str:
    return " " * len(found[0])
