"""How a change that makes room is published, in the reports of an error and of a log that ends in one."""

from tuner.advise.remedies import Remedy
from tuner.render.publication import publish

publish(
    Remedy,
    "RemedyReport",
    *("code", "name", "overrides", "measure", "phase", "before_bytes", "after_bytes", "enough"),
    *("seconds_before", "seconds_after", "change", "numerics", "yours"),
    text="One change of settings and what it does where memory was missing.",
)
