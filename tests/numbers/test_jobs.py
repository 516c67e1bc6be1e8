"""Numbers of jobs that differ in a few things each from a base of the rules' examples, as they are today.

They ask what the examples of rules do not: what is saved, who judges, other cards, engines and dtypes, and
lengths that somebody told. ``UPDATE_GOLDEN=1 pytest tests/numbers`` writes them anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from msgspec.structs import replace as with_fields

from tests.cli.golden import expect
from tests.numbers.listing import listing
from tests.numbers.remedies import remedies
from tests.numbers.test_numbers import FOLDER
from tests.tables import bases, scene
from tuner.memory.failed_allocation.tensors import tensors
from tuner.workload import Lengths, Workload

NOTHING: Mapping[str, Any] = MappingProxyType({})
JOBS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "jobs.yaml").read_text())


def job(
    base: str,
    overrides: Sequence[str] = (),
    lengths: Mapping[str, Any] = NOTHING,
    cluster: Mapping[str, float] = NOTHING,
    **changes: Any,
) -> Workload:
    """A job of the table.

    Args:
        base: of the rules' examples.
        overrides: what is set in it.
        lengths: what somebody told of its sequences.
        cluster: what is known of its nodes.
        changes: model, GPU, nodes and what else the base says itself.
    """
    workload = scene(replace(bases()[base], **changes), overrides, lengths=Lengths(**lengths)).workload
    return with_fields(workload, cluster=with_fields(workload.cluster, **cluster))


def sizes(workload: Workload) -> Iterator[str]:
    """The tensors that an allocator may be asked for."""
    for tensor in tensors(workload):
        factors = " ".join(str(count) for count, _ in tensor.factors)
        phases = " ".join(phase.value for phase in tensor.phases)
        yield (
            f"tensor {tensor.name} {factors} x{tensor.dtype_bytes} /{tensor.ranks} tokens={tensor.tokens}"
            f" {tensor.full_bytes}: {phases}"
        )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", JOBS)
def test_jobs(name: str) -> None:
    workload = job(**JOBS[name])
    expect(
        f"job-{name}.txt",
        "\n".join([*listing(workload), *sizes(workload), *remedies(workload)]),
        folder=FOLDER,
    )
