"""Models of NeMo-RL's own recipes that name none: what stands in the name's place says which it is.

Source: NeMo-RL v0.5.0 to v0.7.0 ``docs/guides/deepseek.md``, ``docs/guides/nemotron-3-super.md``,
``examples/nemo_gym``.
"""

from pathlib import Path

from tuner.inputs.settings import Settings
from tuner.inputs.user_input import Remark
from tuner.language import _
from tuner.trainers.nemo_rl.keys import MODEL

_PATH = "/path/to/"  # where whoever starts the recipe puts a checkpoint
#: A part of the words, or of the path of the file that has them, and the model that its guide is about.
_GUIDES = {"guides/deepseek.md": "deepseek-ai/DeepSeek-V3"}
_FILES = {
    "nemotron-3-super/": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    "grpo_nanov3.yaml": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "grpo_qwen3_30ba3b": "Qwen/Qwen3-30B-A3B-Thinking-2507",
}


def is_placeholder(name: str) -> bool:
    """Whether words stand in the place of a model's name."""
    return name.startswith(_PATH) or any(part in name for part in _GUIDES)


def model_named(settings: Settings) -> str | None:
    """The policy's model, a placeholder of a recipe filled in; None where nothing names one."""
    name = settings.text(MODEL)
    if name is None or not is_placeholder(name):
        return name
    origin = settings.origin(MODEL)
    file = "" if origin is None or origin.location is None else str(Path(origin.location.source).resolve())
    known = [model for part, model in _GUIDES.items() if part in name]
    known += [model for part, model in _FILES.items() if name.startswith(_PATH) and part in file]
    return known[0] if known else name


def remarks(settings: Settings) -> tuple[Remark, ...]:
    """Which model was taken for a placeholder; none where the settings name one."""
    name, model, origin = settings.text(MODEL), model_named(settings), settings.origin(MODEL)
    if name == model or origin is None or origin.location is None:
        return ()
    text = _("{key} names no model; the one that the recipe is for, {model}, is taken").format(
        key=MODEL, model=model
    )
    return (Remark(text=text, location=origin.location),)
