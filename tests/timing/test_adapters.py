"""Adapters in a layer: kernels and units that the host launches, collectives of each matrix, optimizer."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.timing.test_engines import update_job
from tests.trainers.launches import LORA, MODEL, workload_of
from tests.workloads import QWEN3_30B_A3B, QWEN25_7B
from tuner.models.adapters import count_adapters
from tuner.timing import assumptions as assume
from tuner.timing import fsdp
from tuner.timing.adapters import unit_seconds
from tuner.timing.communication import gather_seconds, reduce_scatter_seconds
from tuner.timing.host import host_of_optimizer, host_seconds
from tuner.timing.job import TimedPasses, kernels_seconds
from tuner.timing.transfers import optimizer_parts
from tuner.workload import Backend, Checkpointing, Lora, Phase, Workload

MATRICES = 14  # of a layer with seven linear modules
LAYERS = 28
ADAPTERS = Lora(rank=64, parameters=161_480_704, matrices=LAYERS * MATRICES)


def adapted(backend: Backend = Backend.FSDP, *, lora: Lora | None = ADAPTERS) -> Workload:
    """GRPO of a 7B model of 28 layers under an engine, with adapters unless told otherwise."""
    return workloads.grpo_7b().with_actor_engine(backend=backend, lora=lora)


@pytest.mark.parametrize(
    ("target", "matrices"),
    [("all-linear", 28 * 14), (("q_proj", "v_proj"), 28 * 4), (".*(gate_proj|up_proj)$", 28 * 4)],
)
def test_each_linear_module_has_two_matrices(target: str | tuple[str, ...], matrices: int) -> None:
    assert count_adapters(QWEN25_7B, rank=8, target=target, experts=False).matrices == matrices


def test_experts_of_transformers_4_have_two_matrices_for_each_of_theirs() -> None:
    one, all_of_them = (
        count_adapters(QWEN3_30B_A3B, rank=8, target="all-linear", experts=experts)
        for experts in (False, True)
    )
    assert one.matrices == 48 * 4 * 2
    assert all_of_them.matrices - one.matrices == 48 * (128 * 3 + 1) * 2  # and the router


def test_a_launch_tells_how_many_there_are() -> None:
    named = (*LORA, f"{MODEL}.target_modules=[q_proj,o_proj]")
    counts = [workload_of(launch, "0.9.1").actor.engine.lora for launch in (LORA, named)]
    assert [lora.matrices for lora in counts if lora is not None] == [28 * 14, 28 * 4]


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_under_fsdp1_the_host_runs_each_matrix_as_a_unit(backward: bool, recomputes: bool) -> None:
    checkpointing = Checkpointing.FULL if recomputes else Checkpointing.NONE
    job, without = (
        update_job(adapted(lora=lora).with_actor_engine(checkpointing=checkpointing))
        for lora in (ADAPTERS, None)
    )
    gpu, ranks = job.cluster.gpu.name, job.cluster.gpus
    layer = host_seconds(gpu, "plain", query_key_norms=False, ranks=ranks)
    kernels = MATRICES * 2 / 40 * layer.half(recomputes=recomputes, backward=backward)
    unit = unit_seconds(gpu, ranks=ranks)
    hooks = unit.forward if not backward else unit.backward + (unit.forward if recomputes else 0)
    more = kernels_seconds(job, backward=backward) - kernels_seconds(without, backward=backward)
    assert more == pytest.approx(kernels + MATRICES * hooks)


def test_under_fsdp2_adapters_are_kernels_alone() -> None:
    job, without = (update_job(adapted(Backend.FSDP2, lora=lora), trains=False) for lora in (ADAPTERS, None))
    layer = host_seconds(job.cluster.gpu.name, "plain", query_key_norms=False, ranks=job.cluster.gpus)
    more = kernels_seconds(job, backward=False) - kernels_seconds(without, backward=False)
    assert more == pytest.approx(MATRICES * 2 / 40 * layer.forward_s)


def test_a_unit_of_one_tensor_takes_a_share_of_what_fsdp1_adds_to_a_layer() -> None:
    added = []
    for norms in (False, True):
        hooked, plain = (
            host_seconds("h200-sxm", engine, query_key_norms=norms, ranks=2) for engine in ("fsdp", "plain")
        )
        backward = (hooked.kept_s - hooked.kept_forward_s) - (plain.kept_s - plain.kept_forward_s)
        added.append(
            (hooked.forward_s - plain.forward_s, hooked.kept_forward_s - plain.kept_forward_s, backward)
        )
    (bare, graph, back), (bare_norms, graph_norms, back_norms) = added
    unit = unit_seconds("h200-sxm", ranks=2)
    assert unit.forward == pytest.approx(0.8 * (bare + graph + bare_norms + graph_norms) / 4)
    assert unit.backward == pytest.approx(0.8 * (back + back_norms) / 2)
    assert min(unit.forward, unit.backward) > 0.2e-3


def test_that_share_was_measured_on_a_processor() -> None:
    file = Path(__file__).parents[2] / "docs/validation/data/fsdp-units.json"
    single, *layers = json.loads(file.read_text(encoding="utf-8"))["units"]
    assert single["tensors"] == 1
    for layer in layers:
        for name in ("forward_s", "both_s"):
            assert 0.66 <= single[name] / layer[name] <= 1
    assert 0.66 < assume.SINGLE_TENSOR_UNIT < 1


def test_the_reference_is_the_actor_with_its_adapters_switched_off() -> None:
    update = adapted().actor_update
    own, reference, bare = (
        TimedPasses(
            cluster=adapted().cluster,
            batch=adapted().batch,
            step_pass=replace(update, training=False, phase=phase, engine=adapted(lora=lora).actor.engine),
        )
        for phase, lora in (
            (Phase.OLD_LOG_PROB, ADAPTERS),
            (Phase.REF_LOG_PROB, ADAPTERS),
            (Phase.REF_LOG_PROB, None),
        )
    )
    assert kernels_seconds(own, backward=False) > 3 * kernels_seconds(reference, backward=False)
    assert fsdp.pass_parts(reference) == fsdp.pass_parts(bare)


def test_matrices_are_gathered_and_reduced_one_by_one() -> None:
    job = update_job(adapted())
    ranks = job.engine.parallel.shard
    matrix = ADAPTERS.parameters / LAYERS / MATRICES
    layer = gather_seconds(job.layer.parameters * 2, job.cluster, ranks)
    gathered = MATRICES * gather_seconds(matrix * 2, job.cluster, ranks)
    reduced = MATRICES * reduce_scatter_seconds(matrix * 4, job.cluster, ranks)
    assert fsdp.backward_span(job, reduces=True).gather == pytest.approx(layer + gathered + reduced)
    assert gathered > 10 * assume.COLLECTIVE_S


def test_the_host_is_two_units_ahead() -> None:
    job, without = (update_job(adapted(lora=lora)) for lora in (ADAPTERS, None))
    span = replace(fsdp.forward_span(job), waits=0.0)
    assert fsdp.layers_ahead(without, span) == 2
    assert fsdp.layers_ahead(job, span) == pytest.approx(2 / 15)


@pytest.mark.parametrize(("backend", "name"), [(Backend.FSDP, "plain"), (Backend.FSDP2, "fsdp2")])
def test_each_matrix_is_clipped_and_stepped(backend: Backend, name: str) -> None:
    job = adapted(backend)
    few = adapted(backend, lora=replace(ADAPTERS, matrices=LAYERS * 4))
    gpu = job.cluster.gpu
    more = optimizer_parts(job.model, job.actor.engine, gpu)["optimizer"]
    more -= optimizer_parts(few.model, few.actor.engine, gpu)["optimizer"]
    tensor = host_of_optimizer(gpu.name, name, ranks=job.cluster.gpus)
    assert more == pytest.approx(LAYERS * (MATRICES - 4) * tensor)
