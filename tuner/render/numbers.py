"""How numbers are written: the only place that rounds."""

from tuner.evidence import Evidence
from tuner.language import _
from tuner.rules.wording import around, duration, ends, seconds_ends, spent
from tuner.timing import Interval, StepChange
from tuner.units import GIB, GIGA, KIB, KILO, MEGA, MIB, TERA

_TIMES = ((10, 1, "s", 1), (1, 1, "s", 2), (1 / KILO, KILO, "ms", 1))  # least, per second, unit, decimals

_CELLS = 20  # of a whole card
FULL, EMPTY, LIMIT = "\u2588", "\u2591", "\u2503"


def gib(count_bytes: int, *, decimals: int = 1) -> str:
    """Bytes as GiB: ``"79.6 GiB"``."""
    return f"{count_bytes / GIB:.{decimals}f} GiB"


def of_gib(count_bytes: int) -> str:
    """Bytes as GiB where the unit stands beside it: ``"139.8"``."""
    return f"{count_bytes / GIB:.1f}"


def size(count_bytes: int) -> str:
    """Bytes as GiB, or as MiB where a GiB would show little of them: ``"33.4 MiB"``."""
    return gib(count_bytes) if count_bytes >= 0.1 * GIB else f"{count_bytes / MIB:.1f} MiB"


def exact(number: float) -> str:
    """A number as it is, thousands apart: ``"151,936"``, ``"0.85"``."""
    return f"{number:,}"


def change(before_bytes: int, after_bytes: int) -> str:
    """Two amounts side by side: ``"60.2 -> 41.0 GiB"``."""
    return f"{before_bytes / GIB:.1f} -> {gib(after_bytes)}"


def same_gib(before_bytes: int, after_bytes: int) -> bool:
    """True when two amounts are written alike."""
    return gib(before_bytes) == gib(after_bytes)


def gib_interval(interval: tuple[int, int]) -> str:
    """The ends of an interval as GiB: ``"60.7 to 64.1"``."""
    return ends(*_gib_ends(interval))


def peak(size: int, interval: tuple[int, int]) -> str:
    """A peak with its interval: ``"62.3 GiB (60.7 to 64.1)"``."""
    return around(gib(size), *_gib_ends(interval))


def _gib_ends(interval: tuple[int, int]) -> tuple[str, str]:
    low, high = interval
    return f"{low / GIB:.1f}", f"{high / GIB:.1f}"


def percent(share: float) -> str:
    """A share as a whole percentage: ``"12%"``."""
    return f"{share * 100:.0f}%"


def share_bar(value: float) -> str:
    """A share of the card in blocks; what is above the card stands behind a mark."""
    filled = min(_CELLS, round(value * _CELLS))
    over = min(_CELLS, round(max(0.0, value - 1) * _CELLS))
    return FULL * filled + EMPTY * (_CELLS - filled) + (LIMIT + FULL * over if value > 1 else "")


def share(value: float, *, signed: bool = True) -> str:
    """A share with one decimal, with its sign: ``"+1.2%"``."""
    return f"{value:+.1%}" if signed else f"{value:.1%}"


def parameters(count: int) -> str:
    """Parameters in billions, or millions below one: ``"7.6B"``, ``"494M"``."""
    return f"{count / GIGA:.1f}B" if count >= GIGA else f"{count / MEGA:.0f}M"


def tokens(count: int) -> str:
    """Tokens with a binary k from 10,240 on where that is exact: ``"16k"``, ``"215,040"``."""
    return f"{count // KIB}k" if count >= 10 * KIB and count % KIB == 0 else f"{count:,}"


def same_time(before: float, after: float) -> bool:
    """Whether two modelled times are shown as one."""
    return abs(after / before - 1) < 0.005


def rests_on(interval: Interval, gpu: str) -> str:
    """What modelled seconds rest on, in words: ``"modelled"``, ``"modelled from h100-sxm's tables"``.

    Args:
        interval: the seconds.
        gpu: the card that they are modelled for.
    """
    if interval.evidence is Evidence.MODELLED and interval.rates_of != gpu:
        return _("modelled from {card}'s tables").format(card=interval.rates_of)
    return {
        Evidence.EXACT: _("exact"),
        Evidence.MEASURED: _("modelled from measured rates"),
        Evidence.MODELLED: _("modelled"),
        Evidence.HEURISTIC: _("assumed"),
    }[interval.evidence]


def seconds(interval: Interval, gpu: str) -> str:
    """Modelled seconds with their interval and evidence: ``"41 s (36 to 47, modelled)"``.

    Args:
        interval: the seconds.
        gpu: the card that they are modelled for.
    """
    return spent(interval, rests_on(interval, gpu))


def phase_seconds(interval: Interval) -> str:
    """Seconds of a phase beside those of the step, which say what they rest on: ``"41 (36 to 47)"``."""
    return around(duration(interval.seconds), *seconds_ends(interval))


def step_change(seconds_before: float, seconds_after: float, change: StepChange | None) -> str:
    """How the modelled step time changes, in words. Faster and slower are shares of the time before.

    Args:
        seconds_before: of a step.
        seconds_after: the same with the change.
        change: their difference with its interval; None where nothing is known of it.
    """
    share = seconds_after / seconds_before - 1
    if same_time(seconds_before, seconds_after):
        return _("same step time (modelled)")
    if change is None or not (change.is_gain or change.is_loss):
        text = _("step {share} longer, less than its uncertainty (modelled)")
        if share < 0:
            text = _("step {share} shorter, less than its uncertainty (modelled)")
        return text.format(share=percent(abs(share)))
    text = _("step {share} shorter") if share < 0 else _("step {share} longer")
    return around(text.format(share=percent(abs(share))), *_shares(change), _("modelled"))


def seconds_change(before: float, after: Interval, change: StepChange | None, gpu: str) -> str:
    """The modelled step before and after, with the change as a share.

    ``"step 243 -> 85 s (76 to 101, modelled), 65% (58% to 70%) shorter"``. Where the ends of the share lie
    further apart than a factor of two, it says that the order is sure and the size is not.

    Args:
        before: seconds of the step before.
        after: the same afterwards.
        change: their difference; None where nothing is known of it.
        gpu: the card.
    """
    share = after.seconds / before - 1
    text = seconds(after, gpu)
    if same_time(before, after.seconds):
        return _("step stays at {after}").format(after=text)
    first = duration(before, like=max(before, after.seconds))
    if change is None or not (change.is_gain or change.is_loss):
        return _("step {before} -> {after}, a difference below its uncertainty").format(
            before=first, after=text
        )
    longer = _("step {before} -> {after}, {share} longer")
    shorter = _("step {before} -> {after}, {share} shorter")
    if not _is_sized(change):
        longer = _("step {before} -> {after}, {share} longer (that is sure, by how much is not)")
        shorter = _("step {before} -> {after}, {share} shorter (that is sure, by how much is not)")
    shown = around(percent(abs(share)), *_shares(change))
    return (longer if share > 0 else shorter).format(before=first, after=text, share=shown)


_SIZED = 2.0  # the most of a difference over the least of it, up to which its size is called known


def _is_sized(change: StepChange) -> bool:
    """Whether a difference whose order is certain is known in its size as well."""
    least, most = _ends(change)
    return most <= _SIZED * least


def _ends(change: StepChange) -> tuple[float, float]:
    least, most = sorted((abs(change.low_share), abs(change.high_share)))
    return least, most


def _shares(change: StepChange) -> tuple[str, str]:
    """The least and the most of a difference that is certain, as shares of what was before."""
    least, most = _ends(change)
    return percent(least), percent(most)


def quantity(value: float, unit: str) -> str:
    """A measured figure: ``"60.90 GiB"``, ``"12.3 ms"``, ``"790 TFLOP/s"``; counts have no unit."""
    if unit == "bytes":
        return gib(round(value), decimals=2) if abs(value) >= 0.1 * GIB else f"{value / MIB:.1f} MiB"
    if unit == "seconds":
        return next(
            (f"{value * per:.{decimals}f} {name}" for least, per, name, decimals in _TIMES if value >= least),
            f"{value * MEGA:.1f} us",
        )
    if unit == "bytes/s":
        return f"{value / GIGA:,.0f} GB/s"
    if unit == "flop/s":
        return f"{value / TERA:,.0f} TFLOP/s"
    if unit == "share":
        return share(value, signed=False) if value == 0 or abs(value) >= 0.001 else f"{value:.1e}"
    if unit == "number":
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
