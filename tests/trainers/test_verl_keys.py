import json

import pytest

from tests.inputs.named_words import DATA, words_of_tables
from tests.trainers.schemas import unknown_keys
from tuner.trainers.key_table import Spelling
from tuner.trainers.verl.keys import KEYS, key, keys_of
from tuner.trainers.verl.programs import Program
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


NAMED = json.loads(DATA.read_text("utf-8"))
PROGRAMS = {Program.PPO: BUNDLED, Program.SFT: BUNDLED[: BUNDLED.index("0.7.1")]}
PROGRAMS[Program.SFT_ENGINE] = BUNDLED[BUNDLED.index("0.6.0") :]
_OF_RECIPE = "a recipe's, which the wheels before 0.8.0 lack"
OUTSIDE = dict.fromkeys(
    ("require_batches", "use_rollout_log_probs", "compute_prox_log_prob", "max_num_gen_batches"), _OF_RECIPE
)


def is_handed_on(key: str) -> bool:
    """Whether a section is given to an engine or an optimizer as it is."""
    return any(name.startswith("override_") or name == "engine_kwargs" for name in key.split("."))


def test_the_words_are_those_of_the_tables() -> None:
    assert set(NAMED["words"]) == words_of_tables(), "python -m tests.inputs.named_words WHEEL..."


@pytest.mark.parametrize(
    ("program", "version"),
    [(program, version) for program, versions in PROGRAMS.items() for version in versions],
)
def test_every_key_is_named_by_the_code_of_the_releases_that_read_it(program: Program, version: str) -> None:
    generations = {version, PREVIEWS.get(version, version)}
    read = {
        own.key
        for spellings in keys_of(program).values()
        for own in spellings
        if any(own.holds(generation, reaches) for generation in generations) and not is_handed_on(own.key)
    }
    named = {*NAMED["named"][version], *OUTSIDE}

    assert len(read) > 15
    assert sorted(key for key in read if key.rpartition(".")[2] not in named) == []


@pytest.mark.parametrize("name", ["optimizer_cpu_offload", "optimizer_offload_fraction"])
def test_the_optimizer_of_fine_tuning_has_its_keys_in_its_own_section(name: str) -> None:
    meaning = f"actor.{name}"

    assert key(meaning, "0.9.1", Program.SFT_ENGINE) == f"optim.override_optimizer_config.{name}"
