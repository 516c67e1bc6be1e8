"""What a shell offers behind an option: the names of bundled models and cards."""

from collections.abc import Iterable


def bundled_models(incomplete: str) -> list[str]:
    """Bundled models whose name begins so, in any case."""
    from tuner.models import model_names

    return beginning(model_names(), incomplete)


def cards(incomplete: str) -> list[str]:
    """Cards whose name begins so; a number of them in front, as in ``8xh1``, stays."""
    from tuner.gpus import gpu_names

    count, separator, name = incomplete.partition("x")
    if separator and count.isdigit():
        return [f"{count}x{card}" for card in beginning(gpu_names(), name)]
    return beginning(gpu_names(), incomplete)


def beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """The names in the case in which they are begun, since a shell leaves out what does not begin so."""
    beginning = [name for name in names if name.lower().startswith(incomplete.lower())]
    return [incomplete + name[len(incomplete) :] for name in beginning]
