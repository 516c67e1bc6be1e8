"""Which step a phase belongs to, in a worker that is not told: by the order in which phases come."""

from tuner.workload.step import Phase

_REPEATED = (Phase.ROLLOUT, Phase.UPDATE_WEIGHTS)  # in one step, where a recipe generates until it has enough
_ENDING = (Phase.UPDATE_ACTOR, Phase.TRAIN)


class StepNumbers:
    """Counts the steps of one process, from 1 or from what the trainer tells.

    A step ends with the actor's update and what follows it; where there is none, as in the process of a
    critic or of a reference, a phase that comes again begins the next.
    """

    def __init__(self) -> None:
        self.step = 1
        self._done: set[Phase] = set()
        self._updated = False

    def of(self, phase: Phase, told: int | None) -> int:
        """The step of a phase that begins.

        Args:
            phase: which.
            told: the step that the call itself names; None where it names none.
        """
        # Where new weights are handed over without a word of the step, that is how the next one begins.
        behind = phase is Phase.SAVE_CHECKPOINT or (phase is Phase.UPDATE_WEIGHTS and told is not None)
        again = phase in self._done and phase not in _REPEATED
        if not behind and (self._updated or again):
            self._next(self.step + 1)
        if told is not None and told != self.step:
            self._next(told)
        self._done.add(phase)
        if phase is Phase.UPDATE_WEIGHTS and told is not None:
            self._updated = True  # whatever comes behind the weights of a step is of the next
        return self.step

    def ended(self, phase: Phase) -> None:
        """Say that a phase is through."""
        self._updated = self._updated or phase in _ENDING

    def _next(self, step: int) -> None:
        self.step, self._done, self._updated = step, set(), False
