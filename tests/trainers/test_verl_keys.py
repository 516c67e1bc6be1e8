import pytest

from tests.trainers.schemas import unknown_keys
from tuner.trainers.key_table import Spelling
from tuner.trainers.verl.keys import KEYS, key
from tuner.trainers.verl.releases import BUNDLED, ENGINE_PREVIEW, PREVIEWS, reaches


@pytest.mark.parametrize("version", BUNDLED)
def test_every_key_is_one_the_release_knows(version: str) -> None:
    keys = [name for meaning in KEYS if (name := key(meaning, version)) is not None]
    assert len(keys) > (100 if version != BUNDLED[0] else 70)  # which has no Megatron here
    assert not unknown_keys(keys, version)


def test_spellings_of_one_meaning_never_overlap() -> None:
    for meaning, spellings in KEYS.items():
        for version in (*BUNDLED, *PREVIEWS.values()):
            assert sum(spelling.holds(version) for spelling in spellings) <= 1, meaning


@pytest.mark.parametrize(
    ("meaning", "version", "expected"),
    [
        ("critic.fsdp.param_offload", "0.7.1", "critic.model.fsdp_config.param_offload"),
        ("critic.fsdp.param_offload", "0.8.0", "critic.fsdp.param_offload"),
        ("actor.torch_compile", "0.7.1", "actor_rollout_ref.actor.use_torch_compile"),
        ("actor.torch_compile", ENGINE_PREVIEW, "actor_rollout_ref.actor.fsdp_config.use_torch_compile"),
        ("actor.torch_compile", "0.7.0", "actor_rollout_ref.actor.use_torch_compile"),
        ("actor.torch_compile", PREVIEWS["0.7.0"], "actor_rollout_ref.actor.fsdp_config.use_torch_compile"),
        ("actor.torch_compile", "0.9.1", "actor_rollout_ref.actor.fsdp_config.use_torch_compile"),
        ("sync.bucket_megabytes", "0.4.1", None),
        ("sync.bucket_megabytes", "0.6.1", "actor_rollout_ref.rollout.update_weights_bucket_megabytes"),
        (
            "sync.bucket_megabytes",
            "0.9.1",
            "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes",
        ),
        ("rollout.max_sequences", "0.5.0", None),
        ("rollout.max_sequences", "0.6.0", "actor_rollout_ref.rollout.max_num_seqs"),
        ("sync.bucket_megabytes", "0.7.0", "actor_rollout_ref.rollout.update_weights_bucket_megabytes"),
        ("rollout.max_model_tokens", "0.6.1", "actor_rollout_ref.rollout.max_model_len"),
        ("rollout.max_model_tokens", "0.7.0", None),
        ("rollout.max_model_tokens", "0.7.1", "actor_rollout_ref.rollout.max_model_len"),
        ("actor.fsdp.forward_prefetch", "0.4.0", None),
        ("actor.fsdp.forward_prefetch", "0.4.1", "actor_rollout_ref.actor.fsdp_config.forward_prefetch"),
        ("actor.global_micro_batch", "0.7.1", "actor_rollout_ref.actor.ppo_micro_batch_size"),
        ("actor.global_micro_batch", "0.8.0", None),
        ("actor.fsdp.use_no_sync_for_gradient_accumulation", "0.9.0", None),
    ],
)
def test_moves_between_releases(meaning: str, version: str, expected: str | None) -> None:
    assert key(meaning, version) == expected


def test_the_new_workers_of_0_7_are_bounded_apart_from_its_release() -> None:
    preview = PREVIEWS["0.7.0"]
    assert reaches(preview, "0.7.0") and not reaches(preview, "0.7.1")
    assert reaches(preview, ENGINE_PREVIEW) and not reaches("0.7.1", ENGINE_PREVIEW)
    assert reaches("0.8.0", ENGINE_PREVIEW)


def test_a_spelling_holds_from_since_to_before_until() -> None:
    spelling = Spelling(key="a", since="0.5.0", until="0.8.0")
    assert [spelling.holds(version) for version in ("0.4.1", "0.5.0", "0.7.1", "0.8.0")] == [
        False,
        True,
        True,
        False,
    ]


def test_an_unknown_meaning_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        key("actor.no_such_thing", "0.9.1")
