"""Terms of FSDP's passes that only some settings have, each beside the setting without it."""

from math import ceil
from typing import Any

import pytest
from msgspec.structs import replace

from tests.workloads import QWEN25_0_5B, QWEN25_7B, fsdp_engine
from tuner.dtypes import DType
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.layer.checkpointing import layers_held, layers_held_in_backward
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.passes import as_counted, pass_moments
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, Lora, OutputHead, Parallelism

TOKENS = 4096
HALVES = Parallelism(gpus=8, shard=4)
LOGITS = OutputHead(kind=HeadKind.LOGITS)
VALUE = OutputHead(kind=HeadKind.VALUE)


def moments(
    engine: Engine,
    *,
    model: ModelShape = QWEN25_0_5B,
    head: OutputHead = LOGITS,
    training: bool = True,
    micro_batches: int = 1,
) -> dict[str, Moment]:
    given = PassInput(
        model=model, engine=engine, head=head, tokens=TOKENS, entropy=False, micro_batches=micro_batches
    )
    return {moment.name: moment for moment in pass_moments(given, training=training)}


def terms(moment: Moment) -> dict[str, Term]:
    return {term.name: term for term in moment.terms}


# -- copies of the states ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "micro_batches", "held"),
    [
        ({}, 1, False),
        ({}, 2, True),
        ({"deferred_gradient_sync": True}, 2, False),
        ({"stored_dtype": DType.BFLOAT16}, 1, True),
        ({"parallel": Parallelism(gpus=8, shard=8)}, 2, False),
        ({"backend": Backend.FSDP}, 2, False),
    ],
)
def test_what_was_all_reduced_is_held_where_it_is_not_the_gradient(
    changes: dict[str, Any], micro_batches: int, held: bool
) -> None:
    engine = replace(fsdp_engine(gpus=8), **{"parallel": HALVES, **changes})
    found = moments(engine, micro_batches=micro_batches)
    assert any("all_reduced" in terms(moment) for moment in found.values()) is held
    assert "all_reduced" not in terms(found["optimizer_step"])


def test_all_units_but_the_root_hold_it_when_the_embedding_is_differentiated() -> None:
    engine, model = replace(fsdp_engine(gpus=8), parallel=HALVES), QWEN25_0_5B
    held = terms(moments(engine, micro_batches=2)["embedding_backward"])["all_reduced"]
    root = model.embedding_parameters + model.final_norm_parameters
    assert held.bytes == 4 * (ceil(model.parameters / 4) - ceil(root / 4))


@pytest.mark.parametrize("micro_batches", [1, 2, 7, 300])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"parallel": HALVES},
        {"deferred_gradient_sync": True},
        {"keeps_inputs": True, "lora": Lora(rank=16, parameters=1 << 20)},
        {"checkpointing": Checkpointing.NONE, "activation_offload": True},
        {"optimizer_offload": True, "param_offload": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
def test_how_many_more_micro_batches_follow_a_second_one_changes_no_moment(
    backend: Backend, changes: dict[str, Any], micro_batches: int
) -> None:
    given = PassInput(
        model=QWEN25_0_5B,
        engine=replace(fsdp_engine(gpus=8), **changes, backend=backend),
        head=LOGITS,
        tokens=TOKENS,
        entropy=True,
        micro_batches=micro_batches,
        step_tokens=3 * TOKENS,
    )
    pass_moments.cache_clear()
    assert pass_moments(as_counted(given), training=True) == pass_moments(given, training=True)


# -- the first gather --------------------------------------------------------------------------


def test_fsdp2_casts_its_share_of_the_first_unit_before_it_gathers() -> None:
    engine, embedding = fsdp_engine(gpus=8), QWEN25_7B.embedding_parameters
    first = terms(moments(engine, model=QWEN25_7B, training=False)["first_gather"])
    assert first["gather_buffer"].bytes == 2 * embedding
    assert first["cast_shards"].bytes == 2 * ceil(embedding / 8)
    for other in (replace(engine, stored_dtype=DType.BFLOAT16), fsdp_engine(gpus=1)):
        assert "cast_shards" not in terms(moments(other, model=QWEN25_7B, training=False)["first_gather"])


# -- FSDP1 -------------------------------------------------------------------------------------


def test_fsdp1_casts_its_share_of_the_root_before_it_gathers() -> None:
    engine = fsdp_engine(gpus=8, backend=Backend.FSDP)
    root = QWEN25_7B.parameters - QWEN25_7B.decoder_parameters
    sizes = [
        terms(moments(changed, model=QWEN25_7B, training=False)["root_gathered"])["root_gather"].bytes
        for changed in (engine, replace(engine, stored_dtype=DType.BFLOAT16))
    ]
    assert sizes == [2 * (root + ceil(root / 8)), 2 * root]


def test_under_fsdp1_the_layer_above_leaves_no_gradient() -> None:
    found = moments(fsdp_engine(gpus=8, backend=Backend.FSDP))
    assert "unit_above" not in terms(found["first_layer_backward"])
    assert "unit_above" in terms(moments(fsdp_engine(gpus=8))["first_layer_backward"])


ROOT = QWEN25_7B.parameters - QWEN25_7B.decoder_parameters
GATHERED = {"root_unit", "root_gather", "first_units", "layer_unit", "layer_units", "prefetched_layer"}


def one_gpu(**changes: Any) -> Engine:
    return replace(fsdp_engine(gpus=1, backend=Backend.FSDP), **changes)


def whole_weights(engine: Engine, *, training: bool) -> dict[str, int]:
    """The most of every term of weights that are whole."""
    names = GATHERED | {"unsharded_model", "held_weights"}
    found: dict[str, int] = {}
    for moment in moments(engine, model=QWEN25_7B, training=training).values():
        for name in names & set(terms(moment)):
            found[name] = max(found.get(name, 0), terms(moment)[name].bytes)
    return found


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("reshards", [False, True])
def test_one_gpu_works_with_weights_of_the_compute_dtype_in_place(reshards: bool, training: bool) -> None:
    engine = one_gpu(stored_dtype=DType.BFLOAT16, reshard_after_forward=reshards)
    assert whole_weights(engine, training=training) == {}
    cast = whole_weights(replace(engine, stored_dtype=DType.FLOAT32), training=training)
    assert set(cast) <= GATHERED
    assert cast["root_unit"] == cast["root_gather"] == 2 * ROOT
    assert whole_weights(replace(engine, backend=Backend.FSDP2), training=training)


@pytest.mark.parametrize("gpus", [1, 8])
def test_only_shards_keep_the_root_until_the_backward_pass(gpus: int) -> None:
    engine = fsdp_engine(gpus=gpus, backend=Backend.FSDP)
    assert ("root_unit" in terms(moments(engine)["forward_end"])) is (gpus > 1)


def test_one_gpu_of_several_that_hold_a_copy_each_is_one_gpu() -> None:
    copies = replace(
        fsdp_engine(gpus=8, backend=Backend.FSDP),
        parallel=Parallelism(gpus=8, shard=1),
        stored_dtype=DType.BFLOAT16,
    )
    assert whole_weights(copies, training=True) == {}


def test_weights_that_were_offloaded_come_back_beside_those_that_modules_hold() -> None:
    in_place = one_gpu(stored_dtype=DType.BFLOAT16, param_offload=True)
    for training in (False, True):
        found = moments(in_place, model=QWEN25_7B, training=training)
        assert terms(found["weights_loaded"])["held_weights"].bytes == 2 * QWEN25_7B.parameters
        for other in (replace(in_place, stored_dtype=DType.FLOAT32), replace(in_place, param_offload=False)):
            assert "held_weights" not in whole_weights(other, training=training)


def test_fetched_weights_stay_where_they_are_not_cast() -> None:
    fetched = one_gpu(stored_dtype=DType.BFLOAT16, streamed_offload=True)
    found = moments(fetched, model=QWEN25_7B, training=False)
    root = terms(found.pop("root_gathered"))
    assert root["unsharded_model"].bytes + root["root_gather"].bytes == 2 * (QWEN25_7B.parameters + ROOT)
    assert "weights_loaded" not in found
    assert {terms(moment)["unsharded_model"].bytes for moment in found.values()} == {2 * QWEN25_7B.parameters}
    cast = moments(replace(fetched, stored_dtype=DType.FLOAT32), model=QWEN25_7B, training=False)
    assert all("unsharded_model" not in terms(moment) for moment in cast.values())


@pytest.mark.parametrize(
    ("gpus", "stored", "reduced", "micro_batches", "per_parameter"),
    [
        # gradient, its cast, what was reduced in another dtype; gradients that stay are counted apart
        (1, DType.FLOAT32, DType.FLOAT32, 1, 2 + 4),
        (1, DType.FLOAT32, DType.BFLOAT16, 1, 2 + 4),
        (1, DType.FLOAT32, DType.BFLOAT16, 2, 2 + 2 + 4),
        (1, DType.FLOAT32, DType.FLOAT32, 2, 3 * 2),  # while it is joined; then it is added in place
        (1, DType.BFLOAT16, DType.FLOAT32, 1, 2 + 4 + 2),
        (1, DType.BFLOAT16, DType.BFLOAT16, 1, 2 * 2),
        (2, DType.FLOAT32, DType.FLOAT32, 1, 2 + 4 + 4 / 2),
        (2, DType.FLOAT32, DType.BFLOAT16, 1, 3 * 2),
        (2, DType.BFLOAT16, DType.FLOAT32, 2, 2 + 4 + (4 + 2) / 2),
    ],
)
def test_a_gradient_while_fsdp1_joins_and_reduces_it(
    gpus: int, stored: DType, reduced: DType, micro_batches: int, per_parameter: float
) -> None:
    engine = fsdp_engine(gpus=gpus, backend=Backend.FSDP)
    engine = replace(engine, stored_dtype=stored, reduce_dtype=reduced)
    found = moments(engine, model=QWEN25_7B, micro_batches=micro_batches)
    assert terms(found["root_reduce"])["root_reduce"].bytes == per_parameter * ROOT
    layer = QWEN25_7B.layer_parameters(0)
    assert terms(found["layer_reduce"])["layer_reduce"].bytes == per_parameter * layer


def test_gradients_whose_reduction_is_deferred_are_replaced_one_unit_after_the_other() -> None:
    engine = one_gpu(deferred_gradient_sync=True)
    found = moments(engine, model=QWEN25_7B, micro_batches=2)
    at = {name: terms(moment) for name, moment in found.items()}
    whole = QWEN25_7B.parameters
    assert at["forward_end"]["deferred_gradients"].bytes == 2 * whole
    assert "gradients" not in at["last_layer_backward"]
    assert at["root_reduce"]["deferred_gradients"].bytes == 2 * ROOT
    assert at["root_reduce"]["gradients"].bytes == 4 * (whole - ROOT)
    assert at["optimizer_step"]["gradients"].bytes == 4 * whole


def test_adapters_leave_the_root_without_a_gradient() -> None:
    engine = one_gpu(lora=Lora(rank=8, parameters=2**20))
    names = {name for moment in moments(engine).values() for name in terms(moment)}
    assert names.isdisjoint({"root_reduce", "layer_reduce", "head_gradient", "embedding_gradients"})


# -- soft-capped logits ------------------------------------------------------------------------


def test_the_root_is_gathered_before_the_soft_cap_is_differentiated() -> None:
    gemma = find_model("gemma-2-2b")
    found = moments(fsdp_engine(gpus=8), model=gemma)
    assert "logits_backward" not in terms(found["root_gather"])
    inside = terms(found["logits_backward"])
    assert "logits_backward" in inside
    assert inside["root_unit"].bytes * 2 == terms(found["root_gather"])["root_gather"].bytes
    assert inside["prefetched_layer"].bytes == 2 * gemma.largest_layer_parameters


# -- activation offload ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "at_the_head", "first_layer", "inner_layer"),
    [
        ({}, 24, 1, 11),
        ({"activation_offload": True}, 1, 2, 3),
        ({"activation_offload": True, "checkpointing": Checkpointing.NONE}, 1, 1, 2),
        ({"activation_offload": True, "lora": Lora(rank=8, parameters=2**20)}, 2, 3, 4),
    ],
)
def test_layers_held_under_activation_offload(
    changes: dict[str, Any], at_the_head: int, first_layer: int, inner_layer: int
) -> None:
    engine = replace(fsdp_engine(gpus=8), **changes)
    assert layers_held(QWEN25_0_5B, engine) == at_the_head
    assert layers_held_in_backward(QWEN25_0_5B, engine, 0) == first_layer
    assert layers_held_in_backward(QWEN25_0_5B, engine, 10) == inner_layer


# -- critics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [QWEN25_0_5B, QWEN25_7B], ids=lambda model: model.name)
@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
def test_a_value_head_has_neither_logits_nor_a_gradient_as_large_as_the_vocabulary(
    backend: Backend, model: ModelShape
) -> None:
    engine = fsdp_engine(gpus=8, backend=backend)
    found = moments(engine, model=replace(model, value_head=True), head=VALUE)
    names = {name for moment in found.values() for name in terms(moment)}
    assert names.isdisjoint({"head_gradient", "logits"})
    assert terms(found["forward_end"])["head_forward"].bytes == 4 * TOKENS


def test_trl_computes_logits_beside_the_values() -> None:
    head = terms(moments(fsdp_engine(gpus=8), head=VALUE, training=False)["log_probs"])["head_forward"]
    assert head.bytes == 4 * TOKENS + (2 + 4) * TOKENS * QWEN25_0_5B.vocab


@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
@pytest.mark.parametrize(
    ("layers", "backward"),
    [
        (1, ["last_layer_backward", "first_layer_backward"]),
        (2, ["last_layer_backward", "first_layer_backward"]),
        (3, ["last_layer_backward", "layer_backward", "first_layer_backward"]),
    ],
)
def test_a_model_of_few_layers_has_none_between(backend: Backend, layers: int, backward: list[str]) -> None:
    model = replace(QWEN25_7B, layers=layers)
    names = moments(fsdp_engine(gpus=8, backend=backend), model=model)
    assert [name for name in names if name.endswith("layer_backward")] == backward
