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
            name: Case(engine=plain, passes=[*seen, *_without_images(name)]),
            f"{name}-no-checkpointing": Case(
                engine=replace(plain, gradient_checkpointing=False), passes=smaller
            ),
            f"{name}-fsdp1": Case(engine=replace(plain, strategy="fsdp"), passes=smaller),
        }
        if name.startswith(
            "gemma"
        ):  # verl does not find its tower to freeze, and its fused pass drops images
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


def holdout() -> dict[str, Case]:
    """Whole models and an untied one, with other sizes and numbers of images; predicted once."""
    stored = EngineSettings(model_dtype="bf16")
    qwen25 = replace(stored, model="Qwen2.5-VL-3B-Instruct")
    qwen3 = replace(stored, model="Qwen3-VL-4B-Instruct")
    gemma = replace(stored, model="gemma-3-4b-it")
    all_kept = {"gradient_checkpointing": False}
    return {
        "qwen2.5-vl-3b": Case(engine=qwen25, passes=_passes([(4, 672**2, 8192, 4), (1, 1344**2, 6144, 6)])),
        "qwen3-vl-4b": Case(engine=qwen3, passes=_passes([(2, 768**2, 4096, 8), (1, 1536**2, 6144, 6)])),
        "gemma-3-4b": Case(engine=gemma, passes=_passes([(4, 896**2, 4096, 6), (1, 896**2, 1536, 16)])),
        "qwen2.5-vl-7b-untied": Case(
            engine=replace(stored, model="shapes/qwen2.5-vl-7b-8-layers"),
            passes=_passes([(2, 728**2, 3072, 10)]),
        ),
        "qwen2-vl-2b-no-checkpointing": Case(
            engine=replace(stored, model="Qwen2-VL-2B-Instruct", **all_kept),
            passes=_passes([(2, 560**2, 2048, 3)]),
        ),
        "qwen3-vl-2b-no-checkpointing": Case(
            engine=replace(stored, model="Qwen3-VL-2B-Instruct", **all_kept),
            passes=_passes([(1, 896**2, 3072, 2)]),
        ),
        "qwen2.5-vl-3b-fused-torch": Case(
            engine=replace(qwen25, fused_kernels="torch"), passes=_passes([(3, 896**2, 8192, 8)])
        ),
        "qwen2.5-vl-3b-frozen": Case(
            engine=replace(qwen25, frozen_tower=True), passes=_passes([(2, 1008**2, 6144, 6)])
        ),
        "gemma-3-4b-no-checkpointing": Case(
            engine=replace(gemma, **all_kept), passes=_passes([(1, 896**2, 1024, 3)])
        ),
        "qwen3-vl-4b-fsdp1": Case(
            engine=replace(qwen3, strategy="fsdp"), passes=_passes([(1, 1152**2, 4096, 9)])
        ),
    }


def two_gpus() -> dict[str, Case]:
    """What a single GPU cannot show: gathers, reductions, and sequences that are shared."""
    qwen25, qwen3, gemma = _WIDTHS.values()
    untied = EngineSettings(model="shapes/qwen2.5-vl-7b-8-layers", model_dtype="bf16")
    seen = _passes([(2, 448**2, 2048, 8)])
    return {
        "qwen2.5-vl-3b": Case(engine=qwen25, passes=seen),
        "qwen3-vl-4b-no-checkpointing": Case(
            engine=replace(qwen3, gradient_checkpointing=False),
            passes=[replace(item, micro_batches=2) for item in _passes([(1, 640**2, 1536, 2)])],
        ),
        "gemma-3-4b": Case(engine=gemma, passes=_passes([(2, 896**2, 2048, 8)])),
        "qwen2.5-vl-7b-untied-frozen": Case(engine=replace(untied, frozen_tower=True), passes=seen),
        "qwen2.5-vl-3b-ulysses": Case(
            engine=replace(qwen25, ulysses=2), passes=_passes([(4, 560**2, 4096, 2)])
        ),
        "qwen3-vl-4b-fsdp1": Case(engine=replace(qwen3, strategy="fsdp"), passes=seen),
    }


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


def _without_images(name: str) -> list[PassSettings]:
    """The same model on text alone, so that what images add can be told from the rest.

    Not of Qwen2.5-VL: verl 0.9.1 runs its tower on an empty image then, and asks its output of transformers 5
    for a mean, which that does not have.
    """
    if name.startswith("qwen2.5"):
        return []
    return [PassSettings(tokens=4096, kind=kind) for kind in ("log_prob", "update")]
