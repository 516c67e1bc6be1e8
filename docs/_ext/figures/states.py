"""Where model states lie: the card, the host and the seconds of a step, for each placement."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import COLOURS, HATCHES, axes
from tuner.memory import Item
from tuner.units import GIB

WORDS = {
    "placement": "placement",
    "card": "states on the card, GiB",
    "host": "host memory of a node, GiB",
    "step": "step, s (modelled)",
    "as it is": "as it is",
    "optimizer": "optimizer offloaded",
    "all": "states offloaded",
    "half": "FSDP size 4",
}
_FSDP = "actor_rollout_ref.actor.fsdp_config"
_PLACEMENTS = {
    "as it is": (),
    "half": (f"{_FSDP}.fsdp_size=4",),
    "optimizer": (f"{_FSDP}.optimizer_offload=True",),
    "all": (f"{_FSDP}.optimizer_offload=True", f"{_FSDP}.param_offload=True"),
}
_STATES = (Item.PARAMETERS, Item.GRADIENTS, Item.OPTIMIZER)


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Three bars for each placement: on the card while the rollout runs, on the host, seconds."""
    names = [words[name] for name in _PLACEMENTS]
    card, host, step = [], [], []
    for overrides in _PLACEMENTS.values():
        advice = running_job.answer(*arguments, *overrides).advice
        card.append(running_job.phase("rollout", (*arguments, *overrides)).bytes_of(*_STATES) / GIB)
        host.append(advice.estimate.host_bytes / GIB)
        step.append(advice.time.seconds)
    with axes(height=4.2, rows=3, name="states") as (all_axes, finished):
        for place, (axis, values, key) in enumerate(
            zip(all_axes, (card, host, step), ("card", "host", "step"), strict=True)
        ):
            axis.bar(names, values, color=COLOURS[place], hatch=HATCHES[place], edgecolor="white")
            axis.bar_label(axis.containers[0], fmt="{:.0f}", fontsize=9)  # type: ignore[arg-type]
            axis.margins(y=0.25)
            axis.set_title(words[key], fontsize=9, loc="left")
        all_axes[-1].tick_params(axis="x", labelrotation=20)
    rows = tuple(
        (name, f"{on_card:.1f}", f"{on_host:.1f}", f"{seconds:.0f}")
        for name, on_card, on_host, seconds in zip(names, card, host, step, strict=True)
    )
    header = tuple(words[key] for key in ("placement", "card", "host", "step"))
    return Drawing(svg=finished[0], header=header, rows=rows)
