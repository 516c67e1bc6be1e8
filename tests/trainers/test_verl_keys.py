import pytest

from tuner.inputs.tree import split_key
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.trainers.verl.keys import ENGINE_PREVIEW, KEYS, Spelling, key
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.schema import Schema

# Keys of recipes with a configuration of their own, and of schemas that keep a free-form section.
OUTSIDE = (
    "rollout.",
    "async_training.",
    "actor_rollout_ref.model.fused_kernel_options.",
    "data.gen_batch_size",
)
# Read with .get() by the legacy workers, so that they may be added although no schema lists them.
ADDED = ("mixed_precision.", "override_optimizer_config.", "override_transformer_config.", "engine_kwargs.")
LEGACY_ADDED = ("fsdp_config.model_dtype", "ref.fsdp_config.")


@pytest.mark.parametrize("version", BUNDLED)
def test_every_key_is_one_the_release_knows(version: str) -> None:
    schemas = [Schema(read_defaults(version, config)) for config in CONFIGS]
    unknown = []
    for meaning in KEYS:
        name = key(meaning, version)
        if name is None or name.startswith(OUTSIDE) or any(part in name for part in (*ADDED, *LEGACY_ADDED)):
            continue
        path = split_key(name)
        if not any(schema.in_yaml(path) or schema.in_dataclass(path) for schema in schemas):
            unknown.append(name)
    assert not unknown


def test_spellings_of_one_meaning_never_overlap() -> None:
    for meaning, spellings in KEYS.items():
        for version in (*BUNDLED, ENGINE_PREVIEW, "0.9.0"):
            assert sum(spelling.holds(version) for spelling in spellings) <= 1, meaning


@pytest.mark.parametrize(
    ("meaning", "version", "expected"),
    [
        ("critic.fsdp.param_offload", "0.7.1", "critic.model.fsdp_config.param_offload"),
        ("critic.fsdp.param_offload", "0.8.0", "critic.fsdp.param_offload"),
        ("actor.torch_compile", "0.7.1", "actor_rollout_ref.actor.use_torch_compile"),
        ("actor.torch_compile", ENGINE_PREVIEW, "actor_rollout_ref.actor.fsdp_config.use_torch_compile"),
        ("actor.torch_compile", "0.9.1", "actor_rollout_ref.actor.fsdp_config.use_torch_compile"),
        ("sync.bucket_megabytes", "0.4.1", None),
        ("sync.bucket_megabytes", "0.6.1", "actor_rollout_ref.rollout.update_weights_bucket_megabytes"),
        (
            "sync.bucket_megabytes",
            "0.9.1",
            "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes",
        ),
        ("rollout.max_sequences", "0.5.0", None),
        ("rollout.max_sequences", "0.6.1", "actor_rollout_ref.rollout.max_num_seqs"),
        ("actor.global_micro_batch", "0.7.1", "actor_rollout_ref.actor.ppo_micro_batch_size"),
        ("actor.global_micro_batch", "0.8.0", None),
        ("actor.fsdp.use_no_sync_for_gradient_accumulation", "0.9.0", None),
    ],
)
def test_moves_between_releases(meaning: str, version: str, expected: str | None) -> None:
    assert key(meaning, version) == expected


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
