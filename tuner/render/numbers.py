"""How numbers are written: the only place that rounds."""

from tuner.language import _
from tuner.units import GIB, GIGA, KIB, KILO, MEGA, MIB, TERA

_TIMES = ((10, 1, "s", 1), (1, 1, "s", 2), (1 / KILO, KILO, "ms", 1))  # least, per second, unit, decimals


def gib(count_bytes: int, *, decimals: int = 1) -> str:
    """Bytes as GiB: ``"79.6 GiB"``."""
    return f"{count_bytes / GIB:.{decimals}f} GiB"


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


def interval(ends: tuple[int, int]) -> str:
    """The ends of an interval as GiB: ``"60.7 to 64.1"``."""
    low, high = ends
    return _("{low:.1f} to {high:.1f}").format(low=low / GIB, high=high / GIB)


def percent(share: float) -> str:
    """A share as a whole percentage: ``"12%"``."""
    return f"{share * 100:.0f}%"


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


def step_change(seconds_before: float, seconds_after: float) -> str:
    """How the modelled step time changes, in words. Faster and slower are shares of the time before."""
    share = seconds_after / seconds_before - 1
    if same_time(seconds_before, seconds_after):
        return _("same step time (modelled)")
    text = _("step {share} longer (modelled)") if share > 0 else _("step {share} shorter (modelled)")
    return text.format(share=percent(abs(share)))


def seconds_change(before: float, after: float) -> str:
    """The modelled step before and after, with the change as a share: ``"step 243 -> 85 s, 65% shorter"``."""
    share = after / before - 1
    digits = 0 if max(before, after) >= 10 else 2
    if same_time(before, after):
        return _("step stays at {after} s (modelled)").format(after=f"{after:.{digits}f}")
    longer = _("step {before} -> {after} s (modelled), {share} longer")
    shorter = _("step {before} -> {after} s (modelled), {share} shorter")
    return (longer if share > 0 else shorter).format(
        before=f"{before:.{digits}f}", after=f"{after:.{digits}f}", share=percent(abs(share))
    )


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
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
