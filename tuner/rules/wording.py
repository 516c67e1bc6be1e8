"""Numbers in the sentences of findings."""

from tuner.counted import counted
from tuner.language import _
from tuner.rules.case import Case
from tuner.units import GIB, MIB
from tuner.workload import Batch, Phase


def gib(count_bytes: float) -> str:
    """Bytes as GiB: ``"61.4 GiB"``."""
    return f"{count_bytes / GIB:.1f} GiB"


def mib(count_bytes: int) -> str:
    """Bytes as MiB: ``"2048 MiB"``."""
    return f"{count_bytes // MIB} MiB"


def count(number: int) -> str:
    """A count with separators: ``"16,384"``."""
    return f"{number:,}"


def sequences(number: float) -> str:
    """A number of sequences, fractions to one decimal: ``"2.5"``."""
    return f"{number:.1f}".removesuffix(".0")


def longest(number: float) -> str:
    """A number of longest sequences: ``"1 longest sequence"``, ``"2.5 longest sequences"``."""
    return f"{counted(number, _('longest sequence'))}"


def with_room(batch: Batch) -> str:
    """How long sequences may be that the cache holds: ``"at full length"``, ``"of 1,624 tokens"``."""
    return (
        _("at full length")
        if batch.room_tokens == batch.sequence_tokens
        else _("of {count} tokens").format(count=count(batch.room_tokens))
    )


def over(case: Case, phase: Phase) -> str:
    """How far a phase is over the limit: ``"update_actor needs 81.2 GiB where 71.7 GiB may be used"``.

    Where only the upper end of its interval is: ``"update_actor may need up to 81.2 GiB of 79.6 GiB"``.
    """
    in_phase = case.estimate.phase(phase)
    capacity = case.estimate.capacity_bytes
    if in_phase is not None and in_phase.peak_bytes <= case.limit_bytes and in_phase.interval[1] > capacity:
        return _("{phase} may need up to {interval} of {capacity}").format(
            phase=phase.value, interval=gib(in_phase.interval[1]), capacity=gib(capacity)
        )
    return _("{phase} needs {peak} where {limit} may be used").format(
        phase=phase.value, peak=gib(case.peak_bytes(phase)), limit=gib(case.limit_bytes)
    )
