"""The seconds of a checkpoint in words, beside those of a step."""

from tuner.advise import Advice
from tuner.hardware import Cluster
from tuner.language import _
from tuner.render.numbers import gib, seconds
from tuner.rules.wording import duration
from tuner.timing import phase_interval
from tuner.timing.saving import storage_bytes_per_s
from tuner.units import GIGA


def saving_seconds(advice: Advice) -> str:
    """How long training waits for a checkpoint, what of that falls on a step; empty for a job without any."""
    saving, cluster = advice.saving, advice.workload.cluster
    if saving is None:
        return ""
    waits = phase_interval(saving.waits, cluster)
    text = _("Checkpoint: {seconds} each; {written} are written at {rate}.").format(
        seconds=seconds(waits, cluster.gpu.name), written=gib(saving.written_bytes), rate=_rate(cluster)
    )
    if saving.step_seconds is not None and saving.every_steps is not None:
        every = _("every step") if saving.every_steps == 1 else _("every {steps:,} steps")
        text = _("{text} It comes {every}, {spread} s a step on top of the step's.").format(
            text=text, every=every.format(steps=saving.every_steps), spread=duration(saving.step_seconds)
        )
    if saving.background_s:
        text = _("{text} Files take {background} s more, while training goes on.").format(
            text=text, background=duration(saving.background_s)
        )
    return text


def _rate(cluster: Cluster) -> str:
    rate = storage_bytes_per_s(cluster) / GIGA
    if cluster.storage_bytes_per_s is None:
        return _("{rate:,.4g} GB/s for each node (assumed; give --storage)").format(rate=rate)
    return _("{rate:,.4g} GB/s for each node").format(rate=rate)
