"""What a package would bring on top of a setting, where it is to be had: an optional line."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise.reading import Reading
from tuner.plan.judge import Candidate, Judge
from tuner.rules.case import Case, figures
from tuner.rules.kernels import fused_layers


class PackageGain(Struct, frozen=True, kw_only=True):
    """Lines that need a package where the job runs, and the step with them."""

    package: str
    overrides: Annotated[tuple[str, ...], Meta(description="beside those of the setting")]
    seconds: Annotated[float, Meta(description="of a step with them, modelled")]


def package_gain(setting: Candidate, reading: Reading, judge: Judge, headroom: float) -> PackageGain | None:
    """The gain of Liger's fused layers in a setting; None where they bring nothing, or cannot be had.

    Args:
        setting: the trainer reads it from its overrides.
        reading: that these are added to.
        judge: of the card.
        headroom: share of the card that is left free.
    """
    finding = fused_layers.check(Case.of(setting.workload, headroom=headroom))
    if finding is None or finding.proposal is None:
        return None
    try:
        written = reading.write(finding.proposal)
        after = reading.adding(written.overrides)
    except ValueError:
        return None
    made = figures(after.workload)
    refused = any(one.refuses and not one.set_aside for one in after.findings)
    if refused or judge.failing(after.workload, made) is not None or made.time.seconds >= setting.seconds:
        return None
    known = set(setting.overrides or ())
    return PackageGain(
        package=fused_layers.RULE.package,
        overrides=tuple(text for text in written.overrides if text not in known),
        seconds=made.time.seconds,
    )
