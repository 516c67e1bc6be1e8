"""Sizes of a step, and how many tokens a micro-batch of each pass brings."""

from typing import Literal

from tuner.inputs.convert import as_integer
from tuner.trainers.fields import (
    COUNT,
    FLAG,
    Assignments,
    Field,
    Plain,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.batch_factors import factor_of
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.fields.group_filter import filters
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.roles import trains_apart, weighs_kl_in_reward, weighs_kl_loss
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Actor, Backend, Batch, Batching, Engine, GreedyBaseline, Travel

BatchRole = Literal["actor", "log_prob", "ref", "critic", "values", "reward"]

#: Estimators that give every response of a group none where all its rewards are equal. Those that whiten over
#: the batch afterwards, or subtract a value or the reward of a greedy response, do not.
#: Source: verl 0.3.0.post1 to 0.9.1 ``trainer/ppo/core_algos.py``.
_GROUP_ESTIMATORS = ("grpo", "grpo_vectorized", "grpo_passk", "rloo", "rloo_vectorized", "opo", "gpg")

_TOOL_AGENT = "tool_agent"  # verl's own loop of turns; by default there is one

_OF_MICRO_BATCHES = "geo_mean"  # a loss that knows of no other micro-batch
_DEFAULT_BUDGET = {
    "actor": 16384,
    "log_prob": 16384,
    "ref": 16384,
    "critic": 32768,
    "values": 32768,
    "reward": 32768,
}


class PassContext(ReleaseContext, frozen=True, kw_only=True):
    """What reading the batching of a pass takes."""

    role: BatchRole  # whose keys count
    engine: Engine  # that runs the pass


def read_batch(source: ReleaseSettings) -> Batch:
    """Sizes of one step."""
    source.integer("batch.generated_prompts")  # prompts of one round of filtered generation: checked only
    sizes = read_fields(BATCH, ReleaseContext(source=source))
    return Batch(
        **sizes,
        rounds=_rounds(source),
        greedy_baseline=_greedy_baseline(source),
        travel=_travel(source),
        loss_averages_micro_batches=_averages_micro_batches(source) or _averages_router_losses(source),
        budgets_scale_loss=source.copy.budgets_scale_loss,
        fills_mini_batches=source.v1_trainer,
        group_advantages=sizes["responses_per_prompt"] > 1 and _compares_rewards(source),
        loss_of_advantages=not _other_loss_terms(source),
        sorted_ranks=source.since("0.6.1") and not source.v1_trainer,
        ordered_by_arrival=source.v1_trainer,
    )


def _rounds(source: ReleaseSettings) -> int:
    """Rounds in which the sequences of a step are generated: the turns of a project's episodes."""
    program = source.settings.program
    key = "" if program is None else program.rounds_key
    return source.settings.integer(key, default=1, minimum=1) if key else 1


def _greedy_baseline(source: ReleaseSettings) -> GreedyBaseline | None:
    """How ReMax generates the greedy response to each prompt that it compares the others with.

    Up to 0.7.0 each generation brings the weights to the engine. The V1 trainer generates none, and stops.

    Source: verl 0.4.1 to 0.7.1 ``trainer/ppo/ray_trainer.py`` (``fit``: ``gen_max``), 0.8.0 to 0.9.1 the same
    function (``combined_gen_batch``), ``trainer/main_ppo_sync.py`` (``step``); 0.5.0
    ``workers/fsdp_workers.py`` (``generate_sequences``), 0.7.1 ``checkpoint_manager.update_weights``.
    """
    if source.text("advantage", default="gae") != "remax" or source.v1_trainer:
        return None
    if source.since("0.8.0"):
        return GreedyBaseline.BESIDE
    return GreedyBaseline.AFTER if source.since("0.7.1") else GreedyBaseline.AFTER_NEW_WEIGHTS


def talks(source: ReleaseSettings) -> bool:
    """Whether the settings ask for turns, between which tools or somebody else answers."""
    named = any(source.value(f"conversation.{key}") for key in ("tools", "functions", "interactions"))
    loop = source.text("conversation.loop", default="")
    return source.flag("conversation.enable") or named or loop == _TOOL_AGENT


def _travel(source: ReleaseSettings) -> Travel:
    """How the batch reaches the workers.

    Source: verl 0.5.0 ``protocol.py`` (``DataProto.__getstate__``), 0.9.1 ``trainer/ppo/ray_trainer.py``
    (``_compute_old_log_prob``), ``workers/utils/padding.py`` (``left_right_2_no_padding``).
    """
    if source.v1_trainer:
        return Travel.STORED
    return Travel.PACKED if source.engine_workers else Travel.PADDED


def _compares_rewards(source: ReleaseSettings) -> bool:
    """Whether advantages are differences of the rewards of a group, which a KL penalty would tell apart."""
    grouped = source.text("advantage", default="gae") in _GROUP_ESTIMATORS
    return grouped and not weighs_kl_in_reward(source)


def _other_loss_terms(source: ReleaseSettings) -> bool:
    """Whether the loss has terms beside the policy gradient, which act on responses without advantage too.

    Source: verl 0.3.0.post1 ``workers/actor/dp_actor.py``, 0.9.1 ``workers/utils/losses.py`` (``ppo_loss``).
    """
    return weighs_kl_loss(source) or source.number("actor.entropy_coeff", default=0.0) != 0


def _averages_micro_batches(source: ReleaseSettings) -> bool:
    """Whether the loss weights tokens by the micro-batch that they are in.

    The workers divide by the valid tokens of a micro-batch where they aggregate by tokens. The model engine
    hands down the tokens of the whole mini-batch. A mean over sequences counts them alike in both. Before
    0.7.1 the normed sum is one over the sequences of a micro-batch, whose weight grows with their number.

    Source: verl 0.4.0 to 0.7.0 ``trainer/ppo/core_algos.py`` (``agg_loss``: ``torch.sum(seq_losses)``), 0.7.1
    the same function, ``workers/actor/dp_actor.py`` (``update_policy``); 0.9.1 ``workers/utils/losses.py``
    (``ppo_loss``). GMPO's loss is a mean over the sequences of a micro-batch, which the engine adds up:
    0.9.1 ``trainer/ppo/core_algos.py:2000``, ``workers/engine/fsdp/transformer_impl.py`` (``loss.backward``).
    """
    aggregation, loss = source.value("actor.loss_aggregation"), source.value("actor.policy_loss")
    if source.engine_workers:
        return bool(loss == _OF_MICRO_BATCHES)
    if aggregation == "seq-mean-token-sum-norm":
        return not source.since("0.7.1")
    return aggregation in (None, "token-mean")


def _averages_router_losses(source: ReleaseSettings) -> bool:
    """Whether losses of Megatron's router are trained, which are means over the tokens of a micro-batch.

    verl switches the balancing loss off where nobody asks for it; its coefficient then comes from the model.

    Source: Megatron ``core/transformer/moe/moe_utils.py`` (``z_loss_func``: ``torch.mean``), ``router.py``
    (``TopKRouter.apply_z_loss``); verl 0.8.0 ``workers/engine/megatron/transformer_impl.py:219`` and
    ``models/mcore/config_converter.py:204`` (``moe_router_load_balancing_type="none"``).
    """
    section = "actor.megatron.override_transformer_config"
    if source.number(f"{section}.moe_z_loss_coeff", default=0.0) != 0:
        return True
    kind = source.text(f"{section}.moe_router_load_balancing_type", default="none")
    return kind == "aux_loss" and source.number(f"{section}.moe_aux_loss_coeff", default=1.0) != 0


def own_mini_batch(source: ReleaseSettings, batch: Batch) -> int | None:
    """Sequences of the critic's mini-batch; None where it is the actor's.

    Since 0.4 both mini-batches are prompts, each with all its responses. Before, the critic's are sequences.

    Source: verl 0.2.0.post2 ``workers/fsdp_workers.py:621``, 0.3.0.post1 line 647 and
    ``workers/megatron_workers.py:508`` (no ``rollout.n``); 0.4.0 ``workers/fsdp_workers.py:800-801``.
    """
    prompts = source.since("0.4.0") or source.copy.critic_counts_prompts
    size = source.integer("critic.mini_batch", default=batch.mini_batch_prompts)
    sequences = min(size * (batch.responses_per_prompt if prompts else 1), batch.sequences)
    return None if sequences == batch.mini_batch_sequences else sequences


def own_epochs(source: ReleaseSettings, batch: Batch) -> int | None:
    """How often the critic goes through the batch; None where it does so as often as the actor."""
    epochs = source.integer("critic.epochs", default=batch.epochs)
    return None if epochs == batch.epochs else epochs


def read_batching(source: ReleaseSettings, role: BatchRole, engine: Engine) -> Batching:
    """How the micro-batches of one pass are filled.

    Args:
        source: the settings.
        role: whose keys count.
        engine: the engine that runs the pass.
    """
    context = PassContext(source=source, role=role, engine=engine)
    return Batching(
        **read_fields(BATCHING, context),
        group_sequences=_group(context),
        hard_limit=source.since("0.9.1"),  # adds micro-batches until every one is within the budget
    )


# -- sizes of the step -----------------------------------------------------------------------


def trains_on_generated(source: ReleaseSettings) -> bool:
    """Whether a step has as many prompts as are generated at a time, and not those of the training batch.

    verl's dataloader hands out ``data.gen_batch_size`` prompts, and without a filter of groups all of them
    are trained on: in its own trainer, and in recipes made of DAPO's. The V1 trainer collects a training
    batch of such pieces; recipes that train apart, and other projects, have trainers of their own.

    Source: verl 0.4.0 to 0.9.1 ``trainer/ppo/ray_trainer.py`` (``_create_dataloader``, ``fit``); 0.4.1 to
    0.7.0 ``recipe/dapo/dapo_ray_trainer.py`` (``batch = new_batch``).
    """
    apart = source.value("recipe.rollout_nodes") is not None or trains_apart(source)
    if apart or source.v1_trainer or source.settings.program is not None or filters(source):
        return False
    generated = source.integer("batch.generated_prompts", default=0, minimum=0)
    return generated > 0 and generated != source.value("batch.prompts")


def _prompts_key(source: ReleaseSettings) -> str:
    """What the key means that says how many prompts a step has."""
    return "batch.generated_prompts" if trains_on_generated(source) else "batch.prompts"


def _prompts(context: ReleaseContext) -> int:
    """Prompts of one step; 0 where the asynchronous recipe streams them in mini-batches."""
    source = context.source
    if trains_on_generated(source):
        return source.integer("batch.generated_prompts", default=1) * _factor(source, "batch.prompts")
    if source.value("batch.prompts") == 0 and source.value("recipe.rollout_nodes") is not None:
        rounds = source.integer("recipe.mini_batches", default=1)
        return int(_MINI_BATCH.read(context)) * rounds
    return source.integer("batch.prompts", default=1024) * _factor(source, "batch.prompts")


def _set_prompts(context: ReleaseContext, batch: Batch) -> Assignments:
    source = context.source
    return ((_prompts_key(source), batch.prompts // _factor(source, "batch.prompts")),)


def _factor(source: ReleaseSettings, meaning: str) -> int:
    """By what a copy multiplies a size."""
    return factor_of(source.settings, source.key(meaning))


def _mini_batch(context: ReleaseContext) -> int:
    size = context.source.integer("batch.mini_batch_prompts", default=256)
    return size * _factor(context.source, "batch.mini_batch_prompts")


def _set_mini_batch(context: ReleaseContext, batch: Batch) -> Assignments:
    factor = _factor(context.source, "batch.mini_batch_prompts")
    return (("batch.mini_batch_prompts", batch.mini_batch_prompts // factor),)


def _prompt_length(context: ReleaseContext) -> str:
    """Which key says how long prompts get: a loop of turns may make longer ones than the data have.

    Source: verl 0.4.0 ``sglang_rollout.py:985``, 0.6.0 ``experimental/agent_loop/agent_loop.py`` (padding).
    """
    source, own, of_data = context.source, "rollout.prompt_length", "batch.max_prompt_tokens"
    if not source.flag("conversation.enable"):
        return of_data
    return own if _own_length(source, own) > source.integer(of_data, default=512) else of_data


def _response_length(context: ReleaseContext) -> str:
    """Which key says how long responses get: the engine's own, which follows the data's unless it is set.

    Source: verl 0.3.0.post1 to 0.9.1 ``workers/rollout``, ``experimental/agent_loop`` (``response_length``).
    """
    source, own, of_data = context.source, "rollout.response_length", "batch.max_response_tokens"
    length = _own_length(source, own)
    return own if length and length != source.integer(of_data, default=512) else of_data


def _own_length(source: ReleaseSettings, meaning: str) -> int:
    """A length that the user gives the rollout; zero where it follows the data's, or in a project."""
    key = source.key(meaning)
    if key is None or source.settings.program is not None:
        return 0
    source.settings.get(key)  # counts as looked at: what this says is asked again once somebody sets the key
    return source.integer(meaning, default=0) if source.settings.is_set(key) else 0


def _asks_to_balance(context: ReleaseContext) -> bool:
    return not context.source.v1_trainer


_MINI_BATCH: Ruled[ReleaseContext] = Ruled("mini_batch_prompts", _mini_batch, _set_mini_batch)

BATCH: tuple[Field[ReleaseContext], ...] = (
    Ruled("prompts", _prompts, _set_prompts),
    Plain("responses_per_prompt", "batch.responses_per_prompt", COUNT, 1),
    _MINI_BATCH,
    Plain("epochs", "batch.epochs", COUNT, 1),
    Plain("max_prompt_tokens", _prompt_length, COUNT, 512),
    Plain("max_response_tokens", _response_length, COUNT, 512),
    # the V1 trainer asks nobody
    Plain("balanced", "batch.balanced", FLAG, True, heeded=_asks_to_balance, otherwise=True),
)


# -- which passes there are, and what they compute -------------------------------------------


def _entropy(context: ReleaseContext) -> bool:
    """Whether the update computes entropy: on demand, and before 0.4 always, unless a copy's asks first."""
    source = context.source
    demanded = source.number("actor.entropy_coeff", default=0.0) != 0 or source.flag(
        "actor.calculate_entropy"
    )
    return demanded or not (source.since("0.4.0") or source.copy.entropy_on_demand)


def _set_entropy(context: ReleaseContext, actor: Actor) -> Assignments:
    return (("actor.calculate_entropy", actor.update.entropy),)


def _has_log_prob(context: ReleaseContext) -> bool:
    """Whether the actor's own pass runs before the update.

    The fully asynchronous recipe takes what the engine returned (v0.6.1 and v0.7.0
    ``recipe/fully_async_policy/ray_trainer.py``), unless it is asked for both.
    """
    source = context.source
    taken = source.flag("recipe.takes_log_probs") and not source.flag("recipe.recomputes_log_probs")
    return not (source.flag("bypass_old_log_prob") or taken or trains_apart(source))


def _set_log_prob(context: ReleaseContext, actor: Actor) -> Assignments:
    return (("bypass_old_log_prob", actor.log_prob is None),)


UPDATE_ENTROPY: Ruled[ReleaseContext] = Ruled("update.entropy", _entropy, _set_entropy)
#: Whether the actor computes log-probabilities of its own, instead of taking the rollout's.
LOG_PROB: Ruled[ReleaseContext] = Ruled(
    "log_prob", _has_log_prob, _set_log_prob, of=lambda actor: actor.log_prob is not None
)
ACTOR: tuple[Field[ReleaseContext], ...] = (UPDATE_ENTROPY, LOG_PROB)


# -- batching of a pass ----------------------------------------------------------------------


def _own_section(context: PassContext) -> str | None:
    """The section of the engine that the critic's new workers take their sizes from."""
    if context.role not in ("critic", "values") or not context.source.engine_workers:
        return None
    return "critic.megatron" if context.engine.backend is Backend.MEGATRON else "critic.fsdp"


def _budget(context: PassContext) -> str:
    # the V1 trainer gives the critic's inference budget to its training as well
    inference = context.role == "critic" and context.source.v1_trainer
    return f"{'values' if inference else context.role}.token_budget"


def _switch(context: PassContext) -> str:
    section = _own_section(context)
    if section is not None:
        return f"{section}.use_dynamic_bsz"
    if not context.source.engine_workers:
        return f"{'critic' if context.role == 'values' else context.role}.dynamic"
    # the actor's flag holds for its log-probabilities too; verl asserts that the other key is equal
    return "ref.dynamic" if context.role == "ref" else "actor.dynamic"


def _dynamic(context: PassContext) -> bool:
    # where the section of the engine counts, its default is the engine's own
    return context.source.flag(_switch(context), default=_own_section(context) is not None)


def _set_dynamic(context: PassContext, batching: Batching) -> Assignments:
    sized = () if batching.dynamic else _set_micro_batch(context, batching)
    return ((_switch(context), batching.dynamic), *sized)


def _size(context: PassContext) -> str:
    section = _own_section(context)
    if section is not None:
        prefix = "" if context.role == "critic" else "infer_"
        return f"{section}.{prefix}micro_batch_size_per_gpu"
    return f"{_sized_role(context)}.micro_batch"


def _sized_role(context: PassContext) -> BatchRole:
    # Megatron's critic has one size for both passes
    both = context.role == "values" and context.engine.backend is Backend.MEGATRON
    return "critic" if both else context.role


def _micro_batch(context: PassContext) -> int:
    """Sequences per micro-batch and data-parallel rank; 1 where nothing says.

    The deprecated global size, divided over the data-parallel ranks, wins where a release reads it.
    """
    if _reads_global_size(context):
        everywhere = context.source.integer(_global_size(context))
        if everywhere is not None:
            share = max(1, everywhere // _dividing_ranks(context))
            return share * _repeats(context) * _factor(context.source, _global_size(context))
    return context.source.integer(_size(context), default=1) * _factor(context.source, _size(context))


def _global_size(context: PassContext) -> str:
    return f"{_sized_role(context)}.global_micro_batch"


def _reads_global_size(context: PassContext) -> bool:
    """Whether the size over all ranks is read; by fine-tuning's own trainer in copies that lack the other.

    Source: verl 0.3.0.post1 ``trainer/fsdp_sft_trainer.py:119`` and later (``micro_batch_size_per_gpu``
    alone); copies of verl 0.1, the same file, lines 87-90 (``micro_batch_size //= dp_size``).
    """
    if context.source.program is Program.SFT:
        return not context.source.has(_size(context))
    return _own_section(context) is None and not _unread_beside_update(context)


def _unread_beside_update(context: PassContext) -> bool:
    """Whether FSDP's critic leaves the global size of its forward pass unread: its update has none.

    Source: verl 0.3.0.post1 to 0.7.1 ``workers/fsdp_workers.py`` (``CriticWorker``: both sizes are divided,
    and taken for those of a rank, below ``if self.config.ppo_micro_batch_size is not None``).
    """
    return _sized_role(context) == "values" and context.source.value("critic.global_micro_batch") is None


def _demanded_beside_update(context: PassContext) -> bool:
    """Whether FSDP's critic divides the global size of its forward pass untested: its update has one.

    Since 0.5.0 an update with a global size is refused anyway, see CFG103.

    Source: verl 0.3.0.post1 to 0.4.1 ``workers/fsdp_workers.py`` (``forward_micro_batch_size //=``).
    """
    return _sized_role(context) == "values" and not context.source.since("0.5.0")


def _dividing_ranks(context: PassContext) -> int:
    """Ranks that the deprecated size is divided over; FSDP's reward model takes all, whatever Ulysses is.

    Source: verl 0.3.0.post1 to 0.7.0 ``workers/fsdp_workers.py`` (``RewardModelWorker``).
    """
    parallel = context.engine.parallel
    all_ranks = context.role == "reward" and context.engine.backend is not Backend.MEGATRON
    return parallel.gpus if all_ranks else parallel.data


def _repeats(context: PassContext) -> int:
    """By what a copy multiplies the size of a rank: those of actor and reference count prompts there."""
    source = context.source
    if not source.copy.repeats_micro_batches or context.role not in ("actor", "log_prob", "ref"):
        return 1
    return source.integer("batch.responses_per_prompt", default=1)


def _group(context: PassContext) -> int:
    """Sequences that the least size stands for which can be set; 1 where a key counts them one by one."""
    size = _size(context)
    if not _writes_global_size(context):
        return _factor(context.source, size)
    return _repeats(context) * _factor(context.source, _global_size(context))


def _writes_global_size(context: PassContext) -> bool:
    """Whether a size is written over all ranks: a copy of an older release has no other."""
    source, everywhere = context.source, _global_size(context)
    if not _reads_global_size(context) or source.value(everywhere) is None:
        return False
    return not source.has(_size(context)) or _demanded_beside_update(context)


def _set_micro_batch(context: PassContext, batching: Batching) -> Assignments:
    sequences, source = batching.micro_batch_sequences, context.source
    size, everywhere = _size(context), _global_size(context)
    groups = max(1, sequences // _group(context))
    if _writes_global_size(context):
        return ((everywhere, groups * _dividing_ranks(context)),)
    if not _reads_global_size(context) or source.value(everywhere) is None:
        return ((size, groups),)
    return ((size, sequences), (everywhere, None))  # it would win, and verl refuses both


def _heeds_budget(context: PassContext) -> bool:
    """Whether a budget is read: what a copy of verl has for one may be a text, which static batches ignore.

    Source: verl 0.3.0.post1 ``workers/critic/dp_critic.py`` (``update_critic``: ``if use_dynamic_bsz``).
    """
    value = context.source.value(_budget(context))
    return not isinstance(value, str) or as_integer(value) is not None or _dynamic(context)


def _default_budget(context: PassContext) -> int:
    return _DEFAULT_BUDGET[context.role]


BATCHING: tuple[Field[PassContext], ...] = (
    Plain("token_budget", _budget, COUNT, _default_budget, heeded=_heeds_budget, otherwise=_default_budget),
    Ruled("dynamic", _dynamic, _set_dynamic),
    Ruled("micro_batch_sequences", _micro_batch, _set_micro_batch),
)
