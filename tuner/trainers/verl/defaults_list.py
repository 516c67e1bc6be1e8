"""Follows the ``defaults:`` list of a user's configuration, as Hydra does."""

from collections.abc import Iterator
from pathlib import Path as FilePath

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there
from tuner.inputs.tree import Path, nested, split_key
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import N_, _
from tuner.trainers.protocol import ReleaseChoice
from tuner.trainers.verl.defaults import CONFIGS, FINE_TUNING_CONFIGS, read_defaults
from tuner.trainers.verl.entry_points import refuse_config
from tuner.trainers.verl.releases import BUNDLED

_PRINT_HINT = N_(
    "give the composed configuration instead: add '--cfg job --resolve' to the launch "
    "command, or take .hydra/config.yaml of a run"
)
_FINE_TUNING_GROUPS = ("engine", "optim")  # of verl's own configuration, which is what a file rests on
_ENGINES = ("dp", "megatron", "torchtitan", "veomni", "automodel")


class Composition(Struct, frozen=True, kw_only=True):
    """A user's files, lowest first, and which trainer configuration they rest on."""

    documents: tuple[Document, ...] = ()
    config: str | None = None  # a name of CONFIGS, None where the files name none
    engine: str | None = None  # choice of the config group model_engine
    engine_location: Location | None = None
    release: ReleaseChoice | None = None  # that printed the settings; None of what no trainer printed
    recipes: bool = True  # whether keys that only a recipe has tell that the job is of that recipe

    @property
    def empty(self) -> bool:
        """Whether no file says anything."""
        return not any(document.tree for document in self.documents)


def follow(document: Document) -> Composition:
    """Take a configuration and read whatever its ``defaults`` list names beside it.

    Names that verl bundles (``ppo_trainer``, ``actor@actor_rollout_ref.actor: dp_actor``) mean the
    defaults of the release; others are files next to the configuration.

    Raises:
        InputError: a file is malformed, or a name is neither bundled nor found.
        UnsupportedError: the configuration belongs to another entry point.
    """
    file = FilePath(document.source)
    return _follow(document, folder=file.parent, package=(), open_files=(file.resolve(),))


def bundled_engine(group: str, choice: str) -> str | None:
    """The engine that a choice of a config group of verl stands for; None for a choice it does not have.

    A choice that is the same for every engine counts as "dp".
    """
    if group == "model_engine":
        return choice
    for version in reversed(BUNDLED):
        for config in CONFIGS:
            known = read_defaults(version, config).groups.get(group)
            if known is None:
                continue
            engine, _separator, part = choice.partition("_")
            if engine in _ENGINES and known in (choice, f"${{model_engine}}_{part}"):
                return engine
            if known == choice:
                return "dp"
    return None


def _follow(
    document: Document, *, folder: FilePath, package: Path, open_files: tuple[FilePath, ...]
) -> Composition:
    entries = document.tree.get("defaults")
    own = _placed(document, package)
    if not isinstance(entries, list):
        return Composition(documents=(own,))
    result = Composition()
    has_self = False
    for number, entry in enumerate(entries):
        place = document.location("defaults", str(number))
        for group, choice in choices(entry, place):
            if group is None and choice == "_self_":
                has_self = True
                part = Composition(documents=(own,))
            else:
                part = _part(group, choice, place, folder, package, open_files)
            result = _joined(result, part)
    return result if has_self else _joined(result, Composition(documents=(own,)))


def _placed(document: Document, package: Path) -> Document:
    """The document without what configures Hydra, below ``package``."""
    tree = {key: value for key, value in document.tree.items() if key not in ("defaults", "hydra")}
    locations = {(*package, *path): place for path, place in document.locations.items()}
    return replace(document, tree=nested(package, tree), locations=locations)


def _joined(low: Composition, high: Composition) -> Composition:
    return Composition(
        documents=low.documents + high.documents,
        config=high.config or low.config,
        engine=high.engine or low.engine,
        engine_location=high.engine_location or low.engine_location,
    )


def choices(entry: object, place: Location) -> Iterator[tuple[str | None, str]]:
    """The (group, choice) pairs of one entry; the group is None for a plain name."""
    if isinstance(entry, str):
        yield None, entry.removeprefix("/").removesuffix(".yaml")
        return
    if not isinstance(entry, dict):
        raise InputError(_("an entry is neither a name nor 'group: choice'"), location=place, key="defaults")
    for key, value in entry.items():
        group = key.removeprefix("override ").removeprefix("optional ").strip().removeprefix("/")
        if value is None or group.startswith("hydra/"):
            continue
        for choice in value if isinstance(value, list) else [value]:
            yield group, str(choice).removesuffix(".yaml")


def _part(
    group: str | None,
    choice: str,
    place: Location,
    folder: FilePath,
    package: Path,
    open_files: tuple[FilePath, ...],
) -> Composition:
    """What one entry other than ``_self_`` brings."""
    if group is None:
        if choice in (*CONFIGS, *FINE_TUNING_CONFIGS):
            return Composition(config=choice)
        refuse_config(choice, place)
        if choice == "legacy_reward_impl":  # a part of verl's own ppo_trainer
            return Composition()
        return _beside(folder / f"{choice}.yaml", choice, place, package, open_files)
    if group.partition("@")[0] in _FINE_TUNING_GROUPS:
        is_engine = group.startswith("engine")
        return Composition(engine=choice, engine_location=place) if is_engine else Composition()
    engine = bundled_engine(group, choice)
    if engine is not None:
        named = group == "model_engine" or engine != "dp"
        return Composition(engine=engine, engine_location=place) if named else Composition()
    name, _separator, target = group.partition("@")
    below = package_of(target or name.replace("/", "."), package)
    return _beside(folder / name / f"{choice}.yaml", f"{group}: {choice}", place, below, open_files)


def package_of(name: str, parent: Path) -> Path:
    """Where a package of Hydra's lies that is named below another one."""
    return () if name == "_global_" else (*parent, *split_key(name))


def _beside(
    file: FilePath, name: str, place: Location, package: Path, open_files: tuple[FilePath, ...]
) -> Composition:
    if not is_there(file, FilePath.is_file):
        message = _("{name!r} is neither a configuration of verl nor found as {file}").format(
            name=name, file=file
        )
        raise InputError(message, location=place, key="defaults", hint=_(_PRINT_HINT))
    if file.resolve() in open_files:
        raise InputError(
            _("{name!r} includes itself").format(name=name),
            location=place,
            key="defaults",
            hint=_("remove one of the entries"),
        )
    document = read_yaml(file)
    if document.package is not None:
        package = package_of(document.package, ())
    return _follow(document, folder=file.parent, package=package, open_files=(*open_files, file.resolve()))
