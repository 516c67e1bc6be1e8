"""The rollout engine that a launch or its repository pins, and the release of verl which that bounds.

What a launch says of the version stands before what the files around it say, and these before any range.
Where no copy of verl and no pin of it is there, the engine beside it tells what the launch was written for:
a release runs with the engines that its requirements allow, and with no others.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.files import repository_folders
from tuner.inputs.installed_packages import InstalledPackage
from tuner.language import _
from tuner.serving.names import NAMES, PACKAGES
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.package_pins import pins_in
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.rollout_engine_versions import EnginePin, newest_release_with
from tuner.trainers.verl.trainer_code.requirements import newest_required, newest_taken
from tuner.versions import at_least
from tuner.workload import RolloutEngine

_ENGINES = (RolloutEngine.VLLM, RolloutEngine.SGLANG)
#: verl since then asks for a newer tensordict than older ones allow: METADATA of its wheels.
_TENSORDICT_SINCE, _OLDEST_TENSORDICT = "0.5.0", "0.8.0"


def release_with(pin: EnginePin) -> ReleaseChoice | None:
    """The newest bundled release that runs with a pinned engine; None where none does."""
    releases = [one for one in BUNDLED if not pin.below or not at_least(one, pin.below)]
    version = newest_release_with(pin.engine, pin.version, releases)
    if version is None:
        return None
    reason = _("the newest that allows {engine} {version}, which {file} pins")
    return ReleaseChoice(
        version=version,
        reason=reason.format(engine=NAMES[pin.engine], version=pin.version, file=pin.file),
    )


def pinned_engines(
    folder: str, installed: Sequence[InstalledPackage] = (), copy: Path | None = None
) -> tuple[EnginePin, ...]:
    """The version of each engine that a launch pins, else its repository, the nearest first.

    Args:
        folder: in which the launch lies; empty where nobody says.
        installed: what the launch itself has pip install, or had.
        copy: the folder that holds the copy of verl that would run; its own code may take fewer versions.
    """
    found = dict[RolloutEngine, EnginePin]()
    for pin in (*_pins_of_launch(installed), *_pins_around(folder, copy)):
        if copy is None or _takes(copy, pin):
            found.setdefault(pin.engine, pin)
    return tuple(found.values())


def _takes(copy: Path, pin: EnginePin) -> bool:
    """Whether the copy's own code runs with a version, as far as it names those that it takes."""
    taken = newest_taken(copy, PACKAGES[pin.engine])
    return taken is None or at_least(taken.version, pin.version)


def _pins_of_launch(installed: Sequence[InstalledPackage]) -> Iterator[EnginePin]:
    """What a launch itself says, the last first, as the shell would have it."""
    for one in reversed(installed):
        for engine in _ENGINES:
            if one.name == PACKAGES[engine]:
                yield EnginePin(engine=engine, version=one.version, file=str(one.location))


def _pins_around(folder: str, copy: Path | None) -> Iterator[EnginePin]:
    around = list(repository_folders(Path(folder).absolute())) if folder else []
    if copy is not None and copy.absolute() not in around:
        around.append(copy.absolute())
    for above in around:
        for engine in _ENGINES:
            yield from _pins(above, engine)


def _pins(folder: Path, engine: RolloutEngine) -> Iterator[EnginePin]:
    """What a folder's files say of an engine."""
    tensors = newest_required(folder, "tensordict")
    older = tensors is not None and not at_least(tensors.version, _OLDEST_TENSORDICT)
    below = _TENSORDICT_SINCE if older else ""
    for pin in pins_in(folder, PACKAGES[engine]):
        yield EnginePin(engine=engine, version=pin.version, file=pin.file, below=below)
