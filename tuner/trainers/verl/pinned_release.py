"""The release of verl that a launch or its repository pins: in what it needs, before how it is installed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.files import repository_folders
from tuner.inputs.installed_packages import InstalledPackage
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.package_pins import PackagePin, pins_in
from tuner.trainers.verl.releases import RELEASES

_PACKAGE = "verl"


def pinned_release(folder: str, installed: Sequence[InstalledPackage] = ()) -> ReleaseChoice | None:
    """The bundled release that stands for the pinned one; None where nothing pins any.

    Args:
        folder: in which the launch lies; empty where nobody says.
        installed: what the launch itself has pip install, or had.
    """
    pin = next(_pins(folder, installed), None)
    return None if pin is None else RELEASES.nearest(pin.version, _("{file} pins it").format(file=pin.file))


def _pins(folder: str, installed: Sequence[InstalledPackage]) -> Iterator[PackagePin]:
    """What the launch pins, the last first, as the shell would have it; then what lies around it."""
    for one in reversed(installed):
        if one.name == _PACKAGE:
            yield PackagePin(version=one.version, file=str(one.location))
    for above in repository_folders(Path(folder).absolute()) if folder else ():
        # the name of an image is that of the verl it was built for, which is not in it
        yield from pins_in(above, _PACKAGE, images=False)
