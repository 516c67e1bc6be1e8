"""What is known of a head while it is measured, and what becomes of one that fails."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from tuner.kernels.benchmark.exact import Results
from tuner.kernels.benchmark.heads import Head
from tuner.kernels.benchmark.report import HeadResult, HeadSource, HeadStatus, Passes, Speed
from tuner.kernels.benchmark.rivals import Missing
from tuner.kernels.benchmark.timing import Call, milliseconds

NO_SPEED = "No speed on a CPU"


@dataclass(frozen=True, kw_only=True)
class BenchmarkSettings:
    """How the benchmark measures.

    Attributes:
        device: where.
        dtype: of hidden states and weight.
        rounds: most timed calls of each pass.
        clock: milliseconds of a call; None where times say nothing.
    """

    device: str
    dtype: torch.dtype
    rounds: int
    clock: Callable[[Call], float] | None

    @classmethod
    def of(cls, device: str, rounds: int) -> "BenchmarkSettings":
        """Settings for a GPU in bfloat16, for a CPU in float16: Triton's interpreter cuts bfloat16 off."""
        cuda = device.startswith("cuda")
        return cls(
            device=device,
            dtype=torch.bfloat16 if cuda else torch.float16,
            rounds=rounds,
            clock=milliseconds if cuda else None,
        )


@dataclass(kw_only=True)
class HeadOutcome:
    """What the benchmark knows of a head so far."""

    status: HeadStatus = HeadStatus.RIGHT
    reason: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    same_bits: bool | None = None
    first_call: Passes | None = None
    peak: Passes | None = None

    def fail(self, status: HeadStatus, reason: str) -> None:
        """Note that the head is not right, and why."""
        self.status, self.reason = status, reason

    def fail_with(self, error: Exception) -> None:
        """Note the error that the head raised: it does not fit, or it fails."""
        if isinstance(error, torch.OutOfMemoryError):
            self.fail(HeadStatus.SKIPPED, "out of memory")
            torch.cuda.empty_cache()
        else:
            self.fail(HeadStatus.FAILED, in_a_line(error))


def in_a_line(error: Exception) -> str:
    """What an error says, in one line that is no longer than a table bears."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def attempt(run: Callable[[], None], outcome: HeadOutcome) -> None:
    """Run what may not fit or may fail: both are a result of the head, not an end of the benchmark."""
    try:
        run()
    except Exception as error:
        outcome.fail_with(error)


def wrong_results(results: Results, errors: dict[str, float], limits: dict[str, float]) -> list[str]:
    """The names of the results that are not finite or further off than allowed."""
    values = results.present()
    return [
        name
        for name, error in errors.items()
        if not error <= limits[name] or not bool(values[name].isfinite().all())
    ]


def head_report(
    head: Head, outcome: HeadOutcome, speed: Speed | None, settings: BenchmarkSettings
) -> HeadResult:
    """The report on a head that ran, or should have."""
    silent = settings.clock is None and outcome.status is HeadStatus.RIGHT
    return HeadResult(
        name=head.name,
        family=head.family,
        task=head.task,
        version=head.version,
        status=outcome.status,
        reason=NO_SPEED if silent else outcome.reason,
        products=head.products,
        errors=outcome.errors,
        limits=outcome.limits,
        same_bits_twice=outcome.same_bits,
        first_call_s=outcome.first_call,
        peak_bytes=outcome.peak,
        speed=speed,
    )


def missing_report(head: Missing) -> HeadResult:
    """The report on a rival that cannot run here."""
    return HeadResult(
        name=head.name,
        family=HeadSource.RIVAL,
        task=head.task,
        version=None,
        status=HeadStatus.MISSING,
        reason=head.reason,
        products=0,
        errors={},
        limits={},
        same_bits_twice=None,
        first_call_s=None,
        peak_bytes=None,
        speed=None,
    )
