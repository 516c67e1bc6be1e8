"""A batch of fine-tuning that does not divide

What it checks
--------------
``data.train_batch_size`` of supervised fine-tuning against the ranks that see different sequences, and one rank's share against ``data.micro_batch_size_per_gpu``.
A copy of verl from before 0.2 has ``data.micro_batch_size`` instead, which counts over all ranks and is held against them.
The override is the largest micro-batch that divides the share, or the smallest larger batch that divides.

Why it matters
--------------
``verl.trainer.fsdp_sft_trainer`` asserts both when it starts.
``verl.trainer.sft_trainer`` rounds a rank's share down, so that a step takes fewer sequences than were asked for; where fewer sequences than ranks were, the share is 0 and no loader can be made.
With static batches its engine asserts from 0.7.1 on, in the first step, that the micro-batch divides what is left.

When it does not apply
----------------------
With ``data.use_dynamic_bsz=True`` a micro-batch is filled by tokens.

Sources
-------
verl 0.4.1 to 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``_normalize_config_bsz``); copies of verl 0.1, the same file, lines 82-90.
verl 0.9.1 ``trainer/sft_trainer.py`` (``_build_dataloader``), 0.6.0 and 0.7.1 ``workers/engine/utils.py`` (``prepare_micro_batches``).
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.programs import Program, program_of
from tuner.workload import Workload

RULE = Rule(
    code="CFG181",
    name="given-batch-indivisible",
    summary=N_("a batch of fine-tuning that ranks or micro-batches do not divide"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

PROGRAMS = (Program.SFT, Program.SFT_ENGINE)

_ASSERTS = Releases(since="0.7.1")  # the engines; before, the last micro-batch is smaller

GUARDS = (
    CodeGuard(words="_normalize_config_bsz train_batch_size", releases=Releases(until="0.7.1")),
    CodeGuard(words="prepare_micro_batches total_data_size", releases=_ASSERTS),
)
_BATCH = "data.train_batch_size"
_MICRO_BATCH = "data.micro_batch_size_per_gpu"
_OVER_RANKS = "data.micro_batch_size"  # of copies of verl from before 0.2, which lack the other one


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding: of the ranks, or else of the micro-batch."""
    sequences, ranks = workload.batch.prompts, workload.actor.engine.parallel.data
    rounds = program_of(settings.defaults) is Program.SFT_ENGINE
    share = sequences // ranks
    if share == 0 or (sequences % ranks and not rounds):
        yield _of_ranks(settings, workload, _BATCH, sequences)
        return
    if not rounds and _MICRO_BATCH not in settings:
        everywhere = settings.integer(_OVER_RANKS, minimum=1)
        if everywhere is not None and everywhere % ranks:
            yield _of_ranks(settings, workload, _OVER_RANKS, everywhere)
        return
    batching = workload.actor.update.batching
    if rounds and version not in _ASSERTS:
        return
    if batching.dynamic or share % batching.micro_batch_sequences == 0:
        return
    micro = max(size for size in range(1, batching.micro_batch_sequences + 1) if share % size == 0)
    yield report(
        RULE,
        settings,
        _(
            "{key}={micro} does not divide one rank's share of a step, {sequences}, which {release} asserts"
        ).format(
            key=_MICRO_BATCH,
            micro=batching.micro_batch_sequences,
            sequences=counted(share, "sequence"),
            release=workload.release,
        ),
        keys=[_MICRO_BATCH, _BATCH],
        overrides=[assign(settings, _MICRO_BATCH, micro)],
    )


def _of_ranks(settings: Settings, workload: Workload, key: str, sequences: int) -> Finding:
    """The finding that ranks cannot share so many sequences evenly, with the next larger number that they can."""
    ranks = workload.actor.engine.parallel.data
    return report(
        RULE,
        settings,
        _("{key}={sequences} does not divide by {ranks}, which {release} needs").format(
            key=key, sequences=sequences, ranks=counted(ranks, "rank"), release=workload.release
        ),
        keys=[key],
        overrides=[assign(settings, key, -(-sequences // ranks) * ranks)],
    )
