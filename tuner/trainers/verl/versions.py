"""The verl releases whose defaults travel with this package."""

import re
from functools import cache
from importlib.util import find_spec

from msgspec import Struct

from tuner.errors import InputError

BUNDLED: tuple[str, ...] = ("0.4.1", "0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1")

RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.\-_+]?[a-zA-Z].*)?")


class Choice(Struct, frozen=True, kw_only=True):
    """A bundled release and why it was taken."""

    version: str
    reason: str
    unbundled: str | None = None  # the release that was meant, where that one is not bundled


def choose(requested: str | None) -> Choice:
    """The release to rest on: the requested one, else the installed one, else the newest bundled one.

    A release that is not bundled is served by the nearest older one that is.

    Raises:
        InputError: ``requested`` is not a version number.
    """
    if requested is not None:
        return _nearest(requested, f"asked for {requested}")
    installed = installed_version("verl")
    if installed is not None:
        return _nearest(installed, f"verl {installed} is installed")
    return Choice(version=BUNDLED[-1], reason="newest bundled release; no verl is installed here")


@cache
def at_least(version: str, minimum: str) -> bool:
    """Whether ``version`` is ``minimum`` or newer; suffixes such as rc1, .dev0 and .post1 do not count."""
    return _numbers(version) >= _numbers(minimum)


def _nearest(version: str, reason: str) -> Choice:
    family = [bundled for bundled in BUNDLED if bundled.startswith(version.strip().lstrip("v") + ".")]
    if family:  # "0.9" names no release: its newest bundled one is meant
        return Choice(version=family[-1], reason=reason)
    older = [bundled for bundled in BUNDLED if at_least(version, bundled)]
    taken = older[-1] if older else BUNDLED[0]
    if _numbers(taken) == _numbers(version):
        return Choice(version=taken, reason=reason)
    kind = "nearest older bundled release" if older else "oldest bundled release"
    return Choice(
        version=taken, reason=f"{reason}; {taken} is the {kind}", unbundled=version.strip().lstrip("v")
    )


def installed_version(package: str) -> str | None:
    """The version of an installed package, None where there is none or its version is no number."""
    if find_spec(package) is None:
        return None
    from importlib.metadata import PackageNotFoundError, version  # 20 ms

    try:
        installed = version(package)
    except PackageNotFoundError:
        return None
    return installed if RELEASE.fullmatch(installed) else None


def _numbers(version: str) -> tuple[int, ...]:
    match = RELEASE.fullmatch(version.strip())
    if match is None:
        raise InputError(
            f"{version!r} is not a verl release",
            hint=f"bundled releases: {', '.join(BUNDLED)}",
        )
    numbers = tuple(int(part) for part in match[1].split("."))
    return (*numbers, 0, 0, 0)[: max(3, len(numbers))]
