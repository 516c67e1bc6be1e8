"""Lines in the log of a worker."""

import logging

LOGGER = logging.getLogger("tuner.inside_verl")


def say(line: str) -> None:
    """One line into the log of this process, at a level that verl's own setting would hide."""
    LOGGER.setLevel(logging.INFO)
    if not LOGGER.hasHandlers():
        LOGGER.addHandler(logging.StreamHandler())
        LOGGER.propagate = False  # to handlers that come later, which would say it again
    LOGGER.info("tuner.inside_verl: %s", line)
