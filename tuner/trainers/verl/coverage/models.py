"""Models beside the actor, and what the actor is: parts that the estimate leaves out."""

from tuner.architectures import find_architecture
from tuner.language import N_
from tuner.trainers.key_facts import Affects
from tuner.trainers.key_pattern import covered
from tuner.trainers.omission import Omission, OmissionContext, switched
from tuner.trainers.verl.coverage.chosen_keys import CHOSEN_KEYS
from tuner.trainers.verl.coverage.no_effect import LIMITS_OF_POSITIONS
from tuner.trainers.verl.releases import ENGINE_PREVIEW, OUR_LIBRARY, modules_of, reaches
from tuner.workload import Attention, Backend, RolloutEngine

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_REFERENCE = "actor_rollout_ref.ref.model"
_IMAGES = ("data.image_key", f"{_ROLLOUT}.limit_images", "data.mm_processor_kwargs")
_SERVER = (  # of an inference engine beside the rollout: what is not read of its section
    "{load_format,engine_kwargs,limit_images,n,mtp,quantization_config_file,layered_summon,"
    "multi_stage_wake_up,prompt_length,response_length,disaggregation}.**"
)
_EXTERNAL_LIBRARY = "{actor_rollout_ref,critic,reward_model}.model.external_lib"
#: Read by verl's own workers since 0.6.1; before, these ask for FlashAttention whatever is set.
#: Source: verl 0.6.1 ``workers/fsdp_workers.py:318``, 0.9.1 ``workers/config/model.py:185``.
_ATTENTION = "{actor_rollout_ref,critic}.model.override_config.attn_implementation >=0.6.1"
FLASH = "flash_attention_"  # what each of its versions is called, and what verl asks for by itself
_OVERRIDES = (
    "{actor_rollout_ref,critic}.model.hf_config_path",
    "{actor_rollout_ref,critic}.model.override_config.**",
    f"{_ACTOR}.megatron.override_mcore_model_config.**",
    "{actor_rollout_ref,critic}.**.override_mcore_model_config.**",
)
_TOLD_APART = (_ATTENTION, LIMITS_OF_POSITIONS)  # among these
_SERVER_DECIDES = "{engine_kwargs,limit_images,mtp,quantization_config_file}.**"


def _uncounted_reward(job: OmissionContext) -> str | None:
    """The switch of a reward model whose size is not known, or whose GPUs are its own."""
    reward = job.workload.reward
    if reward is None or (reward.shares_gpus and reward.model is not None):
        return None
    from tuner.trainers.verl.own_reward import has_own_reward  # few launches have a reward model

    if has_own_reward(job.settings):
        return None
    return switched("reward_model.enable", "reward.reward_model.enable")(job)


def _own_reward(job: OmissionContext) -> str | None:
    """The strategy of a reward model that a copy of verl has a worker for."""
    if job.workload.reward is None:
        return None
    from tuner.trainers.verl.own_reward import STRATEGY, has_own_reward  # few launches have a reward model

    return STRATEGY if has_own_reward(job.settings) else None


def _options_of_reward(job: OmissionContext) -> str | None:
    reward = job.workload.reward
    if reward is None or not reward.shares_gpus:
        return None
    return job.named(
        "reward_model.max_length",
        "reward_model.model.override_config.**",
        f"reward_model.rollout.{_SERVER_DECIDES}",
        f"reward.reward_model.rollout.{_SERVER_DECIDES}",
        "reward.reward_model.rollout.disaggregation.enabled",
    )


def _other_reference(job: OmissionContext) -> str | None:
    """What makes the reference another model than the actor's, where one of its own runs.

    Source: verl 0.6.0 ``workers/fsdp_workers.py:800-803``: of its section the path is taken, or the actor's.
    """
    reference = job.workload.reference
    if reference is None or not reference.separate:
        return None
    path = f"{_REFERENCE}.path"
    own = job.settings.get("actor_rollout_ref.model.path")
    other = reference.model is None and job.settings.get(path) not in (None, own)
    return job.named(*((path,) if other else ()), f"{_REFERENCE}.{{hf_config_path,override_config}}.**")


def _loss_over_top_tokens(job: OmissionContext) -> str | None:
    if not job.settings.get("distillation.enabled"):
        return None
    mode = "distillation.distillation_loss.loss_mode"
    return mode if "topk" in str(job.settings.get(mode)) else None


def _other_attention(job: OmissionContext) -> str | None:
    """The key of an attention that verl does not ask for by itself, where it is not counted."""
    asked = (key for key in job.all_named(_ATTENTION) if not str(job.settings.get(key)).startswith(FLASH))
    return next((key for key in asked if not _is_counted(job, key)), None)


def _is_counted(job: OmissionContext, key: str) -> bool:
    critic = job.workload.critic
    if not key.startswith("critic."):
        return job.workload.actor.engine.attention is not Attention.SEQUENCES
    return critic is None or critic.engine.attention is not Attention.SEQUENCES


def _overridden(job: OmissionContext) -> str | None:
    """A key that may change the model, and that nothing else is told by."""
    named = job.all_named(*_OVERRIDES)
    return next((key for key in named if not covered(_TOLD_APART, key, job.version, job.reaches)), None)


def _other_library(job: OmissionContext) -> str | None:
    """The key of a library that is not ours, whose head takes no more than the fused one that is counted."""
    for key in job.all_named(_EXTERNAL_LIBRARY):
        if any(name != OUR_LIBRARY for name in modules_of(job.settings.get(key))):
            return key
    return None


def _sees(job: OmissionContext) -> bool:
    return find_architecture(job.workload.model.architecture).tower is not None


def _images(job: OmissionContext) -> str | None:
    """Whatever says that there are images or how large, where a tower of unknown dimensions sees them."""
    named, number = _named_images(job), job.workload.batch.lengths.images_per_prompt
    if not _sees(job) or job.workload.model.tower is not None or number == 0:
        return None
    general = find_architecture(job.workload.model.architecture).sees_beside_text
    by_default = named is not None and not job.settings.is_set(named)
    return None if general and by_default and number is None else named


def _counted_images(job: OmissionContext) -> str | None:
    """Whatever says that there are images or how large, of a job whose images are counted."""
    return None if job.workload.batch.images is None else _named_images(job) or _IMAGES[0]


def _named_images(job: OmissionContext) -> str | None:
    """The data's column of images has a name by default, so that data that has one needs no setting."""
    column = _IMAGES[0] if job.settings.get(_IMAGES[0]) else None
    return next((key for key in _IMAGES if job.settings.is_set(key)), column)


def _videos(job: OmissionContext) -> str | None:
    named = ("data.video_key", "data.audio_key")
    return next((key for key in named if _sees(job) and job.settings.is_set(key)), None)


def _images_of_stages(job: OmissionContext) -> str | None:
    """The images of a job that Megatron trains."""
    megatron = job.workload.actor.engine.backend is Backend.MEGATRON
    return _counted_images(job) if megatron else None


def _images_served(job: OmissionContext) -> str | None:
    """The images of a job whose engine sizes its memory without running the tower first."""
    profiled = job.workload.generator.engine is RolloutEngine.VLLM
    return None if profiled else _counted_images(job)


def _shared_prompts(job: OmissionContext) -> str | None:
    key = f"{_ACTOR}.use_prefix_grouper"
    return key if not reaches(job.version, ENGINE_PREVIEW) and job.settings.get(key) else None


def _adapters(job: OmissionContext) -> str | None:
    if job.workload.actor.engine.lora is None:
        return None
    return job.named("actor_rollout_ref.model.lora.{type,dtype,dropout,exclude_modules,freeze_*,a2a_*}")


MODELS: tuple[Omission, ...] = (
    Omission(
        name=N_("the reward model"),
        reason=N_("a model of unknown size is not counted, and one on GPUs of its own is not in the seconds"),
        patterns=(),
        trigger=_uncounted_reward,
        elsewhere=switched("reward_model.enable_resource_pool", "reward.reward_model.enable_resource_pool"),
    ),
    Omission(
        name=N_("the reward model of a worker of its own"),
        reason=N_("a worker that no release has runs it, and its memory and time are not counted"),
        patterns=(),
        trigger=_own_reward,
    ),
    Omission(
        name=N_("the reward model's other options"),
        reason=N_("its sequences are as long as the policy's, and its engine is taken without arguments"),
        patterns=(
            "reward_model.{max_length,param_offload}",
            "reward_model.model.{use_fused_kernels,use_shm,override_config}.**",
            "reward_model.model.fsdp_config.{param_offload,wrap_policy}.**",
            "reward_model.megatron.{override_transformer_config,sequence_parallel,use_dist_checkpointing,"
            "use_distributed_optimizer,use_remove_padding}.**",
            "reward_model.megatron.use_mbridge <0.7.0",
            f"{{reward_model,reward}}.**.rollout.{_SERVER}",
        ),
        trigger=_options_of_reward,
    ),
    Omission(
        name=N_("the distillation teacher"),
        reason=N_("a teacher that scores responses works on GPUs of its own, beside the rollout"),
        patterns=(
            f"distillation.teacher_models.*.inference.{_SERVER}",
            "distillation.teacher_models.*.num_replicas",
        ),
        trigger=switched("distillation.enabled"),
        elsewhere=switched("distillation.enabled"),
    ),
    Omission(
        name=N_("the distillation loss"),
        reason=N_("a loss over the teacher's top tokens works on log-probabilities of the whole vocabulary"),
        patterns=("distillation.distillation_loss.{topk,loss_mode,use_task_rewards,use_policy_gradient}",),
        trigger=_loss_over_top_tokens,
    ),
    Omission(
        name=N_("another reference model"),
        reason=N_("the reference is taken to be as large as the actor"),
        priced_as=N_("The seconds of the reference are those of a model as large as the actor's."),
        patterns=(f"{_REFERENCE}.**",),
        trigger=_other_reference,
        speaks=True,
    ),
    Omission(
        name=N_("the MTP head"),
        reason=N_(
            "a module for multi-token prediction, of which the upper end has one at most under Megatron"
        ),
        patterns=(
            "{actor_rollout_ref,critic}.model.mtp.{detach_encoder,method,mtp_loss_scaling_factor,"
            "num_speculative_tokens,speculative_*}",
            "critic.model.mtp.{enable,enable_train}",
            "{actor_rollout_ref,critic}.model.mtp.enable_rollout <0.9.0",
            "critic.model.mtp.enable_rollout >=0.9.0",
        ),
        trigger=switched("actor_rollout_ref.model.mtp.enable"),
    ),
    CHOSEN_KEYS,
    Omission(
        name=N_("the images"),
        reason=N_(
            "tokens of images, the tower's activations and the engine's largest image depend on the data"
        ),
        patterns=(
            "data.{image_patch_size,return_multi_modal_inputs}",
            "data.mm_processor_kwargs.**",
        ),
        trigger=_images,
    ),
    Omission(
        name=N_("the videos and sounds"),
        reason=N_("their patches and what a tower keeps of them are not counted"),
        patterns=("data.{video_key,audio_key}",),
        trigger=_videos,
    ),
    Omission(
        name=N_("the vision tower's activations"),
        reason=N_("Megatron's first stage runs the tower, whose layers are not Transformer Engine's alone"),
        patterns=(),  # a job's images are read
        trigger=_images_of_stages,
    ),
    Omission(
        name=N_("the rollout engine's images"),
        reason=N_("only vLLM runs the tower before it sizes its cache; others run it in what is left"),
        patterns=(),
        trigger=_images_served,
    ),
    Omission(
        name=N_("the vision tower in generation"),
        reason=N_("the engine runs it once over the images of every prompt"),
        patterns=(),
        affects=Affects.SECONDS,
        trigger=_counted_images,
    ),
    Omission(
        name=N_("overrides of the model's configuration"),
        reason=N_("sizes and attention are those of the model's own config.json"),
        patterns=_OVERRIDES,
        trigger=_overridden,
    ),
    Omission(
        name=N_("attention other than FlashAttention"),
        reason=N_(
            "attention is taken to pair tokens of one sequence alone and to keep no scores; others pair all "
            "tokens of a packed row, or of a padded one"
        ),
        patterns=(),  # its key is one of the model's overrides
        trigger=_other_attention,
    ),
    Omission(
        name=N_("what an external library changes"),
        reason=N_("its code is imported into the workers and may replace models and kernels"),
        patterns=("{critic,reward_model}.model.external_lib",),  # whether the actor's is ours is read
        trigger=_other_library,
    ),
    Omission(
        name=N_("the adapters' own options"),
        reason=N_("kind, dtype, dropout and exclusions are taken as the release has them"),
        patterns=(
            "{actor_rollout_ref,critic}.model.lora.{type,dtype,dropout,dropout_position,exclude_modules,"
            "freeze_*,a2a_*}",
        ),
        trigger=_adapters,
    ),
    Omission(
        name=N_("tiled MLPs"),
        reason=N_("the MLP runs over slices of the sequence and keeps less"),
        patterns=(f"{{actor_rollout_ref,critic}}.model.tiled_mlp.* <{ENGINE_PREVIEW}",),
        trigger=switched("actor_rollout_ref.model.tiled_mlp.enabled"),
    ),
    Omission(
        name=N_("the sharing of prompts"),
        reason=N_("prompts are computed once for all their responses"),
        patterns=(),  # read, since it forbids some proposals
        trigger=_shared_prompts,
    ),
)
