"""Overrides for which Hydra starts one job for each of several values, and how to name one of these jobs.

Source: Hydra 1.3 ``core/override_parser/types.py`` (``Override.is_sweep_override``, ``ChoiceSweep``,
``RangeSweep``), ``_internal/config_loader_impl.py`` (``validate_sweep_overrides_legal``: refused without
``--multirun``).
"""

from collections.abc import Sequence
from typing import Any

from tuner.errors import InputError, Location, SweepError
from tuner.inputs.secrets import shown_override
from tuner.inputs.tree import shown
from tuner.language import _


def sweep_of(parsed: Any, text: str, location: Location) -> SweepError:
    """The error about an override that Hydra's parser has read as a sweep."""
    key = parsed.key_or_group
    head, _equals, values = text.partition("=")
    message = _("{shown} sweeps over several values").format(shown=shown(_shown(text)))
    return SweepError(
        message, location=location, key=key, point=_shown(f"{head}={_first_value(parsed, values)}")
    )


def unsettled(sweeps: Sequence[SweepError], *, multirun: bool) -> InputError:
    """The error about all sweeps of a launch of which nobody named one job."""
    first, points = sweeps[0], " ".join(sweep.point for sweep in sweeps)
    text = (
        _("{message}, and Hydra starts a job for each of them")
        if multirun
        else _("{message}: Hydra refuses them, or starts a job for each with --multirun")
    )
    return InputError(
        text.format(message=first.message),
        location=first.location,
        key=first.key,
        hint=_("give one of the jobs, behind everything else: {points}").format(points=points),
    )


def _first_value(parsed: Any, written: str) -> str:
    """The first of the values, as it is written; a word for one where they are not listed."""
    if parsed.is_choice_sweep():
        values = [str(value) for value in parsed.sweep_string_iterator()]  # which may shuffle them
        return min(values, key=written.find)
    return str(parsed.value().start) if parsed.is_range_sweep() else "VALUE"


def _shown(text: str) -> str:
    """An override as a message repeats it: of an added key nobody knows whether its value is a secret."""
    return shown_override(text, known=not text.startswith("+"))
