"""A cache that is smaller than one sequence of the model's length: only vLLM refuses it."""

import pytest

from tests.tables import HEADROOM
from tests.workloads import grpo_7b
from tuner.evidence import Evidence
from tuner.findings import Severity
from tuner.memory.rollout.capacity import rollout_memory, start_problems
from tuner.rules.case import Case
from tuner.rules.rollout import rollout_model_length
from tuner.workload import FractionOf, RolloutEngine


@pytest.mark.parametrize(
    ("engine", "fraction_of", "fraction", "severity"),
    [
        (RolloutEngine.VLLM, FractionOf.TOTAL, 0.21, Severity.ERROR),
        (RolloutEngine.VLLM, FractionOf.TOTAL, 0.5, Severity.ADVICE),
        (RolloutEngine.SGLANG, FractionOf.STATIC_POOL, 0.21, Severity.ADVICE),
    ],
)
def test_only_vllm_refuses(
    engine: RolloutEngine, fraction_of: FractionOf, fraction: float, severity: Severity
) -> None:
    workload = grpo_7b().with_rollout(
        engine=engine,
        fraction_of=fraction_of,
        memory_fraction=fraction,
        tensor_parallel=1,
        max_sequences=256,
        max_model_tokens=None,
    )
    found = rollout_model_length.check(Case.of(workload, headroom=HEADROOM))
    assert found is not None and found.severity is severity
    assert ("refuse to start" in found.message) is (severity is Severity.ERROR)
    assert found.evidence is (Evidence.MODELLED if severity is Severity.ERROR else Evidence.EXACT)
    if fraction < 0.3:
        assert 0 < rollout_memory(workload).kv_tokens < workload.model.max_positions
    refused = any("refuses to start" in problem for problem in start_problems(workload))
    assert refused is (severity is Severity.ERROR)
