"""How much of a configuration is read; one that has more is none of verl."""

from tuner.errors import Location, UnsupportedError
from tuner.language import _

MOST_KEYS = 4_000


def expect_few(keys: int, place: Location | None) -> None:
    """Refuse more settings than any configuration has.

    Raises:
        UnsupportedError: there are more.
    """
    if keys > MOST_KEYS:
        raise UnsupportedError(
            _("{keys:,} settings are more than the {most:,} that are read").format(keys=keys, most=MOST_KEYS),
            location=place,
            hint=_("a composed configuration of verl has about 900: is this one?"),
        )
