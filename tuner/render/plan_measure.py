"""The commands that measure the settings of a plan which tie."""

from collections.abc import Iterator

from msgspec.structs import fields

from tuner.consultation.given_words import GivenWords
from tuner.consultation.planning import PlanAnswer
from tuner.consultation.premises import OPTIONS, Premises
from tuner.language import _
from tuner.render.document.parts import Paragraph, Part, Paste
from tuner.render.words import pasteable

_COMMAND = ("tuner", "validate")
_REST = "--"  # behind it, words of a pasted launch are no options


def deciding_measurements(answer: PlanAnswer) -> Iterator[Part]:
    """What to run where settings share the first rank, a line for each."""
    lines = measuring_commands(answer)
    if lines:
        text = _("On a machine with such GPUs these say which of the first {count} is faster:")
        yield Paragraph(text=text.format(count=len(lines)), further=1)
        yield Paste(lines=lines)


def measuring_commands(answer: PlanAnswer) -> tuple[str, ...]:
    """A command for each setting whose measurement would decide; none where nothing ties."""
    shown = answer.job.loaded.settings.shown_override
    return tuple(
        " ".join(map(pasteable, measuring_words(answer.asked, tuple(map(shown, one.overrides)))))
        for one in answer.plan.undecided
    )


def measuring_words(asked: GivenWords, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the command that measures one setting, with everything that was said of the job."""
    source, *words = (asked.source, *asked.words)
    given = [text for text in words if text not in overrides]
    rest = (_REST,) if any(word.startswith("-") for word in given) else ()
    return (*_COMMAND, *_options(asked.premises), *rest, source, *given, *overrides)


def _options(premises: Premises) -> Iterator[str]:
    """The options of what was said beside the configuration; a project's settings are read again."""
    usual, of_project = Premises(), dict(premises.places)
    for field in fields(Premises):
        name = field.name
        value = getattr(premises, name)
        if name not in OPTIONS or name in of_project or value == getattr(usual, name):
            continue
        yield OPTIONS[name]
        if value is not True:
            yield f"{value:g}" if isinstance(value, float) else str(value)
