"""Where model states lie: the card, the update, the host and the seconds of a step, for each placement."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import COLOURS, HATCHES, axes
from tuner.memory import Item
from tuner.units import GIB

WORDS = {
    "placement": "placement",
    "card": "states on the card while the rollout runs, GiB",
    "update": "peak of the update, GiB",
    "host": "host memory of a node, GiB",
    "step": "step, s (modelled)",
    "as it is": "as it is",
    "optimizer": "optimizer offloaded",
    "all": "both offloaded",
    "half": "FSDP size 4",
    "streamed": "FSDP2, offload policy",
    "adapters": "LoRA, rank 32",
}
_FSDP = "actor_rollout_ref.actor.fsdp_config"
_PLACEMENTS = {
    "as it is": (),
    "half": (f"{_FSDP}.fsdp_size=4",),
    "optimizer": (f"{_FSDP}.optimizer_offload=True",),
    "all": (f"{_FSDP}.optimizer_offload=True", f"{_FSDP}.param_offload=True"),
    "streamed": ("actor_rollout_ref.actor.strategy=fsdp2", f"{_FSDP}.offload_policy=True"),
    "adapters": (
        "actor_rollout_ref.model.lora_rank=32",
        "actor_rollout_ref.model.lora_alpha=32",
        "actor_rollout_ref.rollout.load_format=safetensors",
    ),
}
_STATES = (Item.PARAMETERS, Item.GRADIENTS, Item.OPTIMIZER)


_MEASURES = ("card", "update", "host", "step")


def _measures(overrides: Sequence[str]) -> tuple[float, ...]:
    """One placement: what each of the measures comes to."""
    advice = running_job.answer(*overrides).advice
    return (
        running_job.phase("rollout", overrides).bytes_of(*_STATES) / GIB,
        running_job.phase("update_actor", overrides).peak_bytes / GIB,
        advice.estimate.host_bytes / GIB,
        advice.time.seconds,
    )


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Four bars for each placement; arguments are overrides of the job."""
    names = [words[name] for name in _PLACEMENTS]
    found = [_measures((*arguments, *overrides)) for overrides in _PLACEMENTS.values()]
    with axes(height=5.6, rows=len(_MEASURES), name="states") as (all_axes, finished):
        for place, (axis, measure) in enumerate(zip(all_axes, _MEASURES, strict=True)):
            values = [one[place] for one in found]
            axis.bar(names, values, color=COLOURS[place], hatch=HATCHES[place], edgecolor="white")
            axis.bar_label(axis.containers[0], fmt="{:.0f}", fontsize=9)  # type: ignore[arg-type]
            axis.margins(y=0.3)
            axis.set_title(words[measure], fontsize=9, loc="left")
        for label in all_axes[-1].get_xticklabels():
            label.set(rotation=25, ha="right", rotation_mode="anchor")
    rows = tuple(
        (name, *(f"{value:.1f} GiB" for value in values[:-1]), f"{values[-1]:.0f} s")
        for name, values in zip(names, found, strict=True)
    )
    header = tuple(words[key] for key in ("placement", *_MEASURES))
    return Drawing(svg=finished[0], header=header, rows=rows)
