"""Counted nouns in sentences, with the number that grammar asks for: ``1 rank``, ``2 ranks``."""


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``"1 rank"``, ``"16,384 tokens"``, ``"2.5 longest sequences"``.

    Args:
        number: how many; fractions are shown to one decimal.
        noun: what is counted, in the singular.
        plural: its plural where that is not the noun with an s.
    """
    shown = f"{number:,.1f}".removesuffix(".0")
    return f"{shown} {noun if shown == '1' else plural or f'{noun}s'}"


def agreeing(number: float, one: str, more: str) -> str:
    """The form of a word that goes with a number: ``agreeing(1, "fits", "fit")`` is ``"fits"``."""
    return one if number == 1 else more
