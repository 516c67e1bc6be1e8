"""Supervised fine-tuning: what each release makes of its settings, and a change in its own keys."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.loading import load
from tests.workloads import QWEN25_7B, cluster
from tuner import memory
from tuner.dtypes import DType
from tuner.trainers.verl.defaults import FINE_TUNING_CONFIGS, has_config, read_defaults
from tuner.trainers.verl.keys import keys_of
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.write import proposal_writer
from tuner.workload import Backend, Checkpointing, HeadKind, Phase, Workload

OWN, ENGINE, MEGATRON, VEOMNI = FINE_TUNING_CONFIGS
START = {
    OWN: ["model.partial_pretrain=m"],
    ENGINE: ["model.path=m"],
    MEGATRON: ["model.path=m", "engine=megatron", "optim=megatron"],
    VEOMNI: ["model.path=m", "engine=veomni", "optim=veomni"],
}
KNOWN = [
    (config, version) for config in FINE_TUNING_CONFIGS for version in BUNDLED if has_config(version, config)
]


def read(config: str, version: str, overrides: Sequence[str] = (), *, gpus: int = 8) -> Workload:
    loaded = load(None, [*START[config], *overrides], version=version)
    assert loaded.base.name == config
    machines = cluster(gpus_per_node=gpus, nodes=1)
    return loaded.workload(model=QWEN25_7B, critic_model=None, cluster=machines)


@pytest.mark.parametrize(("config", "version"), KNOWN)
def test_the_defaults_of_every_release_make_one_phase_that_trains_and_one_that_saves(
    config: str, version: str
) -> None:
    workload = read(config, version)
    batch, actor = workload.batch, workload.actor
    assert (batch.sequences, batch.mini_batch_sequences, batch.sequence_tokens) == (256, 256, 1024)
    assert (
        workload.rollout is workload.sync is workload.reference is workload.critic is actor.log_prob is None
    )
    assert [step_pass.phase for step_pass in workload.passes()] == [Phase.TRAIN]
    estimate = memory.estimate(workload)
    assert [phase.phase for phase in estimate.phases] == [Phase.TRAIN, Phase.SAVE_CHECKPOINT]
    assert estimate.worst.phase is Phase.TRAIN
    backends = {OWN: Backend.FSDP2, ENGINE: Backend.FSDP, MEGATRON: Backend.MEGATRON, VEOMNI: Backend.FSDP2}
    assert actor.engine.backend is backends[config]
    assert actor.engine.whole_root is (config == VEOMNI)
    if config != MEGATRON:
        assert actor.engine.stored_dtype is DType.FLOAT32
        assert actor.engine.checkpointing is Checkpointing.FULL


@pytest.mark.parametrize(("config", "version"), KNOWN)
def test_every_key_that_a_workload_is_read_by_is_one_that_the_release_has(config: str, version: str) -> None:
    """Or that its dataclasses have, which the YAML leaves out."""
    program = Program.SFT if config == OWN else Program.SFT_ENGINE
    defaults = read_defaults(version, config)
    fields = {name for names in defaults.fields.values() for name in names}
    tree = dict(defaults.tree)
    lacking = []
    for meaning in (
        "batch.prompts",
        "batch.max_response_tokens",
        "actor.micro_batch",
        "model.path",
        "model.packed",
    ):
        key = next(name.key for name in keys_of(program)[meaning])
        node = tree
        for part in key.split("."):
            if not isinstance(node, dict) or (part not in node and part not in fields):
                lacking.append(key)
                break
            node = node.get(part, {})
    assert lacking == []


def test_its_own_trainer_packs_only_what_ranks_share_and_computes_its_loss_in_float32() -> None:
    padded = read(OWN, "0.7.0", ["use_remove_padding=True", "data.micro_batch_size_per_gpu=2"])
    shared = read(OWN, "0.7.0", ["use_remove_padding=True", "ulysses_sequence_parallel_size=2"])
    assert not padded.actor.engine.packed
    assert shared.actor.engine.packed
    assert (padded.actor.head.shifts_logits, shared.actor.head.shifts_logits) == (True, False)
    head = next(
        term
        for moment in memory.estimate(padded).phases[0].moments
        for term in moment.terms
        if term.name == "head_backward"
    )
    # 2 sequences of 1,024 tokens: logits, their copy and log-softmax in bfloat16, two tensors in float32
    assert head.bytes == 2 * 1024 * QWEN25_7B.vocab * (3 * 2 + 2 * 4)


def test_offloading_parameters_takes_effect_under_the_first_fsdp_alone() -> None:
    offload = ["model.fsdp_config.cpu_offload=True", "model.fsdp_config.offload_params=True"]
    first = read(OWN, "0.7.0", [*offload, "model.strategy=fsdp"])
    second = read(OWN, "0.7.0", offload)
    assert first.actor.engine.streamed_offload
    assert not second.actor.engine.streamed_offload
    left_out = load(None, [*START[OWN], *offload], version="0.7.0").left_out(second)
    assert [part.key for part in left_out] == ["model.fsdp_config.cpu_offload"]


def test_the_first_checkpoint_format_is_the_whole_model() -> None:
    saving = read(OWN, "0.4.1").actor.saving
    assert saving is not None
    assert (saving.weights, saving.optimizer, saving.whole_model) == (False, False, True)


CHANGES = {
    "batch": lambda job: job.with_batch(prompts=64, mini_batch_prompts=64),
    "length": lambda job: job.with_batch(max_response_tokens=512),
    "checkpointing": lambda job: job.with_actor_engine(checkpointing=Checkpointing.NONE),
    "micro-batch": lambda job: job.with_actor(
        update=replace(
            job.actor.update,
            batching=replace(job.actor.update.batching, dynamic=False, micro_batch_sequences=2),
        )
    ),
    "liger": lambda job: job.with_actor_engine(fused_layers=True),
    "offload": lambda job: job.with_actor_engine(param_offload=True, optimizer_offload=True),
    "fused head": lambda job: job.with_actor_head(kind=HeadKind.FUSED_TORCH),
    "activation offload": lambda job: job.with_actor_engine(activation_offload=True),
    "ulysses": lambda job: job.with_actor_engine(parallel=replace(job.actor.engine.parallel, ulysses=2)),
}
_LACKS = {
    OWN: {"offload", "fused head", "activation offload", "ulysses"},
    ENGINE: set[str](),
    VEOMNI: set[str](),
}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from([known for known in KNOWN if known[0] != MEGATRON]),
    st.sets(st.sampled_from(list(CHANGES)), min_size=1, max_size=3),
)
def test_a_change_is_written_in_the_trainers_own_keys_and_read_back(
    known: tuple[str, str], names: set[str]
) -> None:
    config, version = known
    names = names - _LACKS[config]
    before = after = read(config, version)
    for name in sorted(names):
        after = CHANGES[name](after)
    loaded = load(None, START[config], version=version)
    written = proposal_writer(before, loaded.settings, version=version).written(after)
    assert read(config, version, written.overrides) == written.workload
    assert not any("actor_rollout_ref" in override for override in written.overrides)
    for name in names:
        assert CHANGES[name](written.workload) == written.workload, name
