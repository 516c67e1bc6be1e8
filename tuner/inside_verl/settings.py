"""The environment variables that decide what is put in place in a running verl."""

import os
from dataclasses import dataclass

from tuner.errors import TunerError
from tuner.language import N_, _


@dataclass(frozen=True, kw_only=True)
class EnvironmentSwitch:
    """An environment variable, what it may be set to and what it does."""

    name: str
    values: tuple[str, ...] = ()  # any text where there are none
    default: str | None = None
    does: str
    page: str  # of the documentation

    def read(self) -> str | None:
        """The value in the environment of this process; an empty one counts as none.

        Raises:
            TunerError: the value is none of those allowed.
        """
        value = os.environ.get(self.name) or self.default
        if value is None or not self.values or value in self.values:
            return value
        raise TunerError(
            _("the environment variable {name} is {value!r}; it must be one of {allowed}").format(
                name=self.name, value=value, allowed=", ".join(self.values)
            )
        )


HEAD = EnvironmentSwitch(
    name="TUNER_HEAD",
    values=("recompute", "policy", "saved", "off"),
    default="recompute",
    does=N_(
        "how the fused head computes: without logits, with the policy loss in it, with logits kept, or as "
        "verl does it"
    ),
    page="guide/inside-verl",
)
SKIP_ZERO_ADVANTAGE = EnvironmentSwitch(
    name="TUNER_SKIP_ZERO_ADVANTAGE",
    values=("keep-steps", "one-step"),
    does=N_("leave sequences whose advantages are all zero out of the update of the actor"),
    page="guide/zero-advantage",
)
RECORD = EnvironmentSwitch(
    name="TUNER_RECORD",
    does=N_("the folder for memory and seconds of each phase, one file for each rank"),
    page="guide/inside-verl",
)
SETTINGS = (HEAD, SKIP_ZERO_ADVANTAGE, RECORD)
