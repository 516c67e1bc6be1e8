"""The output head on the device: every implementation that can run here, its errors, bytes and times."""

import os
from dataclasses import replace

from tuner.dtypes import DType
from tuner.validate.head.settings import HeadFigures, HeadShape, HeadWork

# Triton's interpreter takes seconds for what a GPU does in microseconds, and cuts bfloat16 off.
_CPU_SHAPE = HeadShape(tokens=37, hidden=16, vocab=203)
_CPU_SAMPLE = 19


def measure(work: HeadWork, *, device: str) -> HeadFigures:
    """Errors, peaks and times; on a CPU the errors alone, of a tiny shape in float16."""
    if device == "cpu":
        # Chosen when the kernels are defined, so before anything imports them.
        os.environ.setdefault("TRITON_INTERPRET", "1")
        work = replace(
            work,
            shape=_CPU_SHAPE,
            forward_tokens=_CPU_SHAPE.tokens,
            dtype=DType.FLOAT16,
            sample=_CPU_SAMPLE,
        )
    from tuner.validate.head.worker.measurement import measure_head

    return measure_head(work, device)
