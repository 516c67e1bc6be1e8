"""The only place that holds 1024 and 1e9."""

import re

from tuner.errors import InputError
from tuner.language import _

KIB = 1024
MIB = 1024**2
GIB = 1024**3

KILO = 10**3
MEGA = 10**6
GIGA = 10**9
TERA = 10**12

BITS = 8  # of a byte

LARGEST = 10**15
"""No number that decides memory or time is larger: a count of bytes, of tokens of a whole run."""

# Compiled when they are first needed, which is seldom.
_COUNT = r"(?P<number>\d+(?:_\d+)*(?:\.\d+)?)\s*(?P<suffix>[kKmMbBgG]?)(?P<binary>i?)"
_AMOUNT = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[MG]i?B)"
_BYTES = {"MiB": MIB, "GiB": GIB, "MB": MEGA, "GB": GIGA}
_RATE = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[MGT])(?P<unit>b|bit|B)(?:/s|ps)"
_TIME = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[smh]?)"


def parse_count(text: str, *, thousand: int = KILO) -> int:
    """Read a count such as ``152k``, ``16Ki``, ``1.5M`` or ``151_936``.

    Args:
        text: digits with an optional suffix k, M, B (or G); ``i`` after it makes it binary.
        thousand: what a plain ``k`` multiplies by. A context of "16k tokens" means 16 x 1024,
            a vocabulary of "152k" means 152 x 1000, so the caller says which.

    Raises:
        InputError: not a whole, positive count.
    """
    match = re.fullmatch(_COUNT, text.strip())
    if match is None or (match["binary"] and not match["suffix"]):
        raise InputError(
            _("{text!r} is not a count").format(text=text), hint=_("write it as 152k, 16Ki, 1.5M or 151936")
        )
    base = KIB if match["binary"] else thousand
    exponent = {"": 0, "k": 1, "m": 2, "b": 3, "g": 3}[match["suffix"].lower()]
    value = float(match["number"].replace("_", "")) * base**exponent
    if not 1 <= value <= LARGEST or not value.is_integer():
        raise InputError(_("{text!r} is not a whole count of at least 1").format(text=text))
    return int(value)


def parse_bytes(text: str) -> int:
    """Read an amount such as ``60GiB``, ``60 GB`` or ``512MiB``.

    Raises:
        InputError: not a positive amount with a unit.
    """
    match = re.fullmatch(_AMOUNT, text.strip())
    if match is None or not 0 < float(match["number"]) <= LARGEST:
        raise InputError(
            _("{text!r} is no amount of memory").format(text=text), hint=_("write it as 60GiB or 512MiB")
        )
    return int(float(match["number"]) * _BYTES[match["unit"]])


def parse_rate(text: str) -> float:
    """Read bytes per second from a rate such as ``400Gb/s``, ``400 Gbit/s``, ``50GB/s`` or ``3.2Tbps``.

    Raises:
        InputError: not a positive rate with a unit.
    """
    match = re.fullmatch(_RATE, text.strip())
    if match is None or not 0 < float(match["number"]) <= LARGEST:
        raise InputError(
            _("{text!r} is no rate").format(text=text),
            hint=_("write it as 400Gb/s or 50GB/s: b stands for bits, B for bytes"),
        )
    prefix = {"M": MEGA, "G": GIGA, "T": TERA}[match["prefix"]]
    return float(match["number"]) * prefix / (1 if match["unit"] == "B" else BITS)


def parse_seconds(text: str) -> float:
    """Read a time such as ``90``, ``120s``, ``2m`` or ``1h``; without a unit it is in seconds.

    Raises:
        InputError: not a positive time.
    """
    match = re.fullmatch(_TIME, text.strip())
    if match is None or not 0 < float(match["number"]) <= LARGEST:
        raise InputError(_("{text!r} is no time").format(text=text), hint=_("write it as 120s or 2m"))
    return float(match["number"]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match["unit"]]
