"""Refuses jobs of a size that nobody runs, which would take minutes and gigabytes to think through."""

from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.workload import Workload

MOST_GPUS = 131_072  # about the largest cluster that was ever built
MOST_SEQUENCES = 4_194_304  # of one step; 1,024 prompts with 16 responses have 16,384
MOST_TOKENS = 16_777_216  # of one sequence


def expect_modelled(workload: Workload) -> None:
    """Refuse a job beyond all sizes.

    Raises:
        UnsupportedError: it has more GPUs, sequences in a step or tokens in a sequence than any.
    """
    batch = workload.batch
    for number, most, text in (
        (
            workload.cluster.gpus,
            MOST_GPUS,
            _("a job of {number:,} GPUs is not modelled, at most {most:,} are"),
        ),
        (
            batch.sequences,
            MOST_SEQUENCES,
            _("{number:,} sequences in a step are not modelled, at most {most:,} are"),
        ),
        (
            batch.sequence_tokens,
            MOST_TOKENS,
            _("{number:,} tokens in a sequence are not modelled, at most {most:,} are"),
        ),
    ):
        if number > most:
            raise UnsupportedError(
                text.format(number=number, most=most),
                hint=_("check the batch sizes, the lengths and the number of GPUs"),
            )
