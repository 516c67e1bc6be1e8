"""How the loss of a micro-batch gets from verl's worker to the head of the model, and what is said of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tuner.inside_verl.head.policy.coverage import NotCoveredError
from tuner.inside_verl.head.policy.plan import PlannedLoss
from tuner.inside_verl.settings import HEAD
from tuner.inside_verl.verl_process import say
from tuner.language import _


class LossHandoff:
    """Between a worker and the head; one pass at a time."""

    def __init__(self) -> None:
        self._plan: PlannedLoss | None = None
        self._said: set[str] = set()
        self.closed = False  # for the rest of the process

    def take(self) -> PlannedLoss | None:
        """The plan of the pass that runs, once; None in every other pass."""
        plan, self._plan = self._plan, None
        return plan

    def say_once(self, line: str) -> None:
        """A line into the log, the first time."""
        if line not in self._said:
            self._said.add(line)
            say(line)

    def say_not_covered(self, setting: str, value: object) -> None:
        """One line naming a setting with which the head computes as by default."""
        self.say_once(
            _("{variable}=policy does not cover {setting}={value}, so recompute is used").format(
                variable=HEAD.name, setting=setting, value=value
            )
        )

    def close(self, reason: str) -> None:
        """Plans no further loss, and says why."""
        self.closed = True
        self.say_once(
            _("{variable}=policy: {reason}; from here on recompute is used").format(
                variable=HEAD.name, reason=reason
            )
        )

    def planned(self, make: Callable[[], PlannedLoss]) -> PlannedLoss | None:
        """A plan; None, and a line that says why, where there is none: then verl runs as without it."""
        if self.closed:
            return None
        try:
            return make()
        except NotCoveredError as reason:
            self.say_not_covered(reason.setting, reason.value)
        except Exception as error:  # whatever an engine of its own does: the job need not stop for this
            self.close(
                _("the loss is not known before the pass ({error})").format(
                    error=f"{type(error).__name__}: {error}"
                )
            )
        return None

    @contextmanager
    def bring(self, plan: PlannedLoss | None) -> Iterator[None]:
        """Has a plan ready for the head, for as long as this lasts."""
        self._plan = plan
        try:
            yield
            if self._plan is not None:
                self.close(_("the pass did not go through the head"))
        finally:
            self._plan = None


WAY = LossHandoff()
