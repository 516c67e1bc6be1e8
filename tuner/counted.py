"""Counted nouns in sentences, with the form that grammar asks for: ``1 rank``, ``2 ranks``."""

from tuner.language import ngettext


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``"1 rank"``, ``"16,384 tokens"``, ``"2.5 longest sequences"``.

    Args:
        number: how many; fractions are shown to one decimal.
        noun: what is counted, in the singular.
        plural: its plural where that is not the noun with an s.
    """
    shown = f"{number:,.1f}".removesuffix(".0")
    one, more = forms(noun, plural)
    return ngettext(one, more, 1 if shown == "1" else 2).format(count=shown)


def forms(noun: str, plural: str | None = None) -> tuple[str, str]:
    """The two texts of a counted noun, as the catalogue has them: ``("{count} rank", "{count} ranks")``."""
    return f"{{count}} {noun}", f"{{count}} {plural or f'{noun}s'}"


def agreeing(number: float, one: str, more: str) -> str:
    """The form of a word that goes with a number: ``agreeing(1, "fits", "fit")`` is ``"fits"``."""
    return ngettext(one, more, 1 if number == 1 else 2)
