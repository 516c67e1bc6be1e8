"""Where verl's rollout engine runs, on how many GPUs, and what a release makes of it by itself."""

import pytest

from tests.trainers.launches import DYNAMIC, ROLLOUT, SGLANG, workload_of
from tuner.errors import InputError
from tuner.workload import Rollout

TWO = ("one_step_off_policy", "fully_async_policy")
OWN = ("trainer.v1.trainer_mode=separate_async", f"{ROLLOUT}.nnodes=2", f"{ROLLOUT}.n_gpus_per_node=3")
ALONE = "actor_rollout_ref.hybrid_engine=False"


def rollout(*overrides: str, version: str = "0.9.1", gpus: int = 8) -> Rollout:
    return workload_of((*DYNAMIC, *overrides), version, gpus=gpus).generator


def sizes(tensor: int, data: int = 1, pipeline: int = 1) -> tuple[str, ...]:
    return (
        f"{ROLLOUT}.tensor_model_parallel_size={tensor}",
        f"{ROLLOUT}.data_parallel_size={data}",
        f"{ROLLOUT}.pipeline_model_parallel_size={pipeline}",
    )


@pytest.mark.parametrize("own", [sizes(8), sizes(4, 2), sizes(2, 2, 2)])
def test_a_replica_may_have_all_gpus(own: tuple[str, ...]) -> None:
    assert rollout(*own).replica_gpus == 8


@pytest.mark.parametrize(
    ("own", "gpus", "said"),
    [
        (
            sizes(2, 3, 5),
            8,
            "a replica needs 30 GPUs (tensor 2 x data 3 x pipeline 5), the rollout has 8 GPUs",
        ),
        (sizes(9), 8, "a replica needs 9 GPUs (tensor 9 x data 1 x pipeline 1), the rollout has 8 GPUs"),
        (sizes(1, 9), 8, "a replica needs 9 GPUs (tensor 1 x data 9 x pipeline 1), the rollout has 8 GPUs"),
        (
            sizes(1, 1, 9),
            8,
            "a replica needs 9 GPUs (tensor 1 x data 1 x pipeline 9), the rollout has 8 GPUs",
        ),
        (sizes(2), 1, "a replica needs 2 GPUs (tensor 2 x data 1 x pipeline 1), the rollout has 1 GPU"),
    ],
)
def test_a_replica_that_needs_more_is_refused_with_its_sizes(
    own: tuple[str, ...], gpus: int, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        rollout(*own, gpus=gpus)
    assert said in str(caught.value)
    assert caught.value.key == f"{ROLLOUT}.tensor_model_parallel_size"
    assert "trainer.n_gpus_per_node" in str(caught.value)


def test_the_trainers_own_model_generates_without_replicas() -> None:
    assert rollout(f"{ROLLOUT}.name=hf", *sizes(16)[:1], version="0.5.0").gpus == 8


@pytest.mark.parametrize(
    ("overrides", "version", "colocated", "gpus"),
    [
        ((), "0.9.1", True, 8),
        (OWN, "0.9.1", True, 14),  # those of its own, 2 x 3, beside the trainer's
        ((*OWN, ALONE), "0.9.1", False, 6),
        ((*OWN, ALONE, "trainer.use_v1=False"), "0.9.1", True, 8),  # another trainer, which has none
        ((*OWN[1:], ALONE), "0.9.1", True, 8),
        (("+rollout.nnodes=2", "+rollout.n_gpus_per_node=3", ALONE), "0.5.0", False, 6),
        (("+rollout.nnodes=2", ALONE), "0.5.0", True, 8),  # of no GPUs each
        (("+rollout.n_gpus_per_node=3", ALONE), "0.5.0", True, 8),
        (("+rollout.nnodes=0", "+rollout.n_gpus_per_node=0", ALONE), "0.5.0", True, 8),
        ((OWN[0], f"{ROLLOUT}.nnodes=0", f"{ROLLOUT}.n_gpus_per_node=0", ALONE), "0.9.1", True, 8),
        ((*OWN[:2], f"{ROLLOUT}.n_gpus_per_node=null", ALONE), "0.9.1", True, 8),
        ((OWN[0], f"{ROLLOUT}.nnodes=null", OWN[2], ALONE), "0.9.1", True, 8),
        ((*OWN, "actor_rollout_ref.hybrid_engine=null"), "0.9.1", False, 6),  # bool(None) is False
    ],
)
def test_gpus_of_the_rollout(overrides: tuple[str, ...], version: str, colocated: bool, gpus: int) -> None:
    found = rollout(*overrides, version=version)
    assert (found.colocated, found.gpus) == (colocated, gpus)


@pytest.mark.parametrize(
    ("version", "trainers"),
    [("0.7.1", ()), ("0.8.0", TWO), ("0.9.0", (*TWO, "separate_async")), ("0.9.1", (*TWO, "separate_async"))],
)
def test_trainers_that_generate_on_gpus_of_their_own(version: str, trainers: tuple[str, ...]) -> None:
    assert rollout(version=version).apart_with == trainers
    assert workload_of(SGLANG, version).generator.apart_with == trainers


@pytest.mark.parametrize("engine", ["trtllm", "hf"])
def test_engines_that_those_trainers_have_not(engine: str) -> None:
    assert rollout(f"{ROLLOUT}.name={engine}").apart_with == ()


def test_vllm_is_given_the_tokens_of_its_longest_sequence_where_prompts_are_not_cut() -> None:
    """Since 0.9.1: the length that is set, else the model's own 32,768."""
    length = f"{ROLLOUT}.max_model_len=5000"
    assert rollout().least_unchunked_tokens == 32_768
    assert rollout(length).least_unchunked_tokens == 5_000
    assert rollout(length, version="0.9.0").least_unchunked_tokens == 0
    assert rollout(length, f"{ROLLOUT}.name=sglang").least_unchunked_tokens == 0
