"""Models that launches name and whose type is not modelled: their ``config.json`` alone would not help."""

import re

_TYPES = {
    "deepseek-v4": "deepseek_v4",
    "minicpm-o": "minicpmo",
}

#: Families that generate images or video, by how the folder of one is called.
_BY_DIFFUSION = re.compile(
    r"wan-?2\.\d|flux[.-]?\d|stable-?diffusion|sd-?3(?:\.\d)?-|sdxl|qwen-image(?![a-z])|hunyuanvideo|cogvideox|ltx-video"
)


def generates_by_diffusion(path: str) -> bool:
    """Whether a path names a model that generates images or video, whose sizes no ``config.json`` tells."""
    return any(_BY_DIFFUSION.match(part) for part in re.split(r"[/\\]", path.lower()))


def unmodelled_type(name: str) -> str | None:
    """The ``model_type`` of a model by a part of its name; None of one that nobody knows."""
    lower = name.lower()
    return next((model_type for part, model_type in _TYPES.items() if part in lower), None)
