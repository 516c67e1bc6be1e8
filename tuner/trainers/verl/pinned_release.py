"""The release of verl that a launch or its repository pins, or bounds by what it asks for of other packages.

What is needed stands before how it is installed. A release runs with the versions that its own requirements
allow, and with few others: these bound the release that a launch was written for, from above and from below.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tuner.files import is_there, read_bytes, repository_folders
from tuner.inputs.installed_packages import InstalledPackage
from tuner.language import _
from tuner.serving.names import NAMES, PACKAGES
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.package_pins import PackagePin, pins_in
from tuner.trainers.verl.releases import BUNDLED, RELEASES
from tuner.trainers.verl.rollout_engine_versions import EnginePin, allowed_versions, releases_with
from tuner.trainers.verl.trainer_code.requirements import VersionRange, Versions, asked_ranges
from tuner.units import MIB
from tuner.versions import at_least, numbers
from tuner.workload import RolloutEngine

#: The cap that releases before the oldest bundled one ask for: verl ``setup.py`` (v0.2.0.post2).
_OLDER_CAP = {RolloutEngine.VLLM: "0.6.3"}


class _Needed(Struct, frozen=True, kw_only=True):
    """What releases need of a package, whichever engine generates."""

    package: str
    since: str = BUNDLED[0]
    until: str = ""  # the first release that no longer does
    versions: Versions

    def holds(self, release: str) -> bool:
        return at_least(release, self.since) and not (self.until and at_least(release, self.until))


# verl: METADATA of its wheels.
_NEEDED = (
    _Needed(package="tensordict", until="0.5.0", versions=Versions(newest="0.6.2")),
    _Needed(package="tensordict", since="0.5.0", versions=Versions(oldest="0.8.0")),
    _Needed(package="transformers", since="0.9.0", versions=Versions(oldest="5.5.3")),
    _Needed(package="numpy", since="0.5.0", until="0.9.0", versions=Versions(below="2.0.0")),
    _Needed(package="numpy", since="0.9.0", versions=Versions(oldest="2.0.0")),
)
_TRAINER = "verl"
_DEVELOPMENT = re.compile(r"\.?dev\d*$")
_PROJECT = "pyproject.toml"
_NAME = re.compile(r"^name\s*=\s*[\"']([^\"'\n]+)", re.MULTILINE)
_NEEDS_TRAINER = re.compile(r"[\"']verl(?![\w-])")
_ENGINES = (RolloutEngine.VLLM, RolloutEngine.SGLANG)
_OTHERS = tuple(dict.fromkeys(needed.package for needed in _NEEDED))


def pinned_release(folder: str, installed: Sequence[InstalledPackage] = ()) -> ReleaseChoice | None:
    """The bundled release that stands for the pinned one; None where nothing pins any.

    Args:
        folder: in which the launch lies; empty where nobody says.
        installed: what the launch itself has pip install, or had.
    """
    pin = next(_pins(folder, installed), None)
    if pin is None:
        return None
    choice = RELEASES.nearest(pin.version, _("{file} pins it").format(file=pin.file))
    if _DEVELOPMENT.search(pin.version) is None:
        return choice
    # the main branch is called so from one release to the next, and behind the branch that this one leaves on
    place = BUNDLED.index(choice.version)
    pinned = _("{file} pins verl {version}").format(file=pin.file, version=pin.version)
    return replace(choice, plausible=BUNDLED[max(0, place - 1) : place + 2], between=pinned)


def _pins(folder: str, installed: Sequence[InstalledPackage]) -> Iterator[PackagePin]:
    """What the launch pins, the last first, as the shell would have it; then what lies around it."""
    for one in reversed(installed):
        if one.name == _TRAINER:
            yield PackagePin(version=one.version, file=str(one.location))
    for above in repository_folders(Path(folder).absolute()) if folder else ():
        # the name of an image is that of the verl it was built for, which is not in it
        yield from pins_in(above, _TRAINER, images=False)


class _Bound(Struct, frozen=True, kw_only=True):
    """The releases that go with one range, and which of them is like it most."""

    package: str
    asked: VersionRange
    releases: frozenset[str]
    likest: str = ""  # asks for the same itself; empty where none does
    older: bool = False  # those before the oldest bundled one go with it as well

    @property
    def words(self) -> str:
        return f"{self.package}{self.asked.text}"


def bounded_release(
    folder: str,
    installed: Sequence[InstalledPackage],
    pins: Sequence[EnginePin],
    among: Sequence[str] = BUNDLED,
    environment: str = "",
) -> ReleaseChoice | None:
    """A guess among the releases that go with what is pinned and asked for; None where nothing bounds them.

    Args:
        folder: in which the launch lies; empty where nobody says.
        installed: what the launch itself has pip install, or had.
        pins: the rollout engines that it or its repository pins, the nearest first.
        among: the releases that it may be of whatever goes with them, oldest first.
        environment: of Python, by whose name the launch runs; empty where it names none.
    """
    pins = [pin for pin in pins if pin.exact]
    known = {one.name for one in installed} | {PACKAGES[pin.engine] for pin in pins}
    bounds = list(_bounds(folder, known, environment))
    left, newest, likest = list(among), "", dict[str, str]()
    for bound in bounds:
        rest = [release for release in left if release in bound.releases]
        if not rest:
            continue  # they contradict each other: the first one counts
        if rest[-1] != left[-1]:
            newest = _("the newest that goes with {package}, which {file} asks for").format(
                package=bound.words, file=bound.asked.file
            )
        if bound.likest in rest:
            likest[bound.likest] = _("the nearest to what asks for {package}, as {file} does").format(
                package=bound.words, file=bound.asked.file
            )
        left = rest
    if pins and (allowing := releases_with(pins[0].engine, pins[0].version, left)):
        return _pinned(pins[0], allowing)
    if len(left) == len(among):
        return None
    version = next((one for one in likest if one in left), left[-1])
    reason = likest.get(version, newest)
    if not reason:
        return RELEASES.newest_of(tuple(left))
    older = any(bound.older for bound in bounds) and left[0] == BUNDLED[0]
    return ReleaseChoice(version=version, reason=reason, plausible=tuple(left), older=older)


def _pinned(pin: EnginePin, allowing: Sequence[str]) -> ReleaseChoice:
    """The newest that allows a version; of one that releases before all bundled ones ran with, the oldest."""
    older = allowing[0] == BUNDLED[0] and _is_of_older(pin.engine, pin.version)
    reason = _("the newest that allows {engine} {version}, which {file} pins")
    if older:
        reason = _("the nearest to older ones, which ran with {engine} {version}, as {file} pins it")
    return ReleaseChoice(
        version=allowing[0] if older else allowing[-1],
        reason=reason.format(engine=NAMES[pin.engine], version=pin.version, file=pin.file),
        plausible=tuple(allowing),
        older=older,
    )


def _is_of_older(engine: RolloutEngine, version: str) -> bool:
    """Whether releases before the oldest bundled one ran with a version of an engine."""
    cap = _OLDER_CAP.get(engine)
    return cap is not None and at_least(cap, version)


def _bounds(folder: str, pinned: set[str], environment: str) -> Iterator[_Bound]:
    """What the files around a launch ask for, as the releases that go with it; of pins others tell."""
    around = list(repository_folders(Path(folder).absolute())) if folder else []
    asked = _ranges_around(around, environment)
    if (of_trainer := asked.get(_TRAINER)) is not None:
        yield _Bound(package=_TRAINER, asked=of_trainer, releases=_going_with(of_trainer))
    for engine in _ENGINES:
        package = PACKAGES[engine]
        if package in asked and package not in pinned:
            yield _of_engine(engine, asked[package])
    for package in _OTHERS:
        if package in asked:
            yield _Bound(package=package, asked=asked[package], releases=_needing(package, asked[package]))
    from tuner.trainers.verl.repository_home import since_the_move  # where the release is guessed

    if (moved := since_the_move(around)) is not None:
        yield _Bound(package=_TRAINER, asked=moved, releases=_going_with(moved))


def _going_with(asked: VersionRange) -> frozenset[str]:
    """The releases of verl that go with what is asked for of it."""
    return frozenset(one for one in BUNDLED if asked.meet(Versions(oldest=one, newest=one)))


def _ranges_around(around: Sequence[Path], environment: str) -> dict[str, VersionRange]:
    """What the nearest folder says of each package.

    A project of another name than the environment that runs is not what that was made for: without verl among
    what it needs, its own package says nothing of it.
    """
    packages = (_TRAINER, *(PACKAGES[engine] for engine in _ENGINES), *_OTHERS)
    asked = dict[str, VersionRange]()
    for above in around:
        ranges = asked_ranges(above, packages)
        if environment and _is_of_another(above / _PROJECT, environment):
            ranges = {name: one for name, one in ranges.items() if not one.file.endswith(f"/{_PROJECT}")}
        asked = {**ranges, **asked}
    return asked


def _is_of_another(project: Path, environment: str) -> bool:
    """Whether a project is called otherwise than an environment, and does not need verl itself."""
    if not is_there(project, Path.is_file):
        return False
    text = read_bytes(project, most=MIB).decode("utf-8", errors="replace")
    name = _NAME.search(text)
    if name is None or _NEEDS_TRAINER.search(text):
        return False
    own, other = (re.sub(r"[^a-z0-9]", "", one.lower()) for one in (name[1], environment))
    return own not in other and other not in own


def _of_engine(engine: RolloutEngine, asked: VersionRange) -> _Bound:
    """What a range of an engine says: verl's own is copied more often than it is thought of anew."""
    allowed = {release: allowed_versions(engine, release) for release in BUNDLED}
    releases = frozenset(release for release, versions in allowed.items() if asked.meet(versions))
    likest = ""
    if asked.newest and not asked.oldest:
        same = [one for one in BUNDLED if numbers(allowed[one].newest or "0") == numbers(asked.newest)]
        likest = same[-1] if same else ""
    older = bool(asked.newest) and _is_of_older(engine, asked.newest)
    if older and likest == "":
        likest = BUNDLED[0]
    return _Bound(package=PACKAGES[engine], asked=asked, releases=releases, likest=likest, older=older)


def _needing(package: str, asked: VersionRange) -> frozenset[str]:
    """The releases that go with a range of a package that they need whatever the engine is."""
    rows = [needed for needed in _NEEDED if needed.package == package]
    return frozenset(
        release for release in BUNDLED if all(asked.meet(row.versions) for row in rows if row.holds(release))
    )
