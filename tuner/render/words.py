"""Words that several renderings of advice share: severities, effects, places, sentences, overrides."""

import re
import shlex
from collections.abc import Iterable

from tuner.errors import Location
from tuner.findings import Finding, Numerics, Severity
from tuner.inputs.overrides import COMMAND_LINE
from tuner.inputs.secrets import shown_override
from tuner.language import ENGLISH, N_, _, chosen, ngettext
from tuner.render.terminal import plain

SEVERITY_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
_NUMERICS = {
    Numerics.EXACT: N_("unchanged"),
    Numerics.REORDERED: N_("sums in another order"),
    Numerics.REWEIGHTED: N_("weights tokens differently"),
    Numerics.CHANGED: N_("changed"),
}
_EFFECTS = {
    Numerics.EXACT: N_("same numerics"),
    Numerics.REORDERED: N_("rounding"),
    Numerics.REWEIGHTED: N_("tokens weigh otherwise"),
    Numerics.CHANGED: N_("another training"),
}
_ENDS = (".", "?", "!", "\u3002", "\uff1f", "\uff01")  # the last three are full-width
_VERSION = re.compile(r"\d+\.\d")


def numerics(effect: Numerics) -> str:
    """What following advice does to the numbers of the training, in words."""
    return _(_NUMERICS[effect])


def effect_beside(override_effect: Numerics) -> str:
    """What an override does to the training in two or three words, to stand beside it."""
    return _(_EFFECTS[override_effect])


def counted(count: int, severity: Severity) -> str:
    """A number of findings of one severity: ``"2 errors"``."""
    text = {
        Severity.ERROR: ngettext("{count} error", "{count} errors", count),
        Severity.WARNING: ngettext("{count} warning", "{count} warnings", count),
        Severity.ADVICE: _("{count} advice"),
    }[severity]
    return text.format(count=count)


def nothing_to_advise() -> str:
    """What is said in place of advice."""
    return _("No advice: nothing was found to improve.")


def listed(words: Iterable[str]) -> str:
    """Words one after another: ``"a, b, c"``."""
    return _(", ").join(words)


def clauses(texts: Iterable[str]) -> str:
    """Parts of a sentence that stand by themselves: ``"it fits; the step is shorter"``."""
    return _("; ").join(texts)


def full_stop(text: str) -> str:
    """A text that is a sentence, with its end."""
    return text + _(".")


def titled(title: str, text: str) -> str:
    """What follows a title: ``"lengths: half of the maxima"``."""
    return _("{title}: {text}").format(title=title, text=text)


def headed(word: str, text: str) -> str:
    """A word that stands apart from the line that it heads: ``"FITS  46.0 GiB of 79.1"``."""
    return _("{word}  {text}").format(word=word, text=text)


def with_note(text: str, note: str) -> str:
    """A text with a note in brackets: ``"update_actor (as configured)"``."""
    return _("{text} ({note})").format(text=text, note=note)


def place(location: Location) -> str:
    """Where the user wrote something: a file with line and column, or the number of an override."""
    if location.source == COMMAND_LINE and location.line is not None:
        return _("override {line} of the command line").format(line=location.line)
    return str(location)


def sentence(text: str) -> str:
    """A message as a sentence. A first word that is no plain word stays: a key, a name with its version."""
    first, *rest = text.split(maxsplit=1) or [""]
    word = first.rstrip(",;:")
    versioned = bool(rest) and _VERSION.match(rest[0]) is not None
    plain_word = all(part.isalpha() for part in word.split("-")) and word.islower()
    capital = chosen() == ENGLISH and plain_word and not versioned
    start = first.capitalize() if capital else first
    end = "" if text.endswith(_ENDS) else _(".")
    return start + text[len(first) :] + end


def shown_overrides(finding: Finding, overrides: Iterable[str]) -> tuple[str, ...]:
    """The overrides of a finding as they may be shown: without a value that may be a secret."""
    return tuple(shown_override(override, known=not finding.hides_value) for override in overrides)


def pasteable(override: str) -> str:
    """An override as a POSIX shell takes it, quoted only where it must be.

    A word with single quotes of its own stands in double ones, unless a shell reads something else there.
    """
    word = plain(override)
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)
