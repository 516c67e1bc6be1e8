"""Reads how a job filters groups of responses, and what of them it keeps."""

from tuner.trainers.fields import COUNT, Field, Plain
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.group_filter import (
    OwnFilter,
    filters_in_vain,
    oversampled,
    own_filter,
    starts_ppo,
    stops_at_limit,
)
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import KEPT_GROUPS, Batch, GroupFilter

_SENT_ONCE_SINCE = "0.7.1"  # before, weights are handed over whenever responses are generated
_ANY = 1_000_000  # below zero there is no limit either


def filters(source: ReleaseSettings) -> bool:
    """Whether the settings ask for a filter that the program has."""
    if own_filter(source.settings) is not None:
        return True
    return source.flag("filter.enable") and not filters_in_vain(source.settings, source.version)


def _replaces_groups(source: ReleaseSettings) -> bool:
    """Whether groups are replaced one by one, in no rounds."""
    return source.v1_trainer and source.settings.program is None and starts_ppo(source.settings.started)


def sizes_rounds(source: ReleaseSettings) -> bool:
    """Whether a key of its own says how many prompts a round of a filter has."""
    return own_filter(source.settings) is None and not _replaces_groups(source)


#: What proposals choose of a filter.
GROUP_FILTER: tuple[Field[ReleaseContext], ...] = (
    Plain(
        "round_prompts",
        "batch.generated_prompts",
        COUNT,
        lambda context: context.source.integer("batch.prompts", default=1),
    ),
)


def read_group_filter(source: ReleaseSettings, batch: Batch) -> GroupFilter:
    """The filter of a job, with the share of groups that it is said to keep.

    The recipe DAPO, and those made of it, generate ``data.gen_batch_size`` prompts at a time until
    ``data.train_batch_size`` groups are kept, and raise ``ValueError`` where those are not there after
    ``max_num_gen_batches``; the trainer of a copy may go on with fewer, which is not counted. Rewards are
    computed of all responses, log-probabilities of those that are kept, unless a KL penalty in the reward
    needs them before, which is not counted. PPO's V1 trainer sets the batch size of generation to 1, replaces
    groups one by one and ignores the limit. For filters by accuracy see
    :func:`tuner.trainers.verl.group_filter.own_filter`.

    Source: verl 0.4.1 to 0.7.0 ``recipe/dapo/dapo_ray_trainer.py`` (``fit``), verl-recipe the same; verl
    0.9.1 ``trainer/ppo/v1/trainer_base.py``, ``trainer/ppo/v1/replay_buffer.py``.
    """
    share = batch.lengths.kept_groups
    kept = KEPT_GROUPS if share is None else share
    settings, own = source.settings, own_filter(source.settings)
    if own is not None:
        once = own is OwnFilter.ONCE
        return GroupFilter(
            kept_share=1.0 if once else kept,
            assumed=share is None and not once,
            round_prompts=max(1, int(batch.prompts * oversampled(settings))),
            sends_weights=not source.since(_SENT_ONCE_SINCE),
            once=once,
        )
    if _replaces_groups(source):
        waits = source.text("v1_mode", default="sync") == "sync"
        written = source.integer("filter.at_once", default=1, minimum=-_ANY)  # verl refuses less than 1
        at_once = max(1, written)
        return GroupFilter(kept_share=kept, assumed=share is None, at_once=float(at_once) if waits else None)
    limit = source.integer("filter.most_rounds", default=0, minimum=-_ANY)
    return GroupFilter(
        kept_share=kept,
        assumed=share is None,
        round_prompts=source.integer("batch.generated_prompts", default=batch.prompts, minimum=1),
        most_rounds=limit if limit > 0 and settings.program is None and stops_at_limit(settings) else None,
        sends_weights=not source.since(_SENT_ONCE_SINCE),
    )
