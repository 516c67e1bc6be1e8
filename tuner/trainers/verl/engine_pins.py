"""The rollout engine that a launch or its repository pins, or the newest one that it allows.

What a launch says of the version stands before what the files around it say, and these before any range.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.files import repository_folders
from tuner.inputs.installed_packages import InstalledPackage
from tuner.serving.names import PACKAGES
from tuner.trainers.verl.package_pins import (
    PackagePin,
    pins_for_other_cards,
    pins_in,
    torch_of_wheels,
)
from tuner.trainers.verl.rollout_engine_versions import EnginePin
from tuner.trainers.verl.trainer_code.requirements import asked_ranges, newest_taken
from tuner.versions import at_least, numbers
from tuner.workload import RolloutEngine

_ENGINES = (RolloutEngine.VLLM, RolloutEngine.SGLANG)
_SCRIPT = ".sh"
_LISTS = (".txt", ".toml", ".py")  # of what is needed: that one of them was installed nobody says


def pinned_engines(
    folder: str,
    installed: Sequence[InstalledPackage] = (),
    copy: Path | None = None,
    *,
    ascend: bool = False,
) -> tuple[EnginePin, ...]:
    """The version of each engine that a launch pins, else its repository, the nearest first.

    Args:
        folder: in which the launch lies; empty where nobody says.
        installed: what the launch itself has pip install, or had.
        copy: the folder that holds the copy of verl that would run; its own code may take fewer versions.
        ascend: whether the launch is for Ascend's cards: what is installed for GPUs says nothing of it.
    """
    found = dict[RolloutEngine, EnginePin]()
    if ascend:
        for pin in (*_pins_of_launch(installed), *_pins_for_ascend(folder, copy)):
            found.setdefault(pin.engine, pin)
        return tuple(found.values())
    caps = _caps_around(folder) if copy is None else ()  # a copy is asked for what its own files allow
    by_torch = _caps_of_torch(folder, installed, copy)
    for pin in (*_pins_of_launch(installed), *_pins_around(folder, copy), *caps, *by_torch):
        if copy is None or _takes(copy, pin):
            known = found.setdefault(pin.engine, pin)
            if not known.exact and (not at_least(pin.version, known.version) or pin.excludes(known.version)):
                found[pin.engine] = pin
    return tuple(found.values())


def _takes(copy: Path, pin: EnginePin) -> bool:
    """Whether the copy's own code runs with a version, as far as it names those that it takes.

    A list around the copy that asks for an older one than the copy's own files do is of another environment.
    """
    package = PACKAGES[pin.engine]
    taken = newest_taken(copy, package)
    if taken is not None and not at_least(taken.version, pin.version):
        return False
    if not pin.file.endswith(_LISTS) or pin.file.startswith(f"{copy.name}/"):
        return True
    asked = asked_ranges(copy, [package]).get(package)
    return asked is None or not asked.oldest or at_least(pin.version, asked.oldest)


def _pins_of_launch(installed: Sequence[InstalledPackage]) -> Iterator[EnginePin]:
    """What a launch itself says, the last first, as the shell would have it."""
    for one in reversed(installed):
        for engine in _ENGINES:
            if one.name == PACKAGES[engine]:
                yield EnginePin(engine=engine, version=one.version, file=str(one.location))


def _pins_around(folder: str, copy: Path | None) -> Iterator[EnginePin]:
    """What the files around a launch say; the scripts that come with a copy of verl say it last.

    A README above them is what a user follows: it installs its own versions, be it behind such a script.
    """
    of_copy, root = list[EnginePin](), None if copy is None else copy.absolute()
    scripts = () if root is None else (root, root / "scripts")
    for above in _folders(folder, copy):
        for engine in _ENGINES:
            for pin in _pins(above, engine):
                if above in scripts and pin.file.endswith(_SCRIPT):
                    of_copy.append(pin)
                else:
                    yield pin
    yield from of_copy


def _pins_for_ascend(folder: str, copy: Path | None) -> Iterator[EnginePin]:
    """What the files around a launch install for Ascend's cards."""
    for above in _folders(folder, copy):
        for engine in _ENGINES:
            for pin in pins_for_other_cards(above, PACKAGES[engine]):
                yield EnginePin(engine=engine, version=pin.version, file=pin.file)


def _folders(folder: str, copy: Path | None) -> list[Path]:
    """The folders around a launch, the nearest first, and that of the copy."""
    around = list(repository_folders(Path(folder).absolute())) if folder else []
    if copy is not None and copy.absolute() not in around:
        around.append(copy.absolute())
    return around


def _pins(folder: Path, engine: RolloutEngine) -> Iterator[EnginePin]:
    """What a folder's files say of an engine."""
    for pin in pins_in(folder, PACKAGES[engine]):
        yield EnginePin(engine=engine, version=pin.version, file=pin.file)


def _caps_around(folder: str) -> Iterator[EnginePin]:
    """The newest versions that the files around a launch allow."""
    for above in repository_folders(Path(folder).absolute()) if folder else ():
        asked = asked_ranges(above, [PACKAGES[engine] for engine in _ENGINES])
        for engine in _ENGINES:
            wanted = asked.get(PACKAGES[engine])
            if wanted is not None and wanted.newest:
                yield EnginePin(engine=engine, version=wanted.newest, file=wanted.file, exact=False)


def _caps_of_torch(
    folder: str, installed: Sequence[InstalledPackage], copy: Path | None
) -> Iterator[EnginePin]:
    """The newest vLLM that goes with the torch that a launch, or the nearest folder around it, pins."""
    pins = [
        PackagePin(version=one.version, file=str(one.location)) for one in installed if one.name == "torch"
    ][-1:]
    around = _folders(folder, copy) if not pins else []
    pins = pins or next(filter(None, map(_pins_of_torch, around)), [])
    newest = max(pins, key=lambda pin: numbers(pin.version), default=None)
    if newest is None:
        return
    # few files pin torch and no engine
    from tuner.trainers.verl.torch_version import newest_vllm_with, oldest_vllm_with

    version = newest_vllm_with(newest.version)
    if version and not any(_asks_newer(above, version) for above in around):
        yield EnginePin(
            engine=RolloutEngine.VLLM,
            version=version,
            oldest=oldest_vllm_with(newest.version),
            file=newest.file,
            exact=False,
            torch=newest.version,
        )


def _pins_of_torch(folder: Path) -> list[PackagePin]:
    """The torch that a folder's files pin, else the one that a wheel of theirs is built for."""
    return list(pins_in(folder, "torch", images=False)) or list(torch_of_wheels(folder))


def _asks_newer(folder: Path, version: str) -> bool:
    """Whether a folder's files ask for a newer vLLM: then a torch that they pin is none that stays."""
    asked = asked_ranges(folder, ["vllm"]).get("vllm")
    return asked is not None and bool(asked.oldest) and not at_least(version, asked.oldest)
