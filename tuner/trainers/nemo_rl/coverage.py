"""What the estimate makes of every key of NeMo-RL: counted, without effect, or left out by name."""

from tuner.inputs.tree import dotted, leaves
from tuner.language import N_
from tuner.trainers.coverage import Coverage
from tuner.trainers.key_facts import Affects
from tuner.trainers.nemo_rl.algorithms import learns_from_given, source_of
from tuner.trainers.nemo_rl.exemplars import exemplars
from tuner.trainers.nemo_rl.images import image_key
from tuner.trainers.nemo_rl.inheritance import composed
from tuner.trainers.nemo_rl.keys import BESIDE, GENERATING, GIVEN, TABLES
from tuner.trainers.nemo_rl.releases import RELEASES
from tuner.trainers.omission import IdleKeys, Omission, OmissionContext, switched
from tuner.versions import at_least

_CHECKPOINTING = "policy.dtensor_cfg.activation_checkpointing"


def _recomputes_apart(job: OmissionContext) -> str | None:
    """The switch of recomputation, where Automodel wraps the parts of a layer and not the layer.

    Source: NeMo Automodel at 1d42deb and 92635e7, which NeMo-RL v0.5.0 and v0.6.0 have, and at 24b47e8 of
    v0.7.0 ``components/distributed/parallelizer.py`` (``DefaultParallelizationStrategy``).
    """
    apart = not at_least(job.version, "0.7.0") and job.settings.flag("policy.dtensor_cfg.enabled")
    return _CHECKPOINTING if apart and job.settings.flag(_CHECKPOINTING) else None


def _sees_uncounted(job: OmissionContext) -> str | None:
    """The data of a job with images that are not counted."""
    source = source_of(job.settings, job.version)
    return image_key(source) if source.flag("megatron") or learns_from_given(source) else None


_OMISSIONS = (
    Omission(
        name=N_("the vision tower's activations"),
        reason=N_("images are not counted under Megatron, nor those of given sequences"),
        patterns=(),
        trigger=_sees_uncounted,
    ),
    Omission(
        name=N_("quantization of the trained model"),
        reason=N_(
            "ModelOpt computes weights and activations as if they had few bits, and vLLM may have these"
        ),
        patterns=("policy.quant_*", "policy.disable_modelopt_layer_spec", "policy.generation.quant_cfg"),
        trigger=switched("policy.quant_cfg"),
    ),
    Omission(
        name=N_("teachers of other vocabularies"),
        reason=N_("their logits are brought from one vocabulary to another"),
        patterns=("teachers.**",),
        trigger=switched("teachers"),
    ),
    Omission(
        name=N_("distillation from teachers"),
        reason=N_("teachers run in worker groups of their own, on GPUs that are taken from the policy's"),
        patterns=("on_policy_distillation.**",),
        trigger=switched("on_policy_distillation"),
    ),
    Omission(
        name=N_("a reward model"),
        reason=N_("it has GPUs of its own"),
        patterns=("env.reward_model.**",),
        trigger=switched("env.reward_model.model_name", "env.reward_model.enabled"),
    ),
    Omission(
        name=N_("the draft model"),
        reason=N_("its weights, states and cache lie beside those of the policy"),
        patterns=("policy.draft.**", "policy.generation.vllm_kwargs.speculative_config.**"),
        trigger=switched("policy.draft.enabled", "policy.generation.vllm_kwargs.speculative_config"),
    ),
    Omission(
        name=N_("further rounds of dynamic sampling"),
        reason=N_("prompts whose responses all have the same reward are replaced by others"),
        patterns=(
            "grpo.use_dynamic_sampling",
            "grpo.dynamic_sampling_max_gen_batches",
            "grpo.batch_multiplier",
        ),
        affects=Affects.SECONDS,
        trigger=switched("grpo.use_dynamic_sampling"),
    ),
    Omission(
        name=N_("activations that leave for the host"),
        reason=N_("Transformer Engine moves the tensors of the modules that are named"),
        patterns=(
            "policy.megatron_cfg.fine_grained_activation_offloading",
            "policy.megatron_cfg.offload_modules",
        ),
        trigger=switched("policy.megatron_cfg.fine_grained_activation_offloading"),
    ),
    Omission(
        name=N_("Megatron's own sharding of parameters"),
        reason=N_("weights and gradients are sharded as well, and gathered layer by layer"),
        patterns=(
            "policy.megatron_cfg.distributed_data_parallel_config.use_custom_fsdp",
            "policy.megatron_cfg.distributed_data_parallel_config.data_parallel_sharding_strategy",
        ),
        trigger=switched("policy.megatron_cfg.distributed_data_parallel_config.use_custom_fsdp"),
    ),
    Omission(
        name=N_("products in 8 bits"),
        reason=N_("they are taken to be as fast as in 16, and their inputs to be kept in 16"),
        patterns=("policy.megatron_cfg.fp8_cfg.fp8", "policy.megatron_cfg.fp8_cfg.fp8_recipe"),
        affects=Affects.SECONDS,
        trigger=switched("policy.megatron_cfg.fp8_cfg.enabled"),
    ),
    Omission(
        name=N_("a fused head"),
        reason=N_("log-probabilities are computed from hidden states in chunks, without logits"),
        patterns=(
            "policy.megatron_cfg.use_linear_ce_fusion_loss",
            "policy.megatron_cfg.linear_ce_fusion_chunk_size",
            "policy.megatron_cfg.use_fused_linear_logprobs",
            "policy.megatron_cfg.fused_linear_logprobs_chunk_size",
        ),
        trigger=switched(
            "policy.megatron_cfg.use_linear_ce_fusion_loss", "policy.megatron_cfg.use_fused_linear_logprobs"
        ),
    ),
    Omission(
        name=N_("the inputs of each part of a layer"),
        reason=N_("attention, MLP and norms are recomputed apart, and the input of each is kept"),
        patterns=(),
        trigger=_recomputes_apart,
    ),
    Omission(
        name=N_("the data plane"),
        reason=N_("its segments and buffers lie in the host's memory"),
        patterns=("data_plane.**",),
        affects=Affects.HOST,
        trigger=switched("data_plane.enabled"),
    ),
    Omission(
        name=N_("what else the engines are told"),
        reason=N_("keys of Automodel, Megatron and vLLM that are handed on as they are"),
        patterns=(
            "policy.dtensor_cfg.**",
            "policy.megatron_cfg.**",
            "policy.generation.**",
            "value.**",
            "teacher.**",
            "policy.hf_config_overrides.**",
            "policy.optimizer.**",
            "policy.sequence_packing.**",
            "policy.dynamic_batching.**",
            "policy.make_sequence_length_divisible_by",
        ),
        rest=True,
        trigger=lambda _job: None,
    ),
)


def _reads(key: str, version: str) -> bool:
    return any(own.key == key and own.holds(version) for own in _SPELLINGS)


_SPELLINGS = tuple(
    own
    for table in (*TABLES.values(), *BESIDE.values())
    for spellings in table.keys.values()
    for own in spellings
)


def _unread_keys(*sections: str) -> tuple[str, ...]:
    """The keys of sections in any release's examples that reading a workload does not look at."""
    named = {own.key for own in _SPELLINGS} | {
        key for row in _OMISSIONS if not row.rest for key in row.patterns
    }
    keys = {
        dotted(path)
        for version in RELEASES.versions
        for name in exemplars(version)
        for path, _value in leaves(composed(name, version))
        if path and path[0] in sections
    }
    return tuple(sorted(keys - named))


_NO_EFFECT = (
    IdleKeys(
        name=N_("names, folders and logs"),
        reason=N_("Names something, or says where and how it is logged."),
        patterns=(
            "logger.**",
            "policy.tokenizer.**",
            "cluster.{master_port_range_low,master_port_range_high,segment_size}",
            *_unread_keys("checkpointing"),
        ),
    ),
    IdleKeys(
        name=N_("data and environments"),
        reason=N_("Says which prompts there are and how they are judged."),
        patterns=(
            "env.{math,code,sliding_puzzle_game,clevr_cogent}.**",
            "reward_penalties.**",
            *_unread_keys("data"),
        ),
    ),
    IdleKeys(
        name=N_("engines that are not chosen"),
        reason=N_("Is for an engine that no release has any more."),
        patterns=("policy.generation_batch_size", "policy.activation_checkpointing_enabled"),
    ),
    IdleKeys(
        name=N_("the loss and its optimization"),
        reason=N_("Changes what is learned, not how long it takes or how much it needs."),
        patterns=(
            "policy.scheduler.**",
            "policy.max_grad_norm",
            "policy.reward_model_cfg.**",
            *_unread_keys("loss_fn", "value_loss_fn", *GENERATING, *GIVEN),
        ),
    ),
)


COVERAGE = Coverage(_OMISSIONS, no_effect=_NO_EFFECT, reads=_reads)
