"""The engines and passes of ``docs/validation/data/verl-0.9.1-fsdp-images-1xh100.json``: models that see."""

from collections.abc import Sequence
from dataclasses import replace

from measure.verl_engine.settings import Case, EngineSettings, PassSettings

_WIDTHS = {
    "qwen2.5-vl-3b": EngineSettings(model="shapes/qwen2.5-vl-3b-8-layers"),
    "qwen3-vl-4b": EngineSettings(model="shapes/qwen3-vl-4b-8-layers"),
    "gemma-3-4b": EngineSettings(model="shapes/gemma-3-4b-8-layers"),
}
#: Images of a prompt, pixels of one, tokens of a sequence, sequences of a micro-batch.
_SIZES = {
    "qwen2.5-vl-3b": [(1, 448**2, 1024, 4), (1, 896**2, 2560, 2), (3, 616**2, 4096, 1)],
    "qwen3-vl-4b": [(1, 512**2, 1024, 4), (1, 1024**2, 2560, 2), (3, 704**2, 4096, 1)],
    "gemma-3-4b": [(1, 896**2, 1024, 4), (2, 896**2, 2048, 1), (4, 896**2, 3072, 1)],
}


def cases() -> dict[str, Case]:
    """Every case by its name; for one GPU."""
    found: dict[str, Case] = {}
    for name, plain in _WIDTHS.items():
        seen, smaller = _passes(_SIZES[name]), _passes(_SIZES[name][1:])
        found |= {
            name: Case(engine=plain, passes=[*seen, *_without_images()]),
            f"{name}-no-checkpointing": Case(
                engine=replace(plain, gradient_checkpointing=False), passes=smaller
            ),
            f"{name}-fsdp1": Case(engine=replace(plain, strategy="fsdp"), passes=smaller),
        }
        if name.startswith("gemma"):  # verl does not find its tower to freeze, and its fused pass drops images
            continue
        frozen = replace(plain, frozen_tower=True)
        found |= {
            f"{name}-frozen": Case(engine=frozen, passes=smaller),
            f"{name}-frozen-no-checkpointing": Case(
                engine=replace(frozen, gradient_checkpointing=False), passes=smaller
            ),
            f"{name}-fused-torch": Case(engine=replace(plain, fused_kernels="torch"), passes=seen),
        }
    return found


def _passes(sizes: Sequence[tuple[int, int, int, int]]) -> list[PassSettings]:
    """Log-probabilities and an update of every size."""
    return [
        PassSettings(
            tokens=length * sequences,
            sequence_length=length,
            images_per_prompt=images,
            image_pixels=pixels,
            kind=kind,
        )
        for images, pixels, length, sequences in sizes
        for kind in ("log_prob", "update")
    ]


def _without_images() -> list[PassSettings]:
    """The same model on text alone, so that what images add can be told from the rest."""
    return [PassSettings(tokens=4096, kind=kind) for kind in ("log_prob", "update")]
