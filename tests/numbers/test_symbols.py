"""The symbols of some jobs' formulas, what they were computed from, and a job's limits, as they are today.

``UPDATE_GOLDEN=1 pytest tests/numbers`` writes them anew.
"""

from collections.abc import Iterator

import pytest

from tests.cli.golden import expect
from tests.numbers.test_jobs import JOBS, job
from tests.numbers.test_numbers import FOLDER
from tuner.memory import estimate, mean_tokens_that_fit
from tuner.memory.derivations import symbols
from tuner.memory.fitting.limits import values_that_fit
from tuner.workload import Quantity, Workload

NAMES = ("saved-critic", "images-frozen", "megatron-latent", "fsdp-liger", "fsdp2-hybrid", "rollout-fp8")
LIMITED = ("fsdp-padded", "critic-sharded", "tight", "megatron-padded")


@pytest.mark.parametrize("name", NAMES)
def test_symbols(name: str) -> None:
    expect(f"symbols-{name}.txt", "\n".join(_symbols(job(**JOBS[name]))), folder=FOLDER)


def _symbols(workload: Workload) -> Iterator[str]:
    found = estimate(workload)
    terms = [term for phase in found.phases for moment in phase.moments for term in moment.terms]
    for symbol in symbols(workload, (*terms, *found.host_terms)):
        yield f"{symbol.name} = {symbol.number:.6g}"
        if symbol.derivation is not None:
            yield f"  = {symbol.derivation.formula}"
        yield from (f"  {part.name} = {part.derivation.value}" for part in symbol.parts)


@pytest.mark.parametrize("name", LIMITED)
def test_limits(name: str) -> None:
    workload = job(**JOBS[name])
    lines = [f"mean tokens {mean_tokens_that_fit([workload], surely=surely)}" for surely in (False, True)]
    for quantity in Quantity:
        fitting = values_that_fit(workload, quantity)
        lines.append(f"{quantity.value} {fitting.low} to {fitting.high} of {fitting.most}, {fitting.certain}")
    expect(f"limits-{name}.txt", "\n".join(lines), folder=FOLDER)
