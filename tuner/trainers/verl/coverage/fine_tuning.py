"""What the estimate of a fine-tuning job leaves out."""

from tuner.language import N_
from tuner.trainers.omission import Omission, OmissionContext, Trigger, changed, switched
from tuner.trainers.verl.coverage.chosen_keys import CHOSEN_KEYS
from tuner.trainers.verl.coverage.models import FLASH
from tuner.trainers.verl.coverage.veomni import experts_apart, other_kernels
from tuner.trainers.verl.keys import keys_of
from tuner.trainers.verl.programs import Program
from tuner.workload import Attention, Backend

_READ = frozenset(name.key for names in keys_of(Program.SFT_ENGINE).values() for name in names)


def _unread(*texts: str) -> Trigger:
    """The first key under some patterns that differs from the release's own value and that nothing reads."""
    return lambda job: next((key for key in job.all_named(*texts) if key not in _READ), None)


def _images(job: OmissionContext) -> str | None:
    if job.workload.model.tower is None:
        return None
    return next(key for key in ("model.path", "model.partial_pretrain") if key in job.settings)


def _second_offload(job: OmissionContext) -> str | None:
    """CPU offload of the trainer of its own, whose FSDP2 is handed the policy of FSDP1."""
    key = "model.fsdp_config.cpu_offload"
    second = job.workload.actor.engine.backend is Backend.FSDP2
    return key if second and job.settings.get(key) else None


def _turbo(job: OmissionContext) -> str | None:
    key = "engine.strategy"
    return key if job.settings.get(key) == "fsdp_turbo" else None


def _sequence_parallel(job: OmissionContext) -> str | None:
    engine = job.workload.actor.engine
    whole = not engine.divides_sequence and engine.parallel.tensor > 1
    return "engine.sequence_parallel" if whole else None


def _other_configuration(job: OmissionContext) -> str | None:
    """Limits of positions aside, from which no size follows, and attention that is counted."""
    changed_keys = job.all_named("model.hf_config_path", "model.override_config.**")
    told = ("max_position_embeddings", "rope_", *(("attn_implementation",) if _attends(job) else ()))
    return next((key for key in changed_keys if not key.split("override_config.")[-1].startswith(told)), None)


def _attends(job: OmissionContext) -> bool:
    """Whether attention is what is counted: FlashAttention, or PyTorch's own where the engine has it."""
    asked = str(job.settings.get("model.override_config.attn_implementation"))
    return asked.startswith(FLASH) or job.workload.actor.engine.attention is not Attention.SEQUENCES


def _recomputed(job: OmissionContext) -> str | None:
    key = "engine.override_transformer_config.recompute_modules"
    return key if job.workload.actor.engine.recomputes_parts else None


FINE_TUNING: tuple[Omission, ...] = (
    CHOSEN_KEYS,
    Omission(
        name=N_("VeOmni's kernels"),
        reason=N_("attention is taken for flash attention, and other kernels for those of PyTorch or Liger"),
        patterns=(),
        trigger=other_kernels("engine"),
    ),
    Omission(
        name=N_("tokens on their way between experts"),
        reason=N_("tokens that ranks exchange take neither memory nor time, and experts are used evenly"),
        patterns=(),
        trigger=experts_apart("engine"),
    ),
    Omission(
        name=N_("the images"),
        reason=N_("tokens of images and the vision tower's activations depend on the data"),
        patterns=(),
        trigger=_images,
    ),
    Omission(
        name=N_("CPU offload under FSDP2"),
        reason=N_(
            "verl hands FSDP1's policy to FSDP2, which does not know it; the states are counted on the card"
        ),
        patterns=(),
        trigger=_second_offload,
    ),
    Omission(
        name=N_("another optimizer"),
        reason=N_("its states are counted as those of AdamW"),
        patterns=("optim.optimizer <0.6.1",),  # since then read
        trigger=changed("optim.{optimizer,optimizer_impl}"),
    ),
    Omission(
        name=N_("quantization-aware training"),
        reason=N_("quantized weights and their scales are computed beside the weights"),
        patterns=("engine.qat.**",),
        trigger=switched("engine.qat.enable"),
    ),
    Omission(
        name=N_("FSDP turbo's own plan"),
        reason=N_("the planner is taken for FSDP2, whatever it shards and prefetches by its own keys"),
        patterns=("engine.turbo_config.**",),
        trigger=_turbo,
    ),
    Omission(
        name=N_("another wrapping policy"),
        reason=N_(
            "FSDP's units are taken to be the decoder's layers; the upper end has one for the whole model"
        ),
        patterns=("{engine,model.fsdp_config}.wrap_policy.**",),
        trigger=changed("engine.wrap_policy.**", "model.fsdp_config.wrap_policy.**"),
    ),
    Omission(
        name=N_("the MTP head"),
        reason=N_(
            "a module for multi-token prediction, of which the upper end has one at most under Megatron"
        ),
        patterns=("model.mtp.**",),
        trigger=switched("model.mtp.enable"),
    ),
    Omission(
        name=N_("tiled MLPs"),
        reason=N_("the MLP runs over slices of the sequence and keeps less"),
        patterns=("model.tiled_mlp.**",),
        trigger=switched("model.tiled_mlp.enabled"),
    ),
    Omission(
        name=N_("overrides of the model's configuration"),
        reason=N_("sizes and attention are those of the model's own config.json"),
        patterns=("model.{hf_config_path,override_config}.**",),
        trigger=_other_configuration,
    ),
    Omission(
        name=N_("what an external library changes"),
        reason=N_("its code is imported into the workers and may replace models and kernels"),
        patterns=("model.external_lib",),
        trigger=changed("model.external_lib"),
    ),
    Omission(
        name=N_("activations without sequence parallelism"),
        reason=N_(
            "norms and the residual stream are counted as divided by tokens; the upper end has them whole"
        ),
        patterns=(),
        trigger=_sequence_parallel,
    ),
    Omission(
        name=N_("recomputation of other modules"),
        reason=N_(
            "selective recomputation is taken to be the attention core's; the upper end recomputes nothing"
        ),
        patterns=(),
        trigger=_recomputed,
    ),
    Omission(
        name=N_("overrides of Megatron's transformer"),
        reason=N_("fusions, dispatchers and attention are taken as Megatron's defaults have them"),
        patterns=("engine.override_transformer_config.**",),
        trigger=_unread("engine.override_transformer_config.**", "engine.override_mcore_model_config.**"),
    ),
    Omission(
        name=N_("options of Megatron's gradient buffers"),
        reason=N_("buckets and overlap of the reduction are taken as Megatron's defaults have them"),
        patterns=("engine.override_ddp_config.**",),
        trigger=_unread("engine.override_ddp_config.**"),
    ),
)
