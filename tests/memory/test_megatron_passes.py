"""Moments of a Megatron stage: what is kept in flight, what one layer needs, the head."""

from math import ceil
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.formulas import evaluate
from tests.memory.test_megatron import DEEPSEEK_V3
from tuner.dtypes import DType
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.estimate import estimate
from tuner.memory.head.entropy import chunked_training_tensors
from tuner.memory.head.tensors import entropy_chunk, tensor_bytes
from tuner.memory.ledger.symbols import meaning
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.megatron import layers
from tuner.memory.megatron.head import head_tensors
from tuner.memory.megatron.passes import forward_moments, training_moments
from tuner.memory.megatron.stages import candidates, in_flight
from tuner.memory.megatron.terms import kept_per_token, tokens_in_flight
from tuner.workload import Batching, Checkpointing, Engine, HeadKind, OutputHead, Parallelism, Phase, Scaling

HEAD = OutputHead(
    kind=HeadKind.LOGITS,
    compiled=False,
    scaling=Scaling.IN_PLACE,
    clones_logits=True,
    logits_dtype=DType.FLOAT32,
)
T = 4096


def given(*, model: Any = workloads.QWEN25_7B, entropy: bool = False, **changes: Any) -> PassInput:
    """One micro-batch of 4096 tokens, four to a step; ``changes`` go to the grid or to the engine."""
    grid = {name: changes.pop(name) for name in tuple(changes) if name in Parallelism.__annotations__}
    head = changes.pop("head", HEAD)
    base = workloads.megatron_engine(gpus=8, tensor=1)
    engine = replace(base, parallel=Parallelism(**{"gpus": 64, **grid}), **changes)
    return PassInput(model=model, engine=engine, head=head, tokens=T, entropy=entropy, micro_batches=4)


def term(moments: tuple[Moment, ...], name: str) -> Term:
    return next(part for moment in moments for part in moment.terms if part.name == name)


# -- what one layer keeps, by hand -----------------------------------------------------------


def fused(*, gpus: int = 8, expert_tensor: int = 1, on: bool = True) -> Engine:
    base = workloads.megatron_engine(gpus=gpus, tensor=1)
    parallel = replace(base.parallel, expert_tensor=expert_tensor)
    return replace(base, parallel=parallel, fused_layers=on)


def test_a_dense_layer_of_qwen25_7b() -> None:
    # Norms 2 x (2 x 2 x 3584 + 4); attention 2 x (2 x 3584 + 2 x 512) + 4 x 28; MLP 3 or 4 x 2 x 18944.
    # Rotary tables 4 x 2 x 128.
    norms, attention = 28_680, 16_496 + 1_024
    model = workloads.QWEN25_7B
    assert layers.layer_bytes(model, fused(), 0) == norms + attention + 113_664
    assert layers.layer_bytes(model, fused(on=False), 0) == norms + attention + 151_552


def test_a_sparse_layer_of_qwen3_30b() -> None:
    # Norms 2 x (2 x 2 x 2048 + 4); attention 2 x (2 x 4096 + 2 x 512) + 4 x 32, its norms
    # 2 x (4096 + 512) + 4 x 36; router 5 x 128 + 12 x 8; copies 8 x (2 x 2048 + 3 x 2 x 768 + 4).
    # Rotary tables 4 x 2 x 128.
    norms, attention, router, copies = 16_392, 18_560 + 9_360 + 1_024, 736, 69_664
    model = workloads.QWEN3_30B_A3B
    assert layers.layer_bytes(model, fused(), 0) == norms + attention + router + copies
    # Experts cut in two: each rank gathers the copies of both.
    twice = layers.layer_bytes(model, fused(expert_tensor=2), 0)
    assert twice - norms - attention - router == 69_664 + 8 * (2 * 2048 + 4)


def test_a_sparse_layer_of_deepseek_v3() -> None:
    # Norms 57,352; q, k 2 x 128 x 192 each, v and output 2 x 128 x 128 each, statistics 512; compressed
    # 4 x 1536 + 4, 4 x 512 + 4 and 2 x 64; router 1,376; 8 x (14,336 + 12,288 + 4); shared 12,288.
    # Rotary tables 4 x 2 x 64.
    attention = 163_840 + 512 + 6_148 + 2_052 + 128 + 512
    expected = 57_352 + attention + 1_376 + 213_024 + 12_288
    assert layers.layer_bytes(DEEPSEEK_V3, fused(), 10) == expected


# -- what is in flight -----------------------------------------------------------------------


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages() -> None:
    grid = Parallelism(gpus=16, pipeline=4)
    assert [in_flight(grid, stage, 100) for stage in range(4)] == [4, 3, 2, 1]
    assert [in_flight(grid, stage, 2) for stage in range(4)] == [2, 2, 2, 1]


def test_interleaving_holds_more() -> None:
    # Four stages of two pieces: 2 x 3 + 4 + 1 = 11 pieces on the first, 4 + 1 on the last.
    grid = Parallelism(gpus=16, pipeline=4, virtual_pipeline=2)
    assert [in_flight(grid, stage, 100) for stage in range(4)] == [5.5, 4.5, 3.5, 2.5]
    assert in_flight(grid, 0, 4) == 4


def test_full_recomputation_keeps_layer_inputs_divided_by_tensor_parallelism() -> None:
    moments = training_moments(given(tensor=2, pipeline=2, stage=0))
    assert term(moments, "saved_activations").bytes == 2 * T * 15 * 2 * 3584 // 2  # with what it has sent
    freed = training_moments(given(tensor=2, pipeline=2, stage=0, frees_stage_outputs=True))
    assert term(freed, "saved_activations").bytes == 2 * T * 14 * 2 * 3584 // 2
    last = training_moments(given(tensor=2, pipeline=2, stage=1))
    assert term(last, "saved_activations").bytes == T * 14 * 2 * 3584 // 2


def test_groups_keep_fewer_inputs_and_recompute_more() -> None:
    one, four = (training_moments(given(recompute_layers=n)) for n in (1, 4))
    assert term(one, "saved_activations").bytes == 4 * term(four, "saved_activations").bytes
    assert 4 * term(one, "recomputed_layers").bytes == term(four, "recomputed_layers").bytes


def test_recomputing_the_first_layers_alone_keeps_the_others_whole() -> None:
    model = workloads.QWEN25_7B
    whole = given(checkpointing=Checkpointing.NONE)
    layer = layers.layer_bytes(model, whole.engine, 0)
    assert kept_per_token(whole) == 28 * layer
    assert kept_per_token(given(recompute_first_layers=10)) == 10 * 2 * 3584 + 18 * layer
    assert kept_per_token(given(recompute_first_layers=0)) == 28 * layer


def test_the_core_of_flash_attention_is_not_worth_recomputing() -> None:
    none, selective = (
        kept_per_token(given(checkpointing=kind)) for kind in (Checkpointing.NONE, Checkpointing.SELECTIVE)
    )
    assert none == selective


# -- the backward pass of a layer ------------------------------------------------------------


def test_a_layer_on_one_rank_peaks_at_the_second_projection() -> None:
    # Residual 2 T H; gradient of the product 2 T I and of the weight 2 H I.
    size = term(training_moments(given()), "layer_backward").bytes
    activation = 2 * T * 3584 + 2 * 2 * T * 18944
    second = 2 * T * 3584 + 2 * T * 18944 + 2 * 3584 * 18944
    first = 2 * T * 3584 + 2 * T * 3584 - 4 * T * 18944 + 4 * 3584 * 18944
    assert size == max(activation, second, first) == activation


def test_sequence_parallelism_gathers_whole_gradients() -> None:
    size = term(training_moments(given(tensor=8, fused_weight_gradients=True)), "layer_backward").bytes
    activation = 2 * 2 * T * 18944 // 8
    second = 2 * T * 18944 // 8 + 2 * T * 3584
    first = 2 * 2 * T * 3584 - 4 * T * 18944 // 8
    assert size == 2 * T * 3584 // 8 + max(activation, second, first)
    assert max(activation, second, first) == second


def test_fusing_weight_gradients_spares_those_of_all_experts() -> None:
    plain, fused_in = (
        term(
            training_moments(given(model=workloads.QWEN3_30B_A3B, fused_weight_gradients=on)),
            "layer_backward",
        )
        for on in (False, True)
    )
    assert plain.bytes - fused_in.bytes > 2 * 128 * 2048 * 768 // 2


def test_tensor_parallelism_does_not_divide_the_rotary_tables() -> None:
    plain, fused_in = (
        term(training_moments(given(tensor=8, fused_rotary=on)), "recomputed_layers") for on in (False, True)
    )
    assert plain.bytes - fused_in.bytes == T * 4 * 2 * 128


def test_the_embedding_is_differentiated_beside_the_other_micro_batches() -> None:
    first = training_moments(given(pipeline=2, stage=0))
    last = next(moment for moment in first if moment.name == "stage_0_embedding_backward")
    parts = {part.name: part.bytes for part in last.terms}
    assert parts["embedding_backward"] == 2 * 3584 * (T + 152064)
    assert parts["saved_activations"] == T * 15 * 2 * 3584  # one of two is done


# -- the head --------------------------------------------------------------------------------

# Peak bytes per logit of each release's own functions, with Megatron-Core's cross entropy, followed
# tensor by tensor on a CPU (512 tokens, 4096 entries, one rank; compiled product replaced by einsum).
MEASURED = [
    # releases' scaling, entropy, chunk, training, bytes per logit
    (Scaling.NONE, False, None, False, 6),
    (Scaling.NONE, True, None, False, 8),
    (Scaling.NONE, False, None, True, 6),
    (Scaling.IN_PLACE, False, None, False, 6),
    (Scaling.IN_PLACE, True, None, False, 12),
    (Scaling.IN_PLACE, True, 128, False, 9),
    (Scaling.IN_PLACE, True, 512, False, 12),
    (Scaling.IN_PLACE, False, None, True, 8),
    (Scaling.IN_PLACE, True, None, True, 12),
    (Scaling.IN_PLACE, True, 512, True, 12),
]


@pytest.mark.parametrize(("scaling", "entropy", "chunk", "training", "per_logit"), MEASURED)
def test_the_head_takes_what_the_released_functions_take(
    scaling: Scaling, entropy: bool, chunk: int | None, training: bool, per_logit: int
) -> None:
    cloned = scaling is Scaling.IN_PLACE  # both came with 0.6
    head = replace(HEAD, scaling=scaling, clones_logits=cloned, chunk_tokens=chunk)
    tensors = head_tensors(head, entropy=entropy, training=training)
    size = tensor_bytes(tensors, tokens=512, chunk=entropy_chunk(head, 512), columns=4096)
    assert size == per_logit * 512 * 4096


def test_only_the_last_stage_has_a_head() -> None:
    names = {
        stage: {part.name for one in training_moments(given(pipeline=2, stage=stage)) for part in one.terms}
        for stage in (0, 1)
    }
    assert "head_backward" not in names[0]
    assert "head_backward" in names[1]
    assert "log_probs" not in {one.name for one in forward_moments(given(pipeline=2, stage=0))}


def test_a_fused_head_works_on_the_slice_of_the_rank() -> None:
    head = replace(HEAD, kind=HeadKind.FUSED_TRITON)
    whole, slice_ = (
        term(training_moments(given(head=head, tensor=t)), "head_backward").bytes for t in (1, 32)
    )
    assert whole == 2 * T * (9504 + workloads.QWEN25_7B.hidden)  # 16 whole slices, of which none is copied
    assert slice_ == 2 * T * (9504 + 152064 // 32)  # half a slice, and its copy


# -- together --------------------------------------------------------------------------------


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("kind", [HeadKind.LOGITS, HeadKind.FUSED_TRITON, HeadKind.VALUE])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tensor": 2, "pipeline": 4, "stage": 3},
        {"tensor": 4, "pipeline": 4, "virtual_pipeline": 7, "stage": 0},
        {"tensor": 8, "checkpointing": Checkpointing.NONE, "fused_layers": True},
        {"model": workloads.QWEN3_30B_A3B, "expert": 8, "reduce_dtype": DType.BFLOAT16},
        {"model": DEEPSEEK_V3, "tensor": 8, "pipeline": 16, "expert": 8, "stage": 15, "last_stage_layers": 6},
    ],
)
def test_every_formula_gives_its_bytes(changes: dict[str, Any], kind: HeadKind, entropy: bool) -> None:
    one = given(entropy=entropy, head=replace(HEAD, kind=kind, chunk_tokens=1000), **changes)
    for part in (part for m in (*forward_moments(one), *training_moments(one)) for part in m.terms):
        assert part.source and all(meaning(name, part.source) for name, _ in part.symbols)
        assert ceil(evaluate(part.formula, part.symbols)) == part.bytes, part.name


def test_the_residents_of_a_step_have_exact_formulas_too() -> None:
    for changes in ({}, {"optimizer_offload_fraction": 0.5}, {"main_weight_bytes": 2}):
        job = workloads.grpo_32b_megatron().with_actor_engine(**changes)
        update = estimate(job).phase(Phase.UPDATE_ACTOR)
        assert update is not None
        names = ("actor_parameters", "actor_gradients", "actor_optimizer")
        parts = {part.name: part for part in update.peak.terms if part.name in names}
        assert set(parts) == set(names)
        for part in parts.values():
            assert ceil(evaluate(part.formula, part.symbols)) == part.bytes, part.name


def test_the_stages_looked_at_contain_the_fullest() -> None:
    job = workloads.grpo_32b_megatron()
    parallel = Parallelism(gpus=64, tensor=2, pipeline=8)
    job = job.with_actor_engine(parallel=parallel)
    peaks = []
    for stage in range(8):
        one = job.with_actor_engine(parallel=replace(parallel, stage=stage))
        tokens = PassInput(
            model=one.model,
            engine=one.actor.engine,
            head=one.actor.head,
            tokens=T,
            entropy=False,
            micro_batches=8,
        )
        peaks.append(max(moment.bytes for moment in training_moments(tokens)))
    looked_at = [one.actor.engine.parallel.stage for one in candidates(job)]
    assert looked_at == [0, 1, 7]
    assert max(peaks) == max(peaks[stage] for stage in (0, 1, 7))


def test_no_more_is_in_flight_than_an_optimizer_step_has() -> None:
    one = given(pipeline=4, stage=0)
    whole = term(training_moments(one), "saved_activations").bytes
    short = term(training_moments(replace(one, step_tokens=3 * T)), "saved_activations").bytes
    assert 4 * short == 3 * whole
    assert term(training_moments(replace(one, step_tokens=9 * T)), "saved_activations").bytes == whole


@pytest.mark.parametrize("pipeline", [2, 4])
@pytest.mark.parametrize("prompts", [8, 24, 256])
def test_a_larger_token_budget_never_takes_less(pipeline: int, prompts: int) -> None:
    job = workloads.grpo_32b_megatron().with_batch(prompts=prompts, mini_batch_prompts=prompts)
    parallel = replace(job.actor.engine.parallel, pipeline=pipeline, tensor=2)
    job = job.with_actor_engine(parallel=parallel)
    sizes = []
    for budget in range(2048, 40_000, 1777):
        batching = Batching(dynamic=True, token_budget=budget, micro_batch_sequences=1)
        update = replace(job.actor.update, batching=batching)
        phase = estimate(job.with_actor(update=update)).phase(Phase.UPDATE_ACTOR)
        assert phase is not None
        sizes.append(phase.peak_bytes)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_more_micro_batches_never_take_less() -> None:
    sizes = [
        max(moment.bytes for moment in training_moments(replace(given(pipeline=4, stage=0), micro_batches=m)))
        for m in (1, 2, 3, 4, 5)
    ]
    assert sizes == sorted(sizes)
    assert sizes[3] == sizes[4]  # no more than there are stages


@pytest.mark.parametrize(
    ("virtual", "stage", "of_step", "expected"),
    [
        (1, 1, None, 3 * 100),  # this stage's and those of two behind it
        (1, 1, 1000, 3 * 100),
        (1, 1, 250, 250),
        (1, 0, None, 4 * 100),
        # Two pieces of a stage: five at once on the last, 0 + 4 + 1, and eleven on the first, 6 + 4 + 1, of
        # which four micro-batches have eight.
        (2, 3, None, 5 * 100),
        (2, 3, 220, 2 * 220),
        (2, 0, None, 8 * 100),
    ],
)
def test_tokens_whose_activations_a_stage_holds_at_once(
    virtual: int, stage: int, of_step: int | None, expected: int
) -> None:
    engine = workloads.megatron_engine(gpus=8, tensor=2, pipeline=4)
    engine = replace(engine, parallel=replace(engine.parallel, virtual_pipeline=virtual, stage=stage))
    micro_batch = replace(given(), engine=engine, tokens=100, step_tokens=of_step)
    assert tokens_in_flight(micro_batch) == expected


@pytest.mark.parametrize(
    ("scaling", "checkpointed", "per_logit"),
    [
        (Scaling.IN_PLACE, False, 4 + 28),  # logits; float32 logits and softmax, and what works on the chunk
        (Scaling.COPY, False, 4 + 28),  # the gradient of cross entropy
        (Scaling.COPY, True, 4 + 4 + 28),  # both
    ],
)
def test_an_eager_entropy_of_a_single_chunk_has_none_before_it(
    scaling: Scaling, checkpointed: bool, per_logit: int
) -> None:
    head = replace(
        HEAD,
        scaling=scaling,
        compiled=False,
        checkpointed=checkpointed,
        chunk_tokens=512,
        clones_logits=False,
    )
    tensors = chunked_training_tensors(head, 512)
    assert tensor_bytes(tensors, tokens=512, chunk=512, columns=4096) == per_logit * 512 * 4096
