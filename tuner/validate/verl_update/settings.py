"""What the updates of verl's worker are, and what they took; handed between the parent and its workers."""

from dataclasses import dataclass

from tuner.validate.training.settings import PassFigures, PassSettings

#: The releases whose training worker and FSDP engine are driven here.
RELEASES = ("0.7.1", "0.8.0", "0.9.0", "0.9.1")
#: Shares of the responses without advantage; each leaves whole micro-batches of four.
SHARES = (0.0, 0.5, 0.75)
MICRO_BATCHES = 4  # of the one optimizer step of an update


@dataclass(frozen=True, kw_only=True)
class Update:
    """One update: an optimizer step over all micro-batches, or over those that the skip leaves."""

    share: float = 0.0  # of the responses have no advantage
    skip: bool = False  # and are left out
    repetitions: int = 0  # for the time, after the one for bytes and results


@dataclass(frozen=True, kw_only=True)
class UpdateWork:
    """What one engine is asked for."""

    settings: PassSettings  # of the whole update: engine, head, tokens, micro-batches
    ours: bool  # the head of ``tuner.inside_verl`` in the place of verl's
    updates: tuple[Update, ...]  # those with the skip last: it stays in place


@dataclass(frozen=True, kw_only=True)
class UpdateFigures:
    """What one update gave and took."""

    update: Update
    figures: PassFigures
    loss: float
    grad_norm: float  # before clipping
    left_out: float | None  # share of the sequences that did not run; None without the skip


@dataclass(frozen=True, kw_only=True)
class EngineUpdate:
    """What one engine came to."""

    log_probs: tuple[float, ...]  # of one micro-batch, in its order
    rounded: bool  # they come in 16 bits
    largest_logit: float | None  # of it, absolute, before the temperature; None where there are no logits
    mean_advantage: float  # absolute, over the tokens of the loss, before any is set to zero
    updates: tuple[UpdateFigures, ...]

    def of(self, *, share: float = 0.0, skip: bool = False) -> UpdateFigures:
        """The figures of an update.

        Raises:
            StopIteration: it was not among those asked for.
        """
        return next(one for one in self.updates if (one.update.share, one.update.skip) == (share, skip))
