"""The images of prompts, of which NeMo-RL's settings say that there are some and not how large.

Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/data/processors.py`` (``vlm_hf_data_processor``),
``data/datasets/response_datasets`` (``clevr.py``, ``geometry3k.py``, ``refcoco.py``).
"""

from tuner.inputs.tree import dotted, leaves
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.vision_tower import VisionTower
from tuner.workload import Batch, Images

_PROCESSOR = "vlm_"  # begins the name of what prepares prompts with images
_SETS = ("clevr-cogent", "geometry3k", "refcoco", "mmpr")  # data that have them
#: Pixels of an image where nobody says: the upper end of what Qwen's model cards recommend.
_ASSUMED_PIXELS = 1280 * 28**2
_LEAST_TOKENS = 4


def image_key(source: SettingsByMeaning) -> str | None:
    """The key that says that the data of a job have images: what prepares them, or their name."""
    data = source.settings.get("data")
    if not isinstance(data, dict):
        return None
    words = ((path, value.lower()) for path, value in leaves(data) if isinstance(value, str))
    named = (path for path, word in words if word.startswith((_PROCESSOR, *_SETS)))
    return next((dotted(("data", *path)) for path in named), None)


def sees_images(source: SettingsByMeaning) -> bool:
    """Whether the data of a job have images."""
    return image_key(source) is not None


def read_images(source: SettingsByMeaning, tower: VisionTower | None, batch: Batch) -> Images | None:
    """One image of a prompt, cut to the longest prompt; None without, or without a tower that is known.

    An option may say how many there are and how large.
    """
    number = batch.lengths.images_per_prompt
    given = not batch.max_prompt_tokens  # sequences whose prompts nobody tells from what is learned
    if tower is None or given or number == 0 or not (number or sees_images(source)):
        return None
    number = number or 1
    room = max(1, batch.max_prompt_tokens // number)
    pixels = batch.lengths.image_pixels
    taken = min(tower.tokens_of(pixels or _ASSUMED_PIXELS), room)
    told = pixels is not None or tower.image_tokens is not None
    tokens = taken if tower.image_tokens is None else min(tower.image_tokens, room)
    return Images(
        per_prompt=number,
        pixels=tower.pixels_of(tokens),
        tokens=number * tokens,
        least_tokens=number * (tokens if told else min(_LEAST_TOKENS, tokens)),
        most_tokens=number * (tokens if told else room),
        assumed=not told,
    )
