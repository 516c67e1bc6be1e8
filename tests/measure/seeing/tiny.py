"""Models that see, small enough for a processor."""

from typing import Any

from measure.verl_engine.model import tiny

from tuner.accuracy import MeasuredCase


def tiny_config(config: dict[str, Any]) -> dict[str, Any]:
    """A model of the same type with two narrow layers and two narrow blocks."""
    return tiny(config)


def tiny_case(case: MeasuredCase) -> MeasuredCase:
    """The case with one sequence and one image, of a few tokens where its size is not fixed."""
    fixed = "gemma" in case.model
    pixels, length = (case.image_pixels, 320) if fixed else (12 * 32**2, 32)
    return case.model_copy(
        update={
            "images_per_prompt": 1,
            "image_pixels": pixels,
            "sequence_length": length,
            "tokens": length,
        }
    )
