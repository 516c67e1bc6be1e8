"""A report of the benchmark with the widest numbers and names that there are."""

from math import nan

from tuner.kernels.benchmark import rivals
from tuner.kernels.benchmark.heads import HEADS
from tuner.kernels.benchmark.report import (
    AdversarialReport,
    BenchmarkReport,
    HeadResult,
    ShapeReport,
    Task,
)
from tuner.units import GIB


def times(milliseconds: float) -> dict[str, float | int]:
    return {"median_ms": milliseconds, "least_ms": milliseconds, "most_ms": milliseconds, "rounds": 7}


def full_report() -> BenchmarkReport:
    """With the widest numbers and names that there are."""
    passes = {"forward": 123.456, "both": 1234.56}
    speed = {
        "forward": times(1234.5),
        "both": times(1234.5),
        "share_of_products": passes | {"both": 0.987},
        "share_of_burst": passes,
        "over_verl_triton": passes | {"both": 12.34},
        "few_gradients": 0.5,
    }
    names = ("log_probs", "entropy", "loss", "d_hidden", "d_weight")
    common = {"limits": dict.fromkeys(names, 1e-3), "version": "1.2.3", "products": 4}
    heads = [
        HeadResult.model_validate(
            {
                "name": name,
                "family": family,
                "task": task,
                "status": "right",
                "reason": "",
                "errors": {
                    "log_probs": 1.2e-12,
                    "entropy": nan,
                    "loss": 1.0,
                    "d_hidden": 1e-3,
                    "d_weight": 1e-3,
                },
                "same_bits_twice": family != "rival",
                "first_call_s": passes,
                "peak_bytes": {"forward": 65 * GIB, "both": 65 * GIB},
                "speed": speed,
                **common,
            }
        )
        for name, family, task in [
            *((head.name, "ours", head.task) for head in HEADS),
            ("eager, chunked, checkpointed", "comparison", Task.EACH),
            *((name, "rival", task) for name, (task, _) in rivals._RIVALS.items()),
        ]
    ]
    shape = ShapeReport.model_validate(
        {
            "tokens": 16384,
            "hidden": 3584,
            "vocabulary": 152064,
            "products": dict.fromkeys(
                ("bare logits", "bare d_hidden", "bare d_weight", "burst"), times(26.4)
            ),
            "rounded_errors": {},
            "heads": tuple(heads),
        }
    )
    hard = AdversarialReport.model_validate(
        {
            "case": "standard deviation 100",
            "vocabulary": 129920,
            "head": "eager, chunked, checkpointed",
            "family": "comparison",
            "status": "wrong",
            "reason": "not finite",
            "errors": {"log_probs": 1.0, "entropy": nan, "d_hidden": 1.0, "d_weight": 1.0},
            "limits": {},
        }
    )
    machine = {
        "device": "NVIDIA H200",
        "driver": "580.159.04",
        "cuda": "13.0",
        "versions": {"torch": "2.11.0"},
    }
    return BenchmarkReport.model_validate(
        {
            "command": "python -m tuner.kernels.benchmark",
            "date": "2026-11-22",
            "seconds": 300.0,
            "dtype": "bfloat16",
            "zero_gradient": 0.75,
            "machine": machine,
            "shapes": (shape,),
            "adversarial": (hard, hard.model_copy(update={"case": "near -150"})),
        }
    )
