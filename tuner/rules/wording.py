"""Numbers in the sentences of findings."""

from tuner.counted import counted
from tuner.language import _
from tuner.rules.case import Case
from tuner.timing import Interval
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
    return counted(number, "longest sequence")


def duration(value: float, *, like: float | None = None) -> str:
    """Seconds without their unit, as many digits as a model deserves: ``"146"``, ``"8.4"``, ``"0.42"``.

    Args:
        value: seconds.
        like: seconds beside which they stand, which decide the digits.
    """
    size = abs(value if like is None else like)
    return f"{value:.{0 if size >= 10 else 1 if size >= 1 else 2}f}"


def ends(low: str, high: str) -> str:
    """The ends of an interval: ``"36 to 47"``; the one number where both are written alike."""
    return low if low == high else _("{low} to {high}").format(low=low, high=high)


def around(text: str, low: str, high: str, note: str = "") -> str:
    """A number with its interval in brackets, which is left out where both ends are written alike.

    ``"41 s (36 to 47, modelled)"``, ``"6% (5% to 7%)"``, ``"6%"``.

    Args:
        text: the number.
        low: the least, as it is written.
        high: the most.
        note: what stands in the brackets behind the interval.
    """
    within = note
    if low != high:
        interval = ends(low, high)
        within = _("{interval}, {note}").format(interval=interval, note=note) if note else interval
    return _("{text} ({note})").format(text=text, note=within) if within else text


def up_to(size: float, most: float) -> str:
    """Bytes and what they may be: ``"62.3 GiB (up to 64.1 GiB)"``; once where both are written alike."""
    text, limit = gib(size), gib(most)
    return text if text == limit else _("{modelled} (up to {high})").format(modelled=text, high=limit)


def seconds_ends(interval: Interval) -> tuple[str, str]:
    """The least and the most of modelled seconds, with as many digits as the seconds themselves."""
    return duration(interval.low_s, like=interval.seconds), duration(interval.high_s, like=interval.seconds)


def spent(interval: Interval, note: str = "") -> str:
    """Modelled seconds with their interval: ``"41 s (36 to 47)"``, ``"41 s (36 to 47, modelled)"``."""
    seconds = _("{seconds} s").format(seconds=duration(interval.seconds))
    return around(seconds, *seconds_ends(interval), note)


def cached_sequences(number: int, batch: Batch) -> str:
    """How many sequences a cache holds, and how long: ``"256 at full length"``, ``"256 of 1,624 tokens"``."""
    if batch.room_tokens == batch.reached_tokens:
        return _("{sequences} at full length").format(sequences=count(number))
    return _("{sequences} of {tokens} tokens").format(
        sequences=count(number), tokens=count(batch.room_tokens)
    )


def over(case: Case, phase: Phase) -> str:
    """How far a phase is over the limit: ``"update_actor needs 81.2 GiB where 71.7 GiB may be used"``.

    Where only the upper end of its interval is: ``"update_actor may need up to 81.2 GiB of 79.6 GiB"``. One
    that is within the card: ``"update_actor leaves 2.1 GiB of 79.6 GiB, of which 8.0 GiB are to stay free"``.
    """
    in_phase = case.estimate.phase(phase)
    capacity = case.estimate.capacity_bytes
    if in_phase is not None and in_phase.peak_bytes <= case.limit_bytes and in_phase.interval[1] > capacity:
        return _("{phase} may need up to {most} of {capacity}").format(
            phase=phase.value, most=gib(in_phase.interval[1]), capacity=gib(capacity)
        )
    if case.peak_bytes(phase) <= capacity:
        return _("{phase} leaves {left} of {capacity}, of which {free} are to stay free").format(
            phase=phase.value,
            left=gib(capacity - case.peak_bytes(phase)),
            capacity=gib(capacity),
            free=gib(capacity - case.limit_bytes),
        )
    return _("{phase} needs {peak} where {limit} may be used").format(
        phase=phase.value, peak=gib(case.peak_bytes(phase)), limit=gib(case.limit_bytes)
    )


def rounded_head() -> str:
    """What a fused head does to log-probabilities in the releases that round them."""
    return _("the release rounds what this head returns to bfloat16, and with it the ratio in the loss")
