"""Images: what a vision tower adds to a job, and that it adds nothing where there are none."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner import rules
from tuner.batching import micro_batch_patches, micro_batch_tokens
from tuner.dtypes import DType
from tuner.memory import estimate
from tuner.memory.host.images import images_on_host
from tuner.memory.host.node import host_terms
from tuner.memory.ledger.terms import Estimate, Term
from tuner.memory.rollout.profile_run import engine_activations, least_activations
from tuner.models import find_model
from tuner.rules.case import Case
from tuner.timing import step_time
from tuner.trainers.verl.batch_fields import HELD_BATCH
from tuner.units import GIB
from tuner.workload import Backend, Checkpointing, Controller, Images, Phase, RolloutEngine, Workload

MODEL = find_model("Qwen2.5-VL-7B-Instruct")
assert MODEL.tower is not None
TOWER = MODEL.tower
TOKENS = 256  # of an image

COPIES = HELD_BATCH.copies


def images(per_prompt: int = 1, tokens: int = TOKENS, **bounds: int) -> Images:
    every = per_prompt * tokens
    given = {"least_tokens": every, "most_tokens": every, **bounds}
    return Images(per_prompt=per_prompt, pixels=TOWER.pixels_of(tokens), tokens=every, **given)


def job(seen: Images | None = None, **engine: object) -> Workload:
    """GRPO of a multimodal model, with what it sees."""
    base = replace(workloads.grpo_7b(), model=MODEL, controller=Controller(agent_workers=8, held=HELD_BATCH))
    return base.with_batch(images=seen).with_actor_engine(**engine)


def static(seen: Images, sequences: int = 4) -> Workload:
    """The same with micro-batches of so many sequences."""
    return job(seen).with_actor(update=workloads.static(sequences))


def terms(found: Estimate, phase: Phase) -> dict[str, Term]:
    estimated = found.phase(phase)
    assert estimated is not None
    return {term.name: term for moment in estimated.moments for term in moment.terms}


def peaks(found: Estimate) -> list[int]:
    return [phase.peak_bytes for phase in found.phases] + [found.host_bytes]


def test_a_job_without_images_has_no_activations_of_a_tower() -> None:
    blind = replace(job(), model=replace(MODEL, tower=None))
    names = {term.name for phase in estimate(job()).phases for at in phase.moments for term in at.terms}
    assert not names & {"tower_kept", "tower_forward", "image_embeddings", "patches"}
    assert step_time(job(), concurrent_sequences=64) == step_time(blind, concurrent_sequences=64)
    assert estimate(job(images())) != estimate(job())


@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
def test_more_and_larger_images_never_take_less(backend: Backend, checkpointing: Checkpointing) -> None:
    seen = [None, images(), images(tokens=512), images(per_prompt=3), images(per_prompt=2, tokens=512)]
    found = [estimate(job(each, backend=backend, checkpointing=checkpointing)) for each in seen]
    for fewer, more in pairwise(found):
        assert all(less <= much for less, much in zip(peaks(fewer), peaks(more), strict=True))
    kept = [terms(each, Phase.UPDATE_ACTOR)["tower_kept"].bytes for each in found[1:]]
    assert kept == sorted(set(kept))


def test_a_static_micro_batch_has_the_images_of_its_sequences() -> None:
    step_pass = static(images(per_prompt=2)).actor_update
    patches = 4 * 2 * TOKENS * 4
    assert micro_batch_patches(static(images(per_prompt=2)).batch, step_pass) == (patches,) * 3


def test_a_token_budget_holds_no_more_patches_than_its_tokens_make() -> None:
    assumed = images(tokens=1024, least_tokens=4, most_tokens=1024)
    workload = job(assumed)
    least, expected, most = micro_batch_patches(workload.batch, workload.actor_update)
    assert least < expected < most <= 4 * 16384
    shared = workload.with_actor_engine(parallel=replace(workload.actor.engine.parallel, ulysses=2))
    assert micro_batch_patches(shared.batch, shared.actor_update)[1] == 2 * expected


@pytest.mark.parametrize("prompt", [1024, 4096, 16384])
def test_no_number_of_images_makes_more_patches_than_a_budget_has_tokens(prompt: int) -> None:
    """However few tokens are expected of them, and the upper end never falls with their number."""
    most = []
    for number in (1, 2, 4, 8, 16):
        room = prompt // number
        seen = images(per_prompt=number, tokens=min(64, room), least_tokens=4, most_tokens=number * room)
        workload = job(seen).with_batch(max_prompt_tokens=prompt)
        budget = micro_batch_tokens(workload.batch, workload.actor_update)
        most.append(micro_batch_patches(workload.batch, workload.actor_update)[2])
        assert most[-1] <= TOWER.patches_per_token * budget
    assert most == sorted(most)


@pytest.mark.parametrize(("tokens", "offered"), [(1024, True), (8192, False)])
def test_activations_are_not_offloaded_for_a_peak_of_the_tower(tokens: int, offered: bool) -> None:
    """What offloading leaves alone is more of what does not fit than what it frees."""
    workload = static(images(tokens=tokens), 1).with_actor_engine(checkpointing=Checkpointing.FULL)
    workload = workload.with_batch(max_prompt_tokens=tokens)
    cluster = replace(workload.cluster, gpu=workload.cluster.gpu.with_memory(24 * GIB))
    found = rules.run(Case.of(replace(workload, cluster=cluster), headroom=0.05))
    assert ("MEM004" in {finding.rule.code for finding in found}) is offered


def test_an_assumption_is_an_interval_around_what_is_taken() -> None:
    assumed = images(tokens=1024, least_tokens=4, most_tokens=1024)
    kept = terms(estimate(job(assumed)), Phase.UPDATE_ACTOR)["tower_kept"]
    assert kept.low < kept.bytes < kept.high
    given = terms(estimate(static(images())), Phase.UPDATE_ACTOR)["tower_kept"]
    assert given.low == given.bytes == given.high


def test_the_tower_is_kept_until_its_backward_pass_and_no_longer() -> None:
    update = estimate(job(images())).phase(Phase.UPDATE_ACTOR)
    assert update is not None
    holding = [any(term.name == "tower_kept" for term in at.terms) for at in update.moments]
    names = [moment.name for moment in update.moments]
    last = names.index("tower_backward")
    assert all(holding[: last + 1])
    assert not any(holding[last + 1 :])
    block = terms(estimate(job(images())), Phase.UPDATE_ACTOR)["tower_block"]
    forward = terms(estimate(job(images())), Phase.OLD_LOG_PROB)
    assert "tower_kept" not in forward
    assert 0 < forward["tower_forward"].bytes < block.bytes * 2


def test_a_frozen_tower_has_no_states_and_keeps_nothing() -> None:
    kept = {"checkpointing": Checkpointing.NONE}
    trained = estimate(job(images(), **kept))
    frozen = estimate(job(images(), frozen_tower=True, **kept))
    update = terms(frozen, Phase.UPDATE_ACTOR)
    assert "tower_kept" not in update
    assert "tower_forward" in update
    moments = "actor_optimizer"
    saved = terms(trained, Phase.UPDATE_ACTOR)[moments].bytes - update[moments].bytes
    assert saved == 2 * 4 * MODEL.extra_parameters // 8


def test_a_frozen_tower_that_is_computed_again_may_keep_its_inputs() -> None:
    """Nothing with releases of transformers that leave the patches alone, and less than a trained one."""
    trained, frozen = static(images()), static(images()).with_actor_engine(frozen_tower=True)
    kept = terms(estimate(frozen), Phase.UPDATE_ACTOR)["tower_kept"]
    assert kept.low == 0
    assert 0 < kept.bytes < terms(estimate(trained), Phase.UPDATE_ACTOR)["tower_kept"].bytes


@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
def test_gradients_of_the_tower_come_after_those_of_the_layers(backend: Backend) -> None:
    alone = static(images(), sequences=10_000).with_actor_engine(backend=backend)  # one micro-batch
    update = estimate(alone).phase(Phase.UPDATE_ACTOR)
    assert update is not None
    sizes = {
        at.name: sum(term.bytes for term in at.terms if term.name == "gradients") for at in update.moments
    }
    tower = 4 * TOWER.blocks * TOWER.block_unit // 8
    assert sizes["first_layer_backward"] < sizes["tower_backward"]
    assert sizes["embedding_backward"] - sizes["tower_backward"] == pytest.approx(tower, abs=8)


GEMMA = find_model("gemma-3-4b-it")


def test_images_of_gemma_are_all_of_one_size() -> None:
    assert GEMMA.tower is not None
    assert GEMMA.tower.tokens_of(896**2) == GEMMA.tower.image_tokens == 256
    seen = Images(per_prompt=1, pixels=896**2, tokens=256, least_tokens=256, most_tokens=256)
    found = dict(engine_activations(replace(job(seen), model=GEMMA)).symbols)
    assert found["T_e"] == max(256, job().rollout.step_tokens // 256 * 256)


def test_a_tower_that_no_image_reaches_is_not_trained() -> None:
    engine = replace(job().actor.engine, idle_tower=True)
    blind = replace(job(), model=GEMMA).with_actor_engine(idle_tower=True)
    assert not engine.trains_tower
    idle, busy = estimate(blind), estimate(replace(job(), model=GEMMA))
    moments = "actor_optimizer"
    saved = terms(busy, Phase.UPDATE_ACTOR)[moments].bytes - terms(idle, Phase.UPDATE_ACTOR)[moments].bytes
    assert saved == pytest.approx(2 * 4 * GEMMA.extra_parameters / 8, abs=16)


def test_vllm_profiles_the_largest_image_whatever_the_jobs_are() -> None:
    small, large = job(images(tokens=16)), job(images(tokens=1024))
    assert engine_activations(small) == engine_activations(large)
    assert engine_activations(job()).bytes < engine_activations(small).bytes
    assert least_activations(small) <= engine_activations(small).bytes
    other = job(images()).with_rollout(engine=RolloutEngine.SGLANG)
    assert engine_activations(other) == engine_activations(job().with_rollout(engine=RolloutEngine.SGLANG))
    wide = small.with_rollout(max_batched_tokens=32768)
    assert dict(engine_activations(wide).symbols)["P_e"] == 2 * 65536


def test_the_host_holds_the_pixels_of_every_response() -> None:
    found = {term.name: term for term in host_terms(job(images()))}
    pixels = 512 * 8 * TOKENS * 4 * 1176 * 4
    assert found["controller_images"].bytes == found["controller_images"].low == pixels
    assert found["controller_images"].high == COPIES[2] * pixels
    assert "image_cache" not in found
    cached = {term.name for term in host_terms(job(images()).with_rollout(image_cache_bytes=4 << 30))}
    assert "image_cache" in cached


@pytest.mark.parametrize(
    ("gpus", "changes", "caches"),
    [
        (8, {}, 4),  # engines of two GPUs
        (5, {}, 2),  # whole ones
        (1, {}, 1),  # that reaches beyond the node
        (8, {"tensor_parallel": 8}, 1),
        (8, {"data_parallel": 2}, 2),
        (5, {"own_process": False}, 5),  # in every process of the trainer
    ],
)
def test_each_engine_of_a_node_has_a_cache_of_images(gpus: int, changes: dict[str, Any], caches: int) -> None:
    workload = job(images()).with_rollout(image_cache_bytes=4 << 30, **changes)
    workload = replace(workload, cluster=replace(workload.cluster, gpus_per_node=gpus))
    found = {term.name: term for term in images_on_host(workload)}["image_cache"]
    assert (found.low, found.bytes, found.high) == (0, caches << 32, caches << 33)


@pytest.mark.parametrize("changes", [{"image_cache_bytes": 0}, {"image_cache_bytes": 1, "colocated": False}])
def test_no_cache_of_images_where_there_is_none_on_the_node(changes: dict[str, Any]) -> None:
    for seen in (images(), None):
        names = {term.name for term in images_on_host(job(seen).with_rollout(**changes))}
        assert names == ({"controller_images"} if seen else set())


def test_images_take_time_and_frozen_towers_less() -> None:
    def seconds(workload: Workload) -> float:
        update = step_time(workload, concurrent_sequences=64).phase(Phase.UPDATE_ACTOR)
        assert update is not None
        return update.seconds

    unseen, frozen, trained = job(), job(images(), frozen_tower=True), job(images())
    assert seconds(unseen) < seconds(frozen) < seconds(trained) < seconds(job(images(per_prompt=2)))


@pytest.mark.parametrize(("gpus", "gathered"), [(1, False), (8, True)])
def test_the_tower_of_one_gpu_works_with_the_weights_that_are_stored(gpus: int, gathered: bool) -> None:
    engine = replace(workloads.fsdp_engine(gpus=gpus, backend=Backend.FSDP), stored_dtype=DType.BFLOAT16)
    update = estimate(job(images()).with_actor(engine=engine)).phase(Phase.UPDATE_ACTOR)
    assert update is not None
    (moment,) = (at for at in update.moments if at.name == "tower_backward")
    weights = {"root_unit", "layer_unit", "prefetched_layer"}
    assert {term.name for term in moment.terms} & weights == (weights if gathered else set())
