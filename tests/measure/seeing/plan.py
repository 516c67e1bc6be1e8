"""The engines and passes over images to record: predicted once, before anybody has seen what they come to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.accuracy import MeasuredCase


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """One engine over the first layers of a model, and its passes."""

    name: str
    cases: tuple[MeasuredCase, ...]  # their figures mean nothing


#: Images of a sequence, pixels of one, tokens of a sequence, sequences of a micro-batch.
Size = tuple[int, int, int, int]
_SIZES: dict[str, tuple[Size, ...]] = {
    "Qwen2.5-VL-3B-Instruct": (
        (1, 56**2, 512, 8),
        (1, 1280 * 28**2, 1408, 4),
        (2, 30 * 20 * 28**2, 1280, 4),
        (1, 60 * 45 * 28**2, 2816, 2),
    ),
    "Qwen3-VL-4B-Instruct": (
        (1, 64**2, 512, 8),
        (1, 980 * 32**2, 1024, 4),
        (2, 30 * 20 * 32**2, 1280, 4),
        (1, 50 * 40 * 32**2, 2048, 2),
    ),
    "gemma-3-4b-it": ((1, 896**2, 1024, 4), (3, 896**2, 832, 2), (6, 896**2, 1600, 1)),
}
_ALL_KEPT: dict[str, Any] = {"gradient_checkpointing": False}
_STORED: dict[str, Any] = {"model_dtype": "bf16"}
_FROZEN: dict[str, Any] = {"frozen_tower": True}


def engines() -> Iterator[EnginePlan]:
    """All, the most valuable first."""
    for name, sizes in _SIZES.items():
        yield _engine(name, 8, (*_cases(sizes, **_STORED), *_cases(sizes[1:3], **_STORED, **_ALL_KEPT)))
    for name in ("Qwen2.5-VL-3B-Instruct", "Qwen3-VL-4B-Instruct"):
        sizes, frozen = _SIZES[name][1:4:2], {**_STORED, **_FROZEN}
        yield _engine(name, 8, (*_cases(sizes, **frozen), *_cases(sizes, **frozen, **_ALL_KEPT)), "frozen")
    yield from _other_models()
    for name, sizes in _SIZES.items():
        yield _engine(name, 8, _cases(sizes[1:2], strategy="fsdp"), "fsdp1")


def _other_models() -> Iterator[EnginePlan]:
    """Larger ones, two of them with an output head of their own, and what a policy's pass may have."""
    more: dict[str, Any] = {**_STORED, "micro_batches": 2, "calculate_entropy": True}
    size = (1, 32 * 24 * 28**2, 1024, 4)
    cases = (*_cases([size], **more), *_cases([size], **_STORED, **_ALL_KEPT))
    yield _engine("Qwen2.5-VL-7B-Instruct", 6, cases, "untied")
    yield _engine("Qwen3-VL-8B-Instruct", 6, _cases([(2, 20 * 20 * 32**2, 1024, 4)], **more), "untied")
    yield _engine("gemma-3-12b-it", 6, _cases([(2, 896**2, 1024, 2)], **more), "larger")


def _engine(model: str, layers: int, cases: Sequence[dict[str, Any]], kind: str = "") -> EnginePlan:
    common = {**_COMMON, "model": model, "layers": layers}
    return EnginePlan(
        name=f"{model} {kind}".strip(),
        cases=tuple(MeasuredCase.model_validate(common | case) for case in cases),
    )


_COMMON: dict[str, Any] = {
    "strategy": "fsdp2",
    "world_size": 1,
    "model_dtype": "fp32",
    "temperature": 1.0,
    "gradient_checkpointing": True,
    "reshard_after_forward": True,
    "use_torch_compile": False,
    "calculate_entropy": False,
    "allocated_before_bytes": 0,
    "peak_allocated_bytes": 1,
}


def _cases(sizes: Sequence[Size], **settings: Any) -> list[dict[str, Any]]:
    """Log-probabilities, where nothing is recomputed anyway, and an update of every size."""
    forward = settings.get("gradient_checkpointing", True)
    return [
        {
            "pass": kind,
            "images_per_prompt": images,
            "image_pixels": pixels,
            "sequence_length": length,
            "tokens": length * sequences,
            **settings,
            **({} if kind == "update" else {"micro_batches": 1}),
        }
        for images, pixels, length, sequences in sizes
        for kind in (("log_prob", "update") if forward else ("update",))
    ]
