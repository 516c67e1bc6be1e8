"""The batch sizes of every pass on one scale: per step, per mini-batch, per rank and per micro-batch.

A trainer's batch sizes count different things: prompts or sequences, of all GPUs or of one. Here all
of them are sequences, with the arithmetic from one to the next.
"""

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from tuner.batching import micro_batches, pass_sequences
from tuner.counted import counted
from tuner.language import N_, _
from tuner.render.columns import columns, left, right
from tuner.render.terminal import Terminal
from tuner.timing.tokens import micro_batches_of
from tuner.workload import Batch, GreedyBaseline, Phase, StepPass, Workload

_HEADS = (N_("phase"), N_("sequences"), N_("ranks"), N_("per rank"), N_("micro-batch"), N_("micro-batches"))


class BatchRow(Struct, frozen=True, kw_only=True):
    """One pass of a step: how many sequences, over how many ranks, in how many micro-batches."""

    phase: Phase
    optimizer_steps: int  # of one training step; 0 for a pass that only computes
    sequences: int  # of a mini-batch where it trains, else of the whole step; over all GPUs
    ranks: int  # data-parallel ranks, which see different sequences
    rank_sequences: int  # of one rank; rounded down of a mini-batch, else up
    micro_batch_sequences: int | None  # of one rank; None where micro-batches are packed by tokens
    micro_batch_tokens: int | None  # the budget of one GPU; None where sequences are counted
    micro_batches: int  # with sequences of mean length, of one optimizer step where it trains
    most_micro_batches: int  # the same with every sequence at its longest


def batch_rows(workload: Workload) -> tuple[BatchRow, ...]:
    """The passes of a step in their order."""
    return tuple(_row(workload, step_pass) for step_pass in workload.passes())


def batch_table(workload: Workload, terminal: Terminal, *, updates: bool = True) -> str:
    """How prompts become sequences, and a line for each pass; without a title.

    Args:
        workload: the job.
        terminal: on which it is shown.
        updates: False for a job that only generates.
    """
    if not updates:
        return "\n".join(_arithmetic(workload, terminal, updates=False))
    rows = batch_rows(workload)
    heads, table = tuple(map(_, _HEADS)), [_cells(row) for row in rows]
    lines = [_line(cells, (heads, *table)) for cells in (heads, *table)]
    if max(map(columns, lines)) <= terminal.width:
        lines[0] = terminal.style(lines[0], "dim")
    else:
        lines = [terminal.prose(_sentence(cells), indent="    ", first="  ") for cells in table]
    return "\n".join([*_arithmetic(workload, terminal), "", *lines, *_range(rows, terminal)])


def _row(workload: Workload, step_pass: StepPass) -> BatchRow:
    batch, batching = workload.batch, step_pass.batching
    sequences = pass_sequences(batch, step_pass)
    steps = step_pass.optimizer_steps(batch)
    return BatchRow(
        phase=step_pass.phase,
        optimizer_steps=steps if step_pass.training else 0,
        sequences=step_pass.mini_batch_sequences(batch) if step_pass.training else batch.sequences,
        ranks=step_pass.engine.parallel.data,
        rank_sequences=sequences,
        micro_batch_sequences=None if batching.dynamic else min(batching.micro_batch_sequences, sequences),
        micro_batch_tokens=batching.token_budget if batching.dynamic else None,
        micro_batches=micro_batches_of(batch, step_pass).count,
        most_micro_batches=micro_batches(batch, step_pass),
    )


def _arithmetic(workload: Workload, terminal: Terminal, *, updates: bool = True) -> list[str]:
    """From prompts to the sequences of a step, of an optimizer step, and of a replica of the engine."""
    batch = workload.batch
    if workload.rollout is None:
        text = _("{sequences}, one optimizer step").format(sequences=counted(batch.sequences, "sequence"))
        return [terminal.prose(text, indent=" " * 14, first=f"  {left(_('step'), 12)}")]
    rollout = workload.rollout
    per_replica = ceil(batch.round_sequences / rollout.replicas)
    answers = counted(batch.responses_per_prompt, "response")
    prompts, sequences = counted(batch.prompts, "prompt"), counted(batch.sequences, "sequence")
    parts = (
        (_("step") if updates else _("batch"), f"{prompts} x {answers} = {sequences}"),
        *(((_("mini-batch"), _mini_batch(workload)),) if updates else ()),
        (
            _("rollout"),
            _("{sequences} / {replicas} = {per_replica:,}, of which at most {most:,} run at a time").format(
                sequences=_generated(batch),
                replicas=counted(rollout.replicas, "replica"),
                per_replica=per_replica,
                most=min(rollout.max_sequences, rollout.sequences_at_once or rollout.max_sequences),
            )
            + _greedy(batch),
        ),
    )
    return [terminal.prose(text, indent=" " * 14, first=f"  {left(name, 12)}") for name, text in parts]


def _mini_batch(workload: Workload) -> str:
    """From prompts to the sequences of an optimizer step, and how many of these there are."""
    batch = workload.batch
    epochs = _(" in each of {epochs} epochs").format(epochs=batch.epochs) if batch.epochs > 1 else ""
    return _("{prompts} x {answers} = {sequences}, {steps}{epochs}").format(
        prompts=counted(min(batch.mini_batch_prompts, batch.prompts), "prompt"),
        answers=counted(batch.responses_per_prompt, "response"),
        sequences=counted(batch.mini_batch_sequences, "sequence"),
        steps=counted(workload.actor_update.mini_batches(batch), "optimizer step"),
        epochs=epochs,
    )


def _generated(batch: Batch) -> str:
    """The sequences that are generated at a time."""
    sequences = counted(batch.round_sequences, "sequence")
    if batch.rounds == 1:
        return sequences
    return _("{rounds} rounds of {sequences}").format(rounds=batch.rounds, sequences=sequences)


def _greedy(batch: Batch) -> str:
    """The responses of a generation that nothing is trained on; empty where there are none."""
    if batch.greedy_baseline is None:
        return ""
    if batch.greedy_baseline is GreedyBaseline.BESIDE:
        return _("; {greedy:,} of all are greedy, for the baseline").format(greedy=batch.prompts)
    return _("; then {greedy:,} greedy ones, for the baseline").format(greedy=batch.prompts)


def _cells(row: BatchRow) -> tuple[str, ...]:
    times = f"{row.optimizer_steps} x " if row.optimizer_steps > 1 else ""
    return (
        row.phase.value,
        f"{times}{row.sequences:,}",
        f"/ {row.ranks:,}",
        f"= {row.rank_sequences:,}",
        _micro_batch(row),
        _number(row),
    )


def _line(cells: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Cells under each other: the phase to the left, numbers to the right."""
    widths = [max(columns(line[column]) for line in table) for column in range(len(_HEADS))]
    first, *others = zip(cells, widths, strict=True)
    return "  " + "  ".join([left(*first), *(right(cell, width) for cell, width in others)])


def _sentence(cells: Sequence[str]) -> str:
    phase, sequences, ranks, rank_sequences, micro_batch, number = cells
    return _(
        "{phase}: {sequences} {ranks} {rank_sequences} per rank; micro-batches of {micro_batch}: {number}"
    ).format(
        phase=phase,
        sequences=sequences,
        ranks=ranks,
        rank_sequences=rank_sequences,
        micro_batch=micro_batch,
        number=number,
    )


def _micro_batch(row: BatchRow) -> str:
    if row.micro_batch_tokens is not None:
        return counted(row.micro_batch_tokens, "token")
    return counted(row.micro_batch_sequences or 0, "sequence")


def _number(row: BatchRow) -> str:
    if row.micro_batches == row.most_micro_batches:
        return f"{row.micro_batches:,}"
    return _("{micro_batches:,} to {most_micro_batches:,}").format(
        micro_batches=row.micro_batches, most_micro_batches=row.most_micro_batches
    )


def _range(rows: Sequence[BatchRow], terminal: Terminal) -> list[str]:
    """What the two ends of a number of micro-batches are, where some number has two."""
    if all(row.micro_batches == row.most_micro_batches for row in rows):
        return []
    text = _("Micro-batches: with sequences of mean length, to every sequence at its longest.")
    return [terminal.prose(text, indent="    ", first="  ")]
