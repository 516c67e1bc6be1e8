"""What a launch script leaves open: values that nobody knows, and what each other way of it means."""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.consultation.alternatives import MOST_JUDGED, JudgedAlternative
from tuner.consultation.result import Consultation
from tuner.inputs.alternative_launches import remark
from tuner.inputs.user_input import AlternativeLaunch, UserInput
from tuner.language import _
from tuner.render.input_notes import open_values
from tuner.render.numbers import gib
from tuner.render.verdict_words import word
from tuner.render.words import clauses, listed, place, with_note
from tuner.trainers.key_facts import KeyKind

_NAMED = 3  # settings of one way
_OPEN = 4  # values in a short answer
_PARTS = 2  # of a key that are shown


def open_settings(answer: Consultation, *, short: bool) -> str:
    """The arguments of unknown value with what settles them, and the defaults taken meanwhile."""
    given = _input_that_decides(answer) if short else answer.given
    values = open_values(given, most=_OPEN if short else None)
    return clauses([text for text in (values, *_defaults(answer)) if text])


def _input_that_decides(answer: Consultation) -> UserInput:
    """What was given, without the open arguments that nothing of the answer waits for.

    These are keys that change neither memory nor time, such as names, and the model: there is no answer
    where no option names that.
    """
    unsettled = answer.given.unsettled
    states = answer.loaded.key_states(argument.key for argument in unsettled if argument.key)
    idle = {key for key, state in states.items() if state.kind is KeyKind.NO_EFFECT}
    idle.add(answer.loaded.model_key)
    return replace(answer.given, unsettled=tuple(one for one in unsettled if one.key not in idle))


def _defaults(answer: Consultation) -> Iterator[str]:
    """Each default that an open key has meanwhile, with what decides it."""
    for key, value in answer.open_defaults:
        setting = f"{key.rpartition('.')[2]}={value}"
        way = next(
            (way for way in answer.given.alternatives if key in (name for name, *_ in way.changes)), None
        )
        if way is None:
            yield _("{setting} is taken").format(setting=setting)
        else:
            condition = _condition(way, holds=not way.holds)
            yield _("{setting} only {condition}").format(
                setting=setting, condition=with_note(condition, place(way.location))
            )


def other_ways(answer: Consultation) -> Iterator[str]:
    """Each other way that was judged: what decides it, what it sets, and the verdict."""
    for alternative in answer.alternatives[:MOST_JUDGED]:
        text = _("{condition}: {settings}; {verdict}").format(
            condition=with_note(
                _condition(alternative, holds=alternative.holds), place(alternative.location)
            ),
            settings=_settings(alternative),
            verdict=_verdict(alternative),
        )
        name = alternative.name
        settled = _("{remark}; {name}=VALUE behind the script settles it")
        yield settled.format(remark=text, name=name) if name else text


def without_other_ways(answer: Consultation) -> UserInput:
    """What was given, without the sentences on the ways that :func:`other_ways` tells."""
    sentences = {remark(way) for way in answer.given.alternatives[:MOST_JUDGED]}
    return replace(
        answer.given, not_followed=tuple(one for one in answer.given.not_followed if one not in sentences)
    )


def _condition(way: AlternativeLaunch, *, holds: bool) -> str:
    """How the test ends: ``if not $X = 1``."""
    if way.is_program:
        form = _("if {test} succeeds") if holds else _("if {test} fails")
    else:
        form = _("if {test}") if holds else _("if not {test}")
    return form.format(test=way.test)


def _settings(way: AlternativeLaunch) -> str:
    words = []
    for key, _here, there in way.changes[:_NAMED]:
        name = ".".join(key.split(".")[-_PARTS:])
        words.append(
            way.program if not key else _("no {key}").format(key=name) if there is None else f"{name}={there}"
        )
    if len(way.changes) > _NAMED:
        words.append(_("{count} more").format(count=len(way.changes) - _NAMED))
    return listed(words)


def _verdict(alternative: JudgedAlternative) -> str:
    if alternative.verdict is None or alternative.worst_bytes is None:
        return _("not read: {reason}").format(reason=alternative.unread)
    if alternative.refused_by:
        return with_note(word(alternative.verdict), listed(alternative.refused_by))
    text = listed([word(alternative.verdict), gib(alternative.worst_bytes)])
    if not alternative.open_keys:
        return text
    keys = listed(key or _("further arguments") for key in alternative.open_keys)
    return _("with {keys} not known: {verdict}").format(keys=keys, verdict=text)
