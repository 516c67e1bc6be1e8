"""Words that several renderings of advice share: severities, effects, places, sentences, overrides."""

import re
import shlex

from tuner.errors import Location
from tuner.findings import Numerics, Severity
from tuner.inputs.overrides import COMMAND_LINE
from tuner.render.terminal import plain

SEVERITY_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
NUMERICS = {
    Numerics.EXACT: "unchanged",
    Numerics.REORDERED: "sums in another order",
    Numerics.REWEIGHTED: "weights tokens differently",
    Numerics.CHANGED: "changed",
}
_VERSION = re.compile(r"\d+\.\d")
NOTHING_TO_ADVISE = "No advice: nothing was found to improve."


def place(location: Location) -> str:
    """Where the user wrote something: a file with line and column, or the number of an override."""
    if location.source == COMMAND_LINE and location.line is not None:
        return f"override {location.line} of the command line"
    return str(location)


def sentence(text: str) -> str:
    """A message as a sentence. A first word that is no plain word stays: a key, a name with its version."""
    first, *rest = text.split(maxsplit=1) or [""]
    word = first.rstrip(",;:")
    versioned = bool(rest) and _VERSION.match(rest[0]) is not None
    start = first.capitalize() if word.isalpha() and word.islower() and not versioned else first
    end = "" if text.endswith((".", "?", "!")) else "."
    return start + text[len(first) :] + end


def pasteable(override: str) -> str:
    """An override as a POSIX shell takes it, quoted only where it must be."""
    return shlex.quote(plain(override))
