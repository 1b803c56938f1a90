"""From when until when a certificate is valid; `ssl` tells it of a peer's certificate alone.

What is read of it (RFC 5280, 4.1), each value as DER's tag, length, content:

    SEQUENCE certificate
        SEQUENCE to be signed
            [0] version, if it is not the first; INTEGER serial; SEQUENCE algorithm; SEQUENCE issuer
            SEQUENCE validity: two times, UTCTime or GeneralizedTime
"""

import ssl
from datetime import UTC, datetime
from typing import Final, NamedTuple

BEGIN: Final = "-----BEGIN CERTIFICATE-----"
END: Final = "-----END CERTIFICATE-----"
_SEQUENCE, _VERSION, _UTC_TIME, _TIME = 0x30, 0xA0, 0x17, 0x18
_BEFORE_VALIDITY: Final = 3
"""Serial, algorithm, issuer."""
_FORMS: Final = {_UTC_TIME: "%y%m%d%H%M%SZ", _TIME: "%Y%m%d%H%M%SZ"}


class Validity(NamedTuple):
    not_before: datetime
    not_after: datetime


class DerValue(NamedTuple):
    tag: int
    begin: int
    end: int


def validity_of(pem: str) -> Validity:
    """Of the first certificate in it. Raises `ValueError` when there is none that can be read."""
    _, begin, rest = pem.partition(BEGIN)
    body, end, _ = rest.partition(END)
    if not (begin and end):
        raise ValueError("it holds no certificate in PEM")
    der = ssl.PEM_cert_to_DER_cert(begin + body + end)
    try:
        return _validity(der)
    except (IndexError, UnicodeDecodeError) as wrong:
        raise ValueError("its certificate cannot be read") from wrong


def _validity(der: bytes) -> Validity:
    certificate = _inside(der, _value(der, 0))
    at = _inside(der, _value(der, certificate))
    value = _value(der, at)
    if value.tag == _VERSION:
        at = value.end
    for _ in range(_BEFORE_VALIDITY):
        at = _value(der, at).end
    first = _value(der, _inside(der, _value(der, at)))
    return Validity(_time(der, first), _time(der, _value(der, first.end)))


def _inside(der: bytes, value: DerValue) -> int:
    if value.tag != _SEQUENCE:
        raise ValueError("its certificate cannot be read")
    return value.begin


def _value(der: bytes, at: int) -> DerValue:
    """Raises `IndexError` behind the end."""
    tag, length = der[at], der[at + 1]
    begin = at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[begin : begin + size], "big")
        begin += size
    if begin + length > len(der):
        raise IndexError
    return DerValue(tag, begin, begin + length)


def _time(der: bytes, value: DerValue) -> datetime:
    """Raises `ValueError`. Two digits of a year mean 1950 to 2049."""
    form = _FORMS.get(value.tag)
    if form is None:
        raise ValueError("its certificate cannot be read")
    found = datetime.strptime(der[value.begin : value.end].decode("ascii"), form)
    if value.tag == _UTC_TIME and found.year >= 2050:
        found = found.replace(year=found.year - 100)
    return found.replace(tzinfo=UTC)
