"""What differs between two jobs and what that does, in words."""

from tuner.advise.comparison import Difference, Effect, FieldChange
from tuner.inputs.override_syntax import override_value
from tuner.language import _
from tuner.render.comparison_phases import SHOWN_BYTES, same_seconds
from tuner.render.document.marks import ARROW
from tuner.render.field_words import field_words, value_words
from tuner.render.numbers import percent
from tuner.render.words import clauses, listed, place, titled, with_note
from tuner.trainers.key_facts import KeyState
from tuner.units import GIB

_NAMED = 3  # phases of one effect


def value_of(state: KeyState) -> str:
    """The value of a key as an override has it, without a secret."""
    return override_value(state.shown)


def state_words(state: KeyState) -> str:
    """The value of a key and whose it is."""
    if state.origin is None:
        return _("no such key")
    value = value_of(state)
    if not state.by_user:
        return _("{value} by default").format(value=value)
    location = state.origin.location
    return value if location is None else with_note(value, place(location))


def difference_words(difference: Difference) -> str:
    """What the fields say of the job, alike ones of several models at once."""
    alike: dict[tuple[str, str], list[FieldChange]] = {}
    for field in difference.fields:
        values = f"{_value(field, field.before)} {ARROW} {_value(field, field.after)}"
        alike.setdefault((field.path[-1], values), []).append(field)
    return clauses(
        titled(field_words(*(field.path for field in fields)), values)
        for (_name, values), fields in alike.items()
    )


def _value(field: FieldChange, value: object) -> str:
    return value_words(field.path, value)


def shows(effect: Effect | None) -> bool:
    """Whether an effect is large enough to be written."""
    if effect is None:
        return False
    large = any(abs(phase.change_bytes) >= SHOWN_BYTES for phase in effect.phases)
    large = large or abs(effect.host_change_bytes) >= SHOWN_BYTES
    return large or not same_seconds(effect.without_seconds, effect.with_seconds)


def effect_words(effect: Effect | None) -> str:
    """``"rollout +6.5 GiB, wake_up +6.5 GiB, step -4%"``."""
    if effect is None:
        return ""
    ranked = sorted(effect.phases, key=lambda phase: -abs(phase.change_bytes))
    large = [phase for phase in ranked if abs(phase.change_bytes) >= SHOWN_BYTES]
    words = [f"{phase.phase.value} {phase.change_bytes / GIB:+.1f} GiB" for phase in large[:_NAMED]]
    if len(large) > _NAMED:
        words.append(_("{count} more").format(count=len(large) - _NAMED))
    if abs(effect.host_change_bytes) >= SHOWN_BYTES:
        words.append(_("host {change} GiB").format(change=f"{effect.host_change_bytes / GIB:+.1f}"))
    if not same_seconds(effect.without_seconds, effect.with_seconds):
        share = effect.with_seconds / effect.without_seconds - 1
        signed = f"{'+' if share > 0 else '-'}{percent(abs(share))}"
        certain = effect.change.is_gain or effect.change.is_loss
        text = _("step {share}") if certain else _("step {share} (below its uncertainty)")
        words.append(text.format(share=signed))
    return listed(words)
