"""What a field of a workload says of a job, for differences that no key of a configuration shows."""

from enum import Enum
from typing import Any

from msgspec import Struct

from tuner.language import N_, _
from tuner.memory.rollout.share import FRACTION_MEANS
from tuner.render.numbers import exact, quantity
from tuner.render.words import listed, titled
from tuner.units import MIB
from tuner.workload import FractionOf, Scaling

_ROLES = {"actor": N_("actor"), "reference": N_("reference"), "critic": N_("critic")}
_SCALINGS = {
    Scaling.NONE: N_("without memory of its own"),
    Scaling.IN_PLACE: N_("in place"),
    Scaling.COPY: N_("into a copy"),
}
_WORDS = {
    "agent_workers": N_("processes that hold conversations with the rollout engine"),
    "backend": N_("how the model is divided"),
    "bucket_bytes": N_("bucket of the weight sync"),
    "buckets": N_("buckets of the weight sync on a GPU of the trainer"),
    "capture_sizes": N_("batch sizes of CUDA graphs"),
    "carrier": N_("what carries weights to engines on other GPUs"),
    "checks_free": N_("the rollout engine stops where less than its share of the card is free at its start"),
    "conversation": N_("turns of a response"),
    "chunk_tokens": N_("tokens of a chunk of the entropy"),
    "chunked_prefill": N_("prompts are computed in chunks"),
    "loops_tokens": N_("the log-probability of each packed token is computed by itself"),
    "slices_response": N_("log-probabilities are computed from the logits of responses alone"),
    "clones_logits": N_("the cross entropy works on a copy of the logits"),
    "cluster": N_("GPUs"),
    "collections": N_("collections of garbage around a weight sync"),
    "collects_again": N_("garbage is collected once more where much is freed"),
    "maps_pages": N_("freed memory of the trainer is given back in pages, not in whole blocks"),
    "collects_garbage": N_("garbage is collected each time weights or states move to the host or back"),
    "compiled": N_("the entropy is computed by compiled kernels"),
    "controller": N_("processes that hold a step's batch"),
    "rounds": N_("rounds in which the sequences of a step are generated"),
    "counts_graphs": N_("CUDA graphs are estimated beforehand and taken from the KV cache"),
    "critic": N_("critic"),
    "cuts_experts": N_("experts that are gathered as one tensor travel to the rollout engine one by one"),
    "cuda_graphs": N_("the rollout engine captures CUDA graphs"),
    "budgets_scale_loss": N_("under a token budget the loss is divided by the micro-batches of a fixed size"),
    "deferred_gradient_sync": N_("gradients are kept whole until the last micro-batch"),
    "dynamic": N_("micro-batches are cut by a token budget"),
    "empties_cache_first": N_("freed memory is given back before the engine's weights return"),
    "engine_buckets": N_("copies of a bucket that the rollout engine makes on the card"),
    "engine_tokens": N_("tokens at which the rollout engine ends a sequence"),
    "entropy": N_("the entropy is computed as well"),
    "experts_apart": N_("each expert's weights are tensors of their own"),
    "expert_tensor": N_("tensor parallelism of the experts"),
    "first_core": N_("the rollout engine's host does more for each sequence of a step"),
    "fraction_of": N_("the rollout engine's memory fraction is"),
    "freezes_heap": N_("collections of garbage leave out what the rollout engine has from its start"),
    "frees_cache": N_("the KV cache is given back while weights travel to engines on other GPUs"),
    "frees_root": N_("the root unit is freed after a pass without gradients"),
    "frees_stage_outputs": N_("a pipeline stage frees what it has sent on"),
    "frees_windows": N_("layers with a sliding window give back the blocks that left it"),
    "fused_weight_gradients": N_("gradients of weights are added to their buffer as they are computed"),
    "gathers_optimizer": N_("the optimizer is gathered for a checkpoint"),
    "gathers_tensors": N_("weights are gathered tensor by tensor for a checkpoint"),
    "gathers_whole_model": N_("the whole model is gathered at once for the weight sync"),
    "gpus": N_("GPUs that generate"),
    "group_sequences": N_("sequences that a micro-batch has whole groups of"),
    "hard_limit": N_("no micro-batch exceeds the token budget"),
    "host_bytes": N_("host memory"),
    "dispatcher": N_("how tokens get to their experts"),
    "fills_mini_batches": N_("a last mini-batch that is smaller is filled up with padding"),
    "host_copy": N_("host memory that offloaded weights go to"),
    "image_cache_bytes": N_("host memory for processed images, at most"),
    "joins_chunks": N_("a tensor larger than a bucket is put together where it arrives"),
    "takes_steps": N_("optimizer steps are taken"),
    "keeps_inputs": N_("embedded tokens are held until the optimizer steps"),
    "keeps_loaded": N_("offloaded weights stay on the card after the weight sync"),
    "keeps_root": N_("the root unit stays gathered until the backward pass"),
    "least_unchunked_tokens": N_("tokens of a step that takes prompts whole, at least"),
    "reads_positions": N_("in each layer the host asks the GPU where sequences begin"),
    "loops_experts": N_("experts run one after the other, not in grouped products"),
    "loads_on_host": N_("new weights are put together on the host"),
    "log_stats": N_("the rollout engine logs its statistics"),
    "log_prob": N_("log-probabilities are computed again"),
    "lora": N_("adapters"),
    "stays_float32": N_("adapters in float32, whatever the base is stored in"),
    "loss_averages_micro_batches": N_("the loss is averaged over the tokens of each micro-batch by itself"),
    "fused_optimizer": N_("one kernel makes the optimizer's step of a tensor"),
    "main_weight_bytes": N_("bytes of a main weight beside its parameter"),
    "main_weights_offloaded": N_("main weights go to the host with the optimizer"),
    "matrices": N_("matrices of all adapters"),
    "max_sequences": N_("sequences that the rollout engine admits at once"),
    "max_model_tokens": N_("tokens of the longest sequence that the rollout engine is built for"),
    "may_not_gather": N_("the optimizer may be saved without being gathered"),
    "merged_for_rollout": N_("adapters are merged into the weights for the rollout"),
    "micro_batch_sequences": N_("sequences of a micro-batch"),
    "model": N_("model"),
    "offloads_first": N_("offloaded weights leave the card before the weight sync"),
    "overlaps_scheduling": N_("the rollout engine prepares a step while the GPU computes the one before"),
    "ordered_by_arrival": N_(
        "each rank's sequences lie in the order in which their responses ended, the shortest first"
    ),
    "own_process": N_("the rollout engine runs in a process of its own"),
    "packed": N_("sequences are packed"),
    "padding": N_("sequences that are not packed are padded to"),
    "prefetch_effective": N_("prefetching the next layer takes effect"),
    "quantizes_in_one_kernel": N_("weights are made 8-bit by one kernel"),
    "reference": N_("reference"),
    "resumes_first": N_("the engine's weights are mapped before the trainer gathers its own"),
    "receiver_collects": N_("the rollout engine collects garbage once it has new weights"),
    "reduces_with_nccl": N_("the rollout engine's ranks add up through NCCL"),
    "returns_log_probs": N_("the rollout engine returns the log-probabilities of what it sampled"),
    "offsets_gated": N_("what a gate multiplies is a copy with an offset where the activation is not fused"),
    "rotates_each": N_("queries and keys of each sequence are rotated by themselves"),
    "sampler_bytes": N_("bytes per logit that the engine's sampler takes while it is sized"),
    "saving": N_("checkpoints"),
    "scaling": N_("logits are divided by the temperature"),
    "samples_log_probs": N_("the rollout engine's scheduler handles log-probabilities of each token"),
    "sent_dtype": N_("weights are cast before they travel, to"),
    "separate": N_("the reference is a model of its own"),
    "separate_embedding_units": N_("the output head is a unit of its own"),
    "poll_s": N_("seconds between two looks of the trainer at whether all responses are there"),
    "plan_lowers": N_("units of a plan that takes no more than FSDP2's own"),
    "whole_root": N_("the root unit has the embedding as well"),
    "services": N_("models that judge responses"),
    "sleep_level": N_("sleep level of the rollout engine, where 1 keeps its weights on the host"),
    "sleeps_with_cache": N_("the KV cache stays on the card while the rollout engine sleeps"),
    "sleeps_with_weights": N_("weights stay on the card while the rollout engine sleeps"),
    "smallest_bucket_bytes": N_("smallest bucket that the release does not refuse"),
    "sorted_ranks": N_(
        "each rank's sequences lie in order of length, so that all ranks' mini-batches are alike"
    ),
    "stacks_experts": N_("the experts of a layer are one tensor where they leave Megatron"),
    "staged_wake_up": N_("the KV cache comes back after the new weights, not before"),
    "stages_weights": N_("offloaded weights come back as a whole for the weight sync"),
    "stored_dtype": N_("weights are stored in"),
    "tensor_parallel": N_("tensor parallelism of the rollout engine"),
    "tensor": N_("tensor parallelism"),
    "token_budget": N_("tokens of a micro-batch"),
    "travel": N_("the batch travels between driver and workers"),
    "tunes_at_start": N_("the rollout engine times kernels on a copy of the embedding while it compiles"),
}


def has_words(path: tuple[str, ...]) -> bool:
    """Whether a field is described in words."""
    return path[-1] in _WORDS


def field_words(path: tuple[str, ...], *others: tuple[str, ...]) -> str:
    """What a field says, with the models that it is said of; its path where there are no words.

    Args:
        path: of the field.
        others: of the same field of other models.
    """
    words = _(_WORDS[path[-1]]) if has_words(path) else ".".join(path)
    roles = dict.fromkeys(_(_ROLES[one[0]]) for one in (path, *others) if one[0] in _ROLES and len(one) > 1)
    return titled(listed(roles), words) if roles else words


def value_words(path: tuple[str, ...], value: Any) -> str:
    """A field's value as a reader has it."""
    if path[-1] == "conversation":
        return _("{turns:g} on average").format(turns=1 if value is None else value.turns)
    if value is None:
        return _("the model's own") if path[-1] == "max_model_tokens" else _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, FractionOf):
        return _(FRACTION_MEANS[value])
    if isinstance(value, Scaling):
        return _(_SCALINGS[value])
    if isinstance(value, Enum):
        return str(value.value).replace("_", " ")
    if isinstance(value, int):
        return quantity(value, "bytes") if path[-1].endswith("_bytes") and value >= MIB else exact(value)
    if isinstance(value, Struct):
        return str(getattr(value, "name", _("yes")))
    return str(len(value)) if isinstance(value, tuple) else str(value)
