"""Strikes credentials out of what is said to people: by value where one is known, by form everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json import dumps
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from pyiceberg.utils.config import Config

SECRET = re.compile(
    r"secret|passw|pwd|passphrase|token|credential|authorization|cookie|signature|connection.?string|shared.?access"
    r"|(access|account|api|private|encryption).?key|(^|[^a-z])(sig|sas)($|[^a-z])",
    re.IGNORECASE,
)
"""Matches the name of a setting or parameter whose value is a credential; also Spark's redaction pattern."""
HEADER = "header."
"""How settings begin that are sent to a REST catalog as headers. Any of them may be a gateway's key."""
LEAST = 6
"""Characters from which on a value counts as a credential by where it stands, though its name does not say so."""
STRUCK = "***"

# each with a bound, as a message may be a megabyte that somebody chose
_LOGIN = re.compile(r"(?<=://)(?P<user>[^/@:\s?#]{0,200}+):(?P<password>[^\s@]{1,2000}+(?:@[^\s@/]{1,200}+){0,9})@")
_USER = re.compile(r"(?<=://)(?P<token>[^/@:\s?#]{16,2000}+)@")
_NAME = (
    r"(?:secret|passw|pwd|passphrase|token|credential|authorization|cookie|signature|connection.?string"
    r"|shared.?access|(?:access|account|api|private|encryption)[ _.\-]?key)[\w.\-]{0,80}|(?<![a-z])(?:sig|sas)"
)
_PAIR = re.compile(
    rf"(?P<name>(?i:{_NAME}))(?P<between>[\"']?\s{{0,9}}(?:=|:(?!//)|%3[dD])\s{{0,9}})"
    r"(?:(?i:bearer|basic|token)\s{1,9})?"
    r"(?:\"(?:[^\"\\]|\\.){0,2000}\"|'(?:[^'\\]|\\.){0,2000}'|[\"']?[^\s&;,\"'(){}\[\]<>|]+)"
)
_HEADER_LINE = re.compile(r"(?P<name>(?i:\b(?:set-)?cookie|\b(?:proxy-)?authorization)[\"']?\s*[:=]\s*)[^\r\n\"']+")
_SCHEME = re.compile(r"(?P<scheme>\b(?i:bearer|basic|negotiate))\s+[A-Za-z0-9._~+/=\-]{8,}")
_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)?"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bhf_[A-Za-z0-9]{20,}|\bya29\.[A-Za-z0-9_\-.]+",
    re.DOTALL,
)
"""Matches private keys, JSON web tokens, and tokens whose beginning says what they are."""

_known: dict[str, None] = {}
_MOST_KNOWN = 1000


def remember_secrets(properties: Mapping[str, object]) -> None:
    """Let `redacted` strike out the credentials of these catalog properties from now on, in this process."""
    _known.update(dict.fromkeys(_secrets(properties)))
    while len(_known) > _MOST_KNOWN:
        del _known[next(iter(_known))]


def redacted(text: str) -> str:
    """Return the text without any credential of a catalog that is configured or was opened, or that looks like one."""
    secrets = set(_known)
    try:
        catalogs = Config().config.get("catalog", {})
    except ValueError:
        catalogs = {}
    for properties in catalogs.values() if isinstance(catalogs, dict) else ():
        secrets |= set(_secrets(properties if isinstance(properties, dict) else {}))
    return _without(text, secrets)


def without_secrets(text: str, properties: Mapping[str, object]) -> str:
    """Return the text without any credential of these catalog properties, or that looks like one."""
    return _without(text, set(_secrets(properties)))


def _without(text: str, secrets: set[str]) -> str:
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, STRUCK)
    text = _FORMS.sub(STRUCK, text)
    text = _LOGIN.sub(rf"\g<user>:{STRUCK}@", text)
    text = _USER.sub(f"{STRUCK}@", text)
    text = _HEADER_LINE.sub(rf"\g<name>{STRUCK}", text)
    text = _PAIR.sub(rf"\g<name>\g<between>{STRUCK}", text)
    return _SCHEME.sub(rf"\g<scheme> {STRUCK}", text)


def _forms(secret: str) -> Iterator[str]:
    """Yield the ways in which a library may write a credential."""
    for form in (secret, unquote(secret), unquote_plus(secret)):
        yield from filter(
            None, (form, quote(form, safe=""), quote(form), quote_plus(form), repr(form)[1:-1], dumps(form)[1:-1])
        )


def _secrets(properties: Mapping[str, object], by_place: bool = False) -> Iterator[str]:
    """Yield the credentials among a catalog's properties, those in nested ones too.

    Args:
        properties: of a catalog, or of one of its nested settings.
        by_place: whether any of them may be a credential, whatever its name.
    """
    for name, value in properties.items():
        named, placed = bool(SECRET.search(name)), by_place or name.startswith(HEADER)
        if isinstance(value, Mapping):
            # settings of an authentication of the user's own may have any name
            yield from _secrets(value, named or placed or name == "custom")
            continue
        text = str(value)
        if named or (placed and len(text) >= LEAST):
            yield from _parts(text)
        if login := _LOGIN.search(text):
            yield login["password"]
        for parameter in re.split(r"[?&]", text)[1:]:
            parameter_name, _, parameter_value = parameter.partition("=")
            if SECRET.search(parameter_name) and parameter_value:
                yield parameter_value


def _parts(credential: str) -> Iterator[str]:
    """Yield a credential and its parts that are one: a client's secret without its id, a connection string's key."""
    yield credential
    if re.fullmatch(r"[^\s:;/]+:(?!//)\S+", credential):
        yield credential.partition(":")[2]
    for part in credential.split(";") if ";" in credential else ():
        name, _, value = part.partition("=")
        if SECRET.search(name):
            yield value
