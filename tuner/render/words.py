"""Words that several renderings of advice share: severities, effects, places, sentences, overrides."""

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
NOTHING_TO_ADVISE = "No advice: nothing was found to improve."


def place(location: Location) -> str:
    """Where the user wrote something: a file with line and column, or the number of an override."""
    if location.source == COMMAND_LINE and location.line is not None:
        return f"override {location.line} of the command line"
    return str(location)


def sentence(text: str) -> str:
    """A message as a sentence. A first word that is no plain word, such as a key, stays as it is."""
    first = text.split(maxsplit=1)[0] if text else ""
    word = first.rstrip(",;:")
    start = first.capitalize() if word.isalpha() and word.islower() else first
    end = "" if text.endswith((".", "?", "!")) else "."
    return start + text[len(first) :] + end


def pasteable(override: str) -> str:
    """An override as a POSIX shell takes it, quoted only where it must be."""
    return shlex.quote(plain(override))
