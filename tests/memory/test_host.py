"""Host memory of a node, against sums made by hand."""

import inspect
import json
from math import ceil
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.formulas import evaluate
from tuner import memory
from tuner.dtypes import DType
from tuner.memory.host import node as host
from tuner.memory.host.node import host_terms
from tuner.memory.ledger.formula import names as formula_names
from tuner.memory.ledger.symbols import meaning
from tuner.models import find_model
from tuner.units import GIB, MIB
from tuner.workload import Backend, RolloutEngine, Workload

SEVEN = workloads.grpo_7b().with_actor_engine(param_offload=False, optimizer_offload=False)
N, LAYER, ROOT = 7_615_616_512, 233_057_792, 2 * 152_064 * 3_584 + 3_584
RECORDED = Path(__file__).parents[2] / "docs" / "validation" / "data"


def names(workload: Workload) -> dict[str, int]:
    return {term.name: term.bytes for term in host_terms(workload)}


def alone(workload: Workload) -> Workload:
    """Without a reference on the host."""
    return replace(workload, reference=None)


def test_offloaded_states_of_eight_gpus_are_the_whole_model():
    """4 B of weight and 8 B of moments per parameter, over the eight ranks of the node."""
    offloaded = SEVEN.with_actor_engine(param_offload=True, optimizer_offload=True)
    assert names(alone(offloaded)) == {"actor_weights": 4 * N, "actor_optimizer": 8 * N}
    assert names(alone(SEVEN)) == {}


def test_a_reference_streams_its_own_weights():
    assert SEVEN.reference is not None
    size = SEVEN.reference.engine.stored_dtype.bytes
    assert SEVEN.reference.engine.streamed_offload
    assert names(SEVEN) == {"reference_weights": size * N}


def test_fsdp1_lays_out_gradients_of_a_reference_that_is_never_trained():
    """As large as its weights; a rank's shards take powers of two, 1 GiB and 128 MiB for each layer."""
    assert SEVEN.reference is not None
    engine = replace(SEVEN.reference.engine, backend=Backend.FSDP, stored_dtype=DType.FLOAT32)
    first = replace(SEVEN, reference=replace(SEVEN.reference, engine=engine))
    assert 512 * MIB < 4 * ROOT // 8 < 1_024 * MIB
    assert 64 * MIB < 4 * LAYER // 8 < 128 * MIB
    assert names(first) == {"reference_weights": 8 * 2 * (1_024 + 28 * 128) * MIB}


def test_a_run_of_five_units_pinned_what_was_counted():
    """Four layers of Qwen3-30B-A3B over two ranks: each shard has 1.16 GiB, and takes 2 GiB."""
    assert SEVEN.reference is not None
    counted = json.loads((RECORDED / "fsdp1-experts-2xh200.json").read_text())["readings"]
    model = replace(find_model("Qwen3-30B-A3B"), layers=4)
    engine = SEVEN.reference.engine
    parallel = replace(engine.parallel, shard=2)
    engine = replace(engine, backend=Backend.FSDP, stored_dtype=DType.FLOAT32, parallel=parallel)
    term = host.weights_on_host(model, engine, "reference", 2)
    assert term is not None
    ranks = [row["pinned_bytes"] for row in counted if "pinned_bytes" in row]
    assert (term.low, term.high) == (sum(ranks), sum(ranks))


def test_offloaded_units_of_fsdp1_take_powers_of_two():
    """Weights once and moments twice: 1 GiB of a rank's root and 128 MiB of each layer."""
    offloaded = SEVEN.with_actor_engine(backend=Backend.FSDP, param_offload=True, optimizer_offload=True)
    rank = (1_024 + 28 * 128) * MIB
    assert names(alone(offloaded)) == {"actor_weights": 8 * rank, "actor_optimizer": 8 * 2 * rank}


def test_a_streamed_actor_steps_on_the_host():
    """Weights, gradients and both moments in float32: 16 B per parameter."""
    assert sum(names(alone(SEVEN.with_actor_engine(streamed_offload=True))).values()) == 16 * N


def test_adapters_leave_gradients_of_adapters_alone():
    workload = workloads.grpo_lora_7b().with_actor_engine(streamed_offload=True, param_offload=False)
    lora = workload.actor.engine.lora
    assert lora is not None
    found = names(alone(workload))
    assert found["actor_optimizer"] == 8 * 8 * -(-lora.parameters // 8)
    assert found["actor_gradients"] < found["actor_optimizer"]


@pytest.mark.parametrize(
    ("changes", "copied"),
    [
        ({"sleep_level": 1}, True),
        ({"sleep_level": 2}, False),
        ({"sleep_level": 1, "frees_memory": False}, False),
        ({"sleep_level": 1, "sleeps_with_weights": True}, False),
        ({"sleep_level": 1, "colocated": False}, False),
    ],
)
def test_a_sleeping_engine_copies_its_weights_at_level_one(changes, copied):
    """2 B per parameter over two GPUs, on eight GPUs: four copies of the model."""
    found = names(alone(SEVEN.with_rollout(**changes)))
    assert found == ({"rollout_weights": 4 * 2 * N} if copied else {})


def test_pinned_memory_is_at_most_twice_as_much():
    workload = SEVEN.with_rollout(sleep_level=1)
    for term in host_terms(workload):
        assert (term.low, term.high) == (term.bytes, 2 * term.bytes)
    exact = host_terms(workload.with_rollout(engine=RolloutEngine.SGLANG))[-1]
    assert exact.name == "rollout_weights"
    assert exact.high == exact.bytes


def test_megatron_offloads_its_main_weights_with_the_optimizer():
    """4 B of main weight and 8 B of moments for each parameter: 12 over all ranks of the job."""
    workload = workloads.grpo_32b_megatron().with_actor_engine(optimizer_offload=True, param_offload=False)
    per_node = names(alone(workload))["actor_optimizer"]
    assert per_node * workload.cluster.nodes == pytest.approx(12 * workload.model.parameters, rel=0.15)
    assert per_node * workload.cluster.nodes >= 12 * workload.model.parameters


def test_a_share_of_megatrons_optimizer_lives_on_the_host():
    """Main weight, gradient and both moments: 16 B for each parameter of the share."""
    base = workloads.grpo_32b_megatron().with_actor_engine(optimizer_offload=False, param_offload=False)
    quarter = names(alone(base.with_actor_engine(optimizer_offload_fraction=0.25)))["actor_cpu_optimizer"]
    whole = names(alone(base.with_actor_engine(optimizer_offload_fraction=1.0)))["actor_cpu_optimizer"]
    assert whole % (8 * 16) == 0
    assert 4 * quarter == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("make", workloads.ALL)
@pytest.mark.parametrize(
    "changes",
    [
        {"param_offload": True, "optimizer_offload": True},
        {"streamed_offload": True},
        {"optimizer_offload_fraction": 0.3},
    ],
)
def test_every_formula_gives_its_bytes_and_all_of_them_the_sum(make, changes):
    workload = make().with_actor_engine(**changes).with_rollout(sleep_level=1)
    terms = host_terms(workload)
    assert [ceil(evaluate(term.formula, term.symbols)) for term in terms] == [term.bytes for term in terms]
    assert memory.estimate(workload).host_bytes == sum(term.bytes for term in terms)
    assert len({term.name for term in terms}) == len(terms)


def test_every_symbol_has_a_meaning_and_every_source_derives():
    """As for the terms on the card: see ``test_terms``."""
    for make in workloads.ALL:
        workload = make().with_actor_engine(param_offload=True, optimizer_offload=True)
        engines = [
            workload.with_rollout(sleep_level=1, swap_bytes=4 * GIB, weight_dtype=dtype)
            for dtype in (DType.BFLOAT16, DType.FLOAT8)
        ]
        for term in (term for engine in engines for term in host_terms(engine)):
            assert all(meaning(name, term.source) for name, _ in term.symbols), term
            assert set(formula_names(term.formula)) == {name for name, _ in term.symbols}
            function = term.source.rpartition(".")[2]
            assert "Source:" in (inspect.getdoc(getattr(host, function)) or "")
