"""What trains the models: parts that the estimate leaves out."""

from tuner.language import N_
from tuner.trainers.key_facts import Affects
from tuner.trainers.omission import Omission, OmissionContext, changed, switched
from tuner.trainers.verl.coverage.veomni import experts_apart, other_kernels
from tuner.workload import Dispatcher

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_ROLES = "{actor_rollout_ref,critic}.**"


def _turbo(job: OmissionContext) -> str | None:
    key = f"{_ACTOR}.strategy"
    return key if job.settings.get(key) == "fsdp_turbo" else None


def _sequence_parallel(job: OmissionContext) -> str | None:
    """Switched off where it is read, by the actor or by a critic."""
    actor, critic = job.workload.actor.engine, job.workload.critic
    sections = {_ACTOR: actor, **({} if critic is None else {"critic": critic.engine})}
    whole = (
        it for it, engine in sections.items() if not engine.divides_sequence and engine.parallel.tensor > 1
    )
    return next((f"{section}.megatron.sequence_parallel" for section in whole), None)


def _recomputed(job: OmissionContext) -> str | None:
    """Modules of the user's choice, of the actor or a critic."""
    actor, critic = job.workload.actor.engine, job.workload.critic
    chosen = actor.recomputes_parts or (critic is not None and critic.engine.recomputes_parts)
    return job.named(f"{_ROLES}.override_transformer_config.recompute_modules") if chosen else None


def _dispatches_otherwise(job: OmissionContext) -> str | None:
    """Experts that get their tokens otherwise than by all-to-all, of the actor."""
    sparse = job.workload.model.moe is not None
    chosen = sparse and job.workload.actor.engine.dispatcher is not Dispatcher.ALL_TO_ALL
    return job.named(f"{_ROLES}.override_transformer_config.moe_token_dispatcher_type") if chosen else None


def _recomputed_layers(job: OmissionContext) -> str | None:
    """Layers otherwise than one by one."""
    section = "actor_rollout_ref.model.gradient_checkpointing_kwargs.activations_checkpoint"
    usual = {f"{section}_method": (None, "uniform"), f"{section}_num_layers": (None, 1)}
    return next((key for key, values in usual.items() if job.settings.get(key) not in values), None)


TRAINING: tuple[Omission, ...] = (
    Omission(
        name=N_("VeOmni's kernels"),
        reason=N_("attention is taken for flash attention, and other kernels for those of PyTorch or Liger"),
        patterns=(
            f"{_ROLES}.veomni.{{attn_implementation,cross_entropy_loss_implementation,"
            "rms_norm_gated_implementation,causal_conv1d_implementation,chunk_gated_delta_rule_implementation,"
            "load_balancing_loss_implementation,dsa_*,mhc_*,qat_*}",
        ),
        trigger=other_kernels(f"{_ACTOR}.veomni"),
    ),
    Omission(
        name=N_("which activations VeOmni offloads"),
        reason=N_("every layer's input is taken to be offloaded, and no buffer to be kept for the next step"),
        patterns=(
            f"{_ACTOR}.veomni.{{activation_offload_*,activation_gpu_limit}}",
            "critic.veomni.{activation_offload_*,activation_gpu_limit}",
        ),
        trigger=changed(f"{_ACTOR}.veomni.{{activation_offload_modules,activation_gpu_limit}}"),
    ),
    Omission(
        name=N_("units of VeOmni's that are named"),
        reason=N_("VeOmni's units are taken to be the decoder's layers and the rest"),
        patterns=(f"{_ROLES}.veomni.basic_modules",),
        trigger=changed(f"{_ROLES}.veomni.basic_modules"),
    ),
    Omission(
        name=N_("tokens on their way between experts"),
        reason=N_("tokens that ranks exchange take neither memory nor time, and experts are used evenly"),
        patterns=(),  # read
        trigger=experts_apart(f"{_ACTOR}.veomni"),
    ),
    Omission(
        name=N_("quantization-aware training"),
        reason=N_("quantized weights and their scales are computed beside the weights"),
        patterns=(
            f"{_ROLES}.qat.{{enable,activation_observer,group_size,ignore_patterns,mode,quantization_*}}",
        ),
        trigger=switched(f"{_ACTOR}.fsdp_config.qat.enable", f"{_ACTOR}.megatron.qat.enable"),
    ),
    Omission(
        name=N_("FSDP turbo's own plan"),
        reason=N_("the planner is taken for FSDP2, whatever it shards and prefetches by its own keys"),
        patterns=(f"{_ROLES}.turbo_config.**",),
        trigger=_turbo,
    ),
    Omission(
        name=N_("another wrapping policy"),
        reason=N_(
            "FSDP's units are taken to be the decoder's layers; the upper end has one for the whole model"
        ),
        patterns=(f"{_ROLES}.wrap_policy.{{disable,transformer_layer_cls_to_wrap}}",),
        trigger=changed(f"{_ROLES}.wrap_policy.**"),
    ),
    Omission(
        name=N_("activations without sequence parallelism"),
        reason=N_(
            "norms and the residual stream are counted as divided by tokens; the upper end has them whole"
        ),
        patterns=(),  # read
        trigger=_sequence_parallel,
    ),
    Omission(
        name=N_("dynamic context parallelism"),
        reason=N_("the ranks that share a sequence change with its length"),
        patterns=(f"{_ROLES}.megatron.{{dynamic_context_parallel,max_seqlen_per_dp_cp_rank}}",),
        trigger=switched(f"{_ACTOR}.megatron.dynamic_context_parallel"),
    ),
    Omission(
        name=N_("Megatron under 0.3"),
        reason=N_("it is refused there, and modelled from 0.4.0 on"),
        patterns=(
            "{actor_rollout_ref,critic,reward_model}.**.megatron.{tensor_*,pipeline_*,virtual_*} <0.4.0",
            f"{_ACTOR}.megatron.use_distributed_optimizer <0.4.0",
            "critic.megatron.use_distributed_optimizer <0.4.0",
            "actor_rollout_ref.ref.param_offload",
        ),
    ),
    Omission(
        name="Megatron-FSDP",
        reason=N_("its states are sharded over data parallel ranks, which Megatron's own are not"),
        patterns=(f"{_ROLES}.megatron.use_megatron_fsdp",),
    ),
    Omission(
        name=N_("recomputation of other modules"),
        reason=N_(
            "selective recomputation is taken to be the attention core's; the upper end recomputes nothing"
        ),
        patterns=(),  # read
        trigger=_recomputed,
    ),
    Omission(
        name=N_("recomputation of several layers"),
        reason=N_("what is recomputed is taken to be whole layers, one by one"),
        patterns=(
            "{actor_rollout_ref,critic}.model.gradient_checkpointing_kwargs.activations_checkpoint_method",
            "{actor_rollout_ref,critic}.model.gradient_checkpointing_kwargs.activations_checkpoint_num_layers",
        ),
        trigger=_recomputed_layers,
    ),
    Omission(
        name=N_("buffers of another token dispatcher"),
        reason=N_("its seconds are counted, and of the card it is taken to keep what an all-to-all keeps"),
        patterns=(),  # read
        trigger=_dispatches_otherwise,
    ),
    Omission(
        name=N_("overrides of Megatron's transformer"),
        reason=N_("fusions, dispatchers and attention are taken as Megatron's defaults have them"),
        patterns=(f"{_ROLES}.override_transformer_config.**",),
        rest=True,
    ),
    Omission(
        name=N_("options of Megatron's gradient buffers"),
        reason=N_("buckets and overlap of the reduction are taken as Megatron's defaults have them"),
        patterns=(f"{_ROLES}.override_ddp_config.**",),
        rest=True,
    ),
    Omission(
        name=N_("the states of another optimizer"),
        reason=N_("two moments per parameter are counted, as Adam keeps them; the others keep no more"),
        patterns=(
            f"{_ROLES}.optim.optimizer <0.6.1",  # since then read
            f"{_ROLES}.optim.{{use_layer_wise_distributed_optimizer,muon_*}}",
            f"{_ROLES}.optim.exp_avg_sq_dtype",
        ),
        trigger=changed(
            f"{_ACTOR}.optim.{{optimizer,optimizer_impl,use_layer_wise_distributed_optimizer,exp_avg_sq_dtype}}"
        ),
    ),
    Omission(
        name=N_("options of the optimizer"),
        reason=N_("what is not offloading or a dtype is passed on to the optimizer as it is"),
        patterns=(f"{_ROLES}.optim.override_optimizer_config.**",),
        rest=True,
    ),
    Omission(
        name=N_("the sum of squared probabilities"),
        reason=N_("it makes copies of the logits in float32, which the upper end has"),
        patterns=(f"{_ACTOR}.sum_pi_squared_checkpointing",),  # whether it is computed is read
        trigger=switched(f"{_ACTOR}.calculate_sum_pi_squared"),
    ),
    Omission(
        name=N_("the engine's record of experts"),
        reason=N_(
            "an engine that returns the experts of each token keeps them for every slot of its KV cache"
        ),
        patterns=(f"{_ROLLOUT}.enable_rollout_routing_replay",),
        affects=Affects.HOST,
    ),
)
