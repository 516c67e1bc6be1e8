"""Reads what a job says of the images in its prompts."""

from tuner.trainers.verl.source import ReleaseSettings
from tuner.vision_tower import VisionTower
from tuner.workload import Batch, Images

#: Pixels of an image where nobody says: 1280 squares of 28 pixels, the upper end of the range that the
#: model cards of Qwen2-VL and Qwen2.5-VL recommend for ``max_pixels``.
ASSUMED_PIXELS = 1280 * 28**2
#: Tokens of the smallest image that verl's loader makes.
#: Source: qwen-vl-utils ``vision_process.py`` (``MIN_PIXELS``), which verl's
#: ``utils/dataset/vision_utils.py`` calls.
_LEAST_TOKENS = 4
_BOUND = "MAX_PIXELS"  # no release of verl reads it, nor does qwen-vl-utils
#: Read by copies alone, whose programs hand the section on to the processor.
_PROCESSOR_BOUND = "actor_rollout_ref.processor_kwargs.max_pixels"


def read_images(source: ReleaseSettings, tower: VisionTower | None, batch: Batch) -> Images | None:
    """The images of a prompt; None of a job without, or whose model has no tower of known dimensions.

    The data's column of images has a name by default, so that a multimodal model is taken to see some. verl's
    own loader leaves an image up to 16,384 tokens, more than most prompts have, so that a prompt's length is
    what bounds its images.
    """
    limit, most_pixels = source.integer("rollout.limit_images"), source.integer("images.max_pixels")
    named = bool(source.value("images.key"))
    number, pixels = batch.lengths.images_per_prompt, batch.lengths.image_pixels
    if tower is None or number == 0 or not (named or number):
        return None
    number = number or limit or 1
    in_budgets = source.since("0.4.1")  # before it stops on them, see ``checks/batches/images_in_budgets.py``
    if tower.image_tokens is not None:
        pixels = tower.pixels_of(tower.image_tokens)  # whatever their size was
    if pixels is not None:
        tokens = number * tower.tokens_of(pixels)
        return Images(
            per_prompt=number,
            pixels=pixels,
            tokens=tokens,
            least_tokens=tokens,
            most_tokens=tokens,
            in_budgets=in_budgets,
        )
    bound = most_pixels or _copy_bound(source)
    taken = most_pixels or min(bound or ASSUMED_PIXELS, ASSUMED_PIXELS)
    room = batch.max_prompt_tokens // number
    fitting = max(1, min(tower.tokens_of(taken), room))
    most = room if bound is None else min(tower.tokens_of(bound), room)
    return Images(
        per_prompt=number,
        pixels=min(taken, tower.pixels_of(fitting)),
        tokens=number * fitting,
        least_tokens=number * min(_LEAST_TOKENS, fitting),
        most_tokens=number * max(fitting, most),
        assumed=True,
        in_budgets=in_budgets,
    )


def _copy_bound(source: ReleaseSettings) -> int | None:
    """The most pixels of an image by a variable or a key of the launch, where a copy's loader goes by it.

    It is no size that images are taken to have: they are resized down to it alone.
    """
    if source.copy.bounds_by_processor:
        pixels = source.settings.get(_PROCESSOR_BOUND)
        return pixels if isinstance(pixels, int) and pixels > 0 else None
    if not source.copy.bounds_pixels:
        return None
    given = {variable.name: variable.value for variable in source.settings.environment if variable.known}
    value = given.get(_BOUND, "")
    return int(value) if value.isdecimal() and int(value) > 0 else None
