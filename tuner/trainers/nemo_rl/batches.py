"""How many sequences a step of NeMo-RL has, how long they may be, and how passes cut them."""

from math import ceil

from msgspec.structs import replace

from tuner.errors import InputError
from tuner.language import _
from tuner.trainers.nemo_rl.algorithms import has_critic
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Batch, Batching, Lengths, Pass, TokenBytes, Travel

_INT64, _FLOAT32 = 8, 4

#: A token's ids and positions; the masks of tokens and of the loss, advantages, log-probabilities of before,
#: of the rollout and of the reference; of results those of the pass itself and what the clipped loss saves of
#: them. Source: NeMo-RL v0.7.0 ``nemo_rl/algorithms/grpo.py`` (``train_data``),
#: ``algorithms/loss/loss_functions.py`` (``ClippedPGLossFn``).
TOKEN_BYTES = TokenBytes(whole=2 * _INT64 + 14 * _FLOAT32, share=3 * _FLOAT32)


def read_batch(source: SettingsByMeaning, lengths: Lengths, zero_advantage_ratio: float | None) -> Batch:
    """The sizes of a step.

    A prompt may be as long as ``data.max_input_seq_length`` and a response as ``max_new_tokens``; both are by
    default the length of prompt and response together, at which vLLM ends a sequence.

    Raises:
        InputError: a size has the wrong type.
    """
    total = source.integer("total_tokens", default=512)
    prompts = source.integer("batch.prompts", default=32)
    responses = source.integer("batch.responses", default=16)
    sequences = prompts * responses
    mini_batch = min(source.integer("mini_batch", default=sequences), sequences)
    return Batch(
        prompts=prompts,
        responses_per_prompt=responses,
        mini_batch_prompts=max(1, mini_batch // responses),
        epochs=source.integer("batch.updates", default=1) if has_critic(source) else 1,
        max_prompt_tokens=min(source.integer("prompt_tokens", default=total), total),
        max_response_tokens=min(source.integer("new_tokens", default=total), total),
        engine_tokens=source.integer("rollout.model_tokens", default=total),
        travel=Travel.PADDED,
        balanced=True,
        lengths=lengths,
        group_advantages=True,
        zero_advantage_ratio=zero_advantage_ratio,
    )


def read_given_batch(source: SettingsByMeaning, lengths: Lengths, *, sequences_of_row: int) -> Batch:
    """The sizes of a step that learns from given sequences: one optimizer step."""
    sequences = source.integer("mini_batch", default=32) * sequences_of_row
    return Batch(
        prompts=sequences,
        responses_per_prompt=1,
        mini_batch_prompts=sequences,
        epochs=1,
        max_prompt_tokens=0,
        max_response_tokens=source.integer("total_tokens", default=1024),
        travel=Travel.OWN,
        lengths=lengths,
    )


def read_update(source: SettingsByMeaning, *, sequences_of_row: int = 1) -> Pass:
    """How the update cuts its batch; an optimizer step has so many sequences, of whatever prompts.

    Args:
        source: the settings of the model that is trained.
        sequences_of_row: 2 where sizes count pairs.
    """
    mini_batch = source.integer("mini_batch")
    batching = _batching(source, "budget", "micro_batch")
    micro_batch = batching.micro_batch_sequences * sequences_of_row
    return Pass(
        batching=replace(batching, micro_batch_sequences=micro_batch),
        mini_batch_sequences=None if mini_batch is None else mini_batch * sequences_of_row,
    )


def read_log_prob(source: SettingsByMeaning) -> Pass:
    """How passes over log-probabilities are cut, those of the policy and of the reference alike."""
    return Pass(batching=_batching(source, "log_prob_budget", "log_prob_micro_batch"))


def is_packed(source: SettingsByMeaning) -> bool:
    """Whether a pass has no padding that its budget does not count: packed, or cut by padded tokens.

    Dynamic batches are padded to their longest sequence, and it is the padded tokens that the budget bounds.

    Raises:
        InputError: both are switched on.
    """
    packed, dynamic = source.flag("packed"), source.flag("dynamic")
    if packed and dynamic:
        raise _exclusive(source)
    return packed or dynamic


def context_ranks(source: SettingsByMeaning) -> int:
    """Ranks that share the tokens of a sequence."""
    return source.integer("megatron.context" if source.flag("megatron") else "dtensor.context", default=1)


def _exclusive(source: SettingsByMeaning) -> InputError:
    return source.error("dynamic", _("dynamic batches and packed sequences exclude each other"))


def _batching(source: SettingsByMeaning, budget: str, micro_batch: str) -> Batching:
    """A budget of tokens where sequences are packed or sorted into dynamic batches, else a number of them.

    What a micro-batch holds is divided by ranks of context parallelism behind that.

    Source: NeMo-RL v0.5.0 to v0.7.0 ``models/policy/lm_policy.py`` (``max_tokens_per_microbatch``: "we just
    shard into DP shards here as Sequence packing allows for CP"), ``models/megatron/data.py``
    (``pad_full_seq_to``).
    """
    static = source.integer(micro_batch, default=source.integer("micro_batch", default=1))
    if not is_packed(source):
        return Batching(dynamic=False, token_budget=1, micro_batch_sequences=static)
    way = "packed" if source.flag("packed") else "dynamic"
    tokens = source.integer(f"{way}.{budget}", default=source.integer("total_tokens", default=512) * static)
    # stages of a pipeline send one another as much each time
    in_turns = source.flag("megatron") and source.integer("megatron.pipeline", default=1) > 1
    return Batching(
        dynamic=True,
        token_budget=ceil(tokens / context_ranks(source)),
        micro_batch_sequences=static,
        packs_whole=True,
        fills_budget=way == "packed" and in_turns,
    )
