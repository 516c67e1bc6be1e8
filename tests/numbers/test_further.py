"""Numbers of the listed jobs that few answers ask for, as they are today.

Seconds of a checkpoint, tensors that the rollout engine allocates in one piece, and the seconds of a step on
cards that somebody measured. ``UPDATE_GOLDEN=1 pytest tests/numbers`` writes them anew.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.golden import expect
from tests.numbers.listing import listing
from tests.numbers.test_jobs import JOBS, job
from tests.numbers.test_numbers import FOLDER
from tuner.hardware import MeasuredGpu
from tuner.memory.failed_allocation.engine_tensors import engine_tensors
from tuner.timing.saving import saving_time
from tuner.workload import Workload

pytestmark = pytest.mark.sampled(6)

WRITING = ("saved-", "fine-tuning-lora", "megatron-offloaded-lora", "fsdp2-one-gpu")
GENERATING = ("rollout-", "images-", "megatron-latent", "reward-of-experts", "pcie")
RATES: dict[str, Any] = {
    "usable_bytes": 83 * 10**9,
    "context_bytes": 600 * 10**6,
    "memory_bytes_per_s": 2.7e12,
    "dense_bf16_flop_per_s": 6.1e14,
    "link_bytes_per_s": 3.1e11,
    "host_bytes_per_s": 4.3e10,
}
FACTORS: dict[str, Any] = {
    "products_factor": 1.1,
    "attention_factor": 0.9,
    "elementwise_factor": 1.2,
    "head_factor": 0.8,
    "host_factor": 1.3,
    "engine_factor": 0.7,
    "engine_sequence_factor": 1.4,
}
MEASURED = (
    "images",
    "fsdp2-prefetch",
    "fsdp2-lora-experts",
    "rollout-fp8",
    "turns",
    "megatron-replay",
    "pcie",
)


def test_seconds_of_a_checkpoint() -> None:
    lines = []
    for name in JOBS:
        if name.startswith(WRITING):
            lines += [name, *(f"  {field}: {value}" for field, value in _saving(job(**JOBS[name])))]
    expect("saving.txt", "\n".join(lines), folder=FOLDER)


def _saving(workload: Workload) -> Iterator[tuple[str, str]]:
    time = saving_time(workload)
    assert time is not None
    yield "waits", " ".join(f"{part}={seconds:.6g}" for part, seconds in time.waits.parts)
    yield "seconds", f"{time.waits.seconds:.6g} and {time.background_s:.6g} in the background"
    yield "a step", f"{time.step_seconds:.6g}" if time.step_seconds is not None else "none"
    yield "written", str(time.written_bytes)


def test_tensors_of_the_rollout_engine() -> None:
    lines = []
    for name in JOBS:
        for tensor in engine_tensors(job(**JOBS[name])) if name.startswith(GENERATING) else ():
            factors = " ".join(str(count) for count, _ in tensor.factors)
            phases = " ".join(phase.value for phase in tensor.phases)
            lines.append(
                f"{name} {tensor.name} {factors} x{tensor.dtype_bytes} tokens={tensor.tokens}"
                f" {tensor.full_bytes} {tensor.what}: {phases}"
            )
    expect("engine-tensors.txt", "\n".join(lines), folder=FOLDER)


@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_card(name: str) -> None:
    workload = job(**JOBS[name])
    lines = []
    for said in (RATES, FACTORS, {"engine_factor": 0.7}):
        gpu = replace(workload.cluster.gpu, measured=MeasuredGpu(date="", versions=(), **said))
        on_it = replace(workload, cluster=replace(workload.cluster, gpu=gpu))
        lines += [f"# {' '.join(said)}", *listing(on_it)]
    expect(f"measured-{name}.txt", "\n".join(lines), folder=FOLDER)
