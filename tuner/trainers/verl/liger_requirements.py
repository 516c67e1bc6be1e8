"""Whether Liger-Kernel can be imported with the transformers that the repository of a launch asks for."""

from collections.abc import Callable

from tuner.versions import at_least

PACKAGE = "liger-kernel"
#: The oldest transformers by release of Liger-Kernel, the newest first; with an older one it raises
#: ``ImportError``. Before 0.7.0 there is no such test.
#: Source: ``transformers/monkey_patch.py`` (``MIN_SUPPORTED_TRANSFORMERS_VERSION``), which 0.6.5 lacks.
_OLDEST_TRANSFORMERS = (("0.8.5", "5.0.0"), ("0.7.0", "4.52.0"))
_UNPINNED = "0.7.0"  # where nobody says which: the oldest release with a test, which asks for the least


def liger_refuses(newest: Callable[[str], str | None] | None) -> bool:
    """Whether the newest transformers that is asked for is too old for the Liger-Kernel beside it.

    Args:
        newest: the newest version of a package that the repository allows, None where it says nothing of it;
            None where there is no repository.
    """
    transformers = None if newest is None else newest("transformers")
    if newest is None or transformers is None:
        return False
    liger = newest(PACKAGE) or _UNPINNED
    oldest = next((least for since, least in _OLDEST_TRANSFORMERS if at_least(liger, since)), None)
    return oldest is not None and not at_least(transformers, oldest)
