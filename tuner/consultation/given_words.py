"""What was given to a command, kept to be given again: to another one, or with further words."""

from msgspec import Struct

from tuner.consultation.premises import Premises


class GivenWords(Struct, frozen=True, kw_only=True):
    """A source, the words behind it, and what was said beside them."""

    source: str
    words: tuple[str, ...]
    premises: Premises
