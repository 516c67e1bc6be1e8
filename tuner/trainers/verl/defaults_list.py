"""Follows the ``defaults:`` list of a user's configuration, as Hydra does."""

from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there
from tuner.inputs.tree import Path, nested
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.defaults import CONFIG_FOLDER, CONFIGS, FINE_TUNING_CONFIGS, read_defaults
from tuner.trainers.verl.defaults_choices import Choices
from tuner.trainers.verl.defaults_entries import DefaultsEntry, entries, header_package
from tuner.trainers.verl.defaults_files import PRINT_HINT, DefaultsFiles
from tuner.trainers.verl.entry_points import refuse_config
from tuner.trainers.verl.releases import BUNDLED

_ENGINE_GROUP = "model_engine"
_ENGINES = ("dp", "megatron", "torchtitan", "veomni", "automodel", "mlite", "mindspeed")
_FINE_TUNING_GROUPS = ("engine", "optim")  # of verl's own configuration, which is what a file rests on


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

    def below(self, high: "Composition") -> "Composition":
        """The composition with other files above it, whose choices win."""
        return Composition(
            documents=self.documents + high.documents,
            config=high.config or self.config,
            engine=high.engine or self.engine,
            engine_location=high.engine_location or self.engine_location,
        )

    def without_repeats(self) -> "Composition":
        """Each document where it is laid on last: what it said before counts again there."""
        last = {id(document): document for document in reversed(self.documents)}
        return replace(self, documents=tuple(reversed(last.values())))


def _alone(document: Document, package: Path = ()) -> Composition:
    """A document without what configures Hydra, with its keys below ``package``."""
    tree = {key: value for key, value in document.tree.items() if key not in ("defaults", "hydra")}
    locations = {(*package, *path): place for path, place in document.locations.items()}
    return Composition(documents=(replace(document, tree=nested(package, tree), locations=locations),))


def follow(document: Document, tops: Sequence[FilePath] = ()) -> Composition:
    """Take a configuration and read whatever its ``defaults`` list names beside it.

    Names that verl bundles (``ppo_trainer``, ``actor@actor_rollout_ref.actor: dp_actor``) mean the
    defaults of the release; others are files next to the configuration, or in a folder that its
    ``hydra.searchpath`` names.

    Args:
        document: the configuration.
        tops: further folders in which names begin, and from which packages and relative paths are meant.

    Raises:
        InputError: a file is malformed, or a name is neither bundled nor found.
        UnsupportedError: the configuration belongs to another entry point.
    """
    file = FilePath(document.source)
    reader = _Reader((file.parent, *tops, *_searched(document, file.parent, tops)))
    composition = reader.read(_List(document=document, base="", package=(), open_files=(file.resolve(),)))
    return reader.overridden().below(composition)


def follow_choices(
    document: Document, chosen: Sequence[DefaultsEntry], tops: Sequence[FilePath] = ()
) -> Composition:
    """What entries of a configuration's list bring that are chosen from outside, one laid on the other.

    Args:
        document: the configuration.
        chosen: its entries, with the names of files that are chosen.
        tops: further folders in which names begin.

    Raises:
        InputError: a file is malformed, or there is none of a name.
    """
    file = FilePath(document.source)
    reader = _Reader((file.parent, *tops))
    listed = _List(document=document, base="", package=(), open_files=(file.resolve(),))
    result = Composition()
    for entry in chosen:
        result = result.below(reader.part(entry, listed))
    return reader.overridden().below(result)


def bundled_engine(group: str, choice: str) -> str | None:
    """The engine that a choice of a config group of verl stands for; None for a choice it does not have.

    A choice that is the same for every engine counts as "dp".
    """
    if group == _ENGINE_GROUP:
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


class _List(Struct, frozen=True, kw_only=True):
    """A document whose list is followed, and where it stands."""

    document: Document
    base: str  # its folder, from the top
    package: Path
    open_files: tuple[FilePath, ...]  # which have it in their lists, and itself


class _Followed(Struct, frozen=True):
    """What a list that was followed has brought, and the numbers of choices before and behind it."""

    composition: Composition
    before: int
    behind: int


class _Reader:
    """Follows lists into files, with the choices that outer files override in inner ones."""

    def __init__(self, tops: Sequence[FilePath]) -> None:
        self._files = DefaultsFiles(tops)
        self._choices = Choices()
        self._overrides: dict[str, tuple[DefaultsEntry, _List]] = {}  # by key, the outermost file's first
        self._met: set[str] = set()  # keys of those that chose for an entry of a file
        self._followed: dict[tuple[FilePath, Path], _Followed] = {}  # by the file and the package of its keys

    def read(self, listed: _List) -> Composition:
        """A document and what its list names, lowest first."""
        document = listed.document
        own = _alone(document, listed.package)
        named = entries(document)
        for entry in named:
            if entry.overrides:
                self._overrides.setdefault(entry.key(listed.base, listed.package), (entry, listed))
        result = Composition()
        for entry in named:
            if not entry.overrides:
                self._files.count(entry, len(listed.open_files))
                result = result.below(own if entry.is_self else self._chosen(entry, listed))
        result = result if any(entry.is_self for entry in named) else result.below(own)
        return result.without_repeats()

    def overridden(self) -> Composition:
        """What is chosen anew for entries of verl's own lists, which lie below all of the user's files."""
        result = Composition()
        for key, (entry, listed) in list(self._overrides.items()):
            if key not in self._met:
                self._expect_group(entry, listed)
                result = result.below(self.part(entry, listed))
        return result

    def _expect_group(self, entry: DefaultsEntry, listed: _List) -> None:
        """Refuse to choose anew what nobody chose, as Hydra does."""
        folder = entry.folder_path(listed.base)
        if not _has_files(f"{folder}/"):
            raise InputError(
                _("no other entry chooses {group}, so that nothing is overridden").format(group=entry.group),
                location=entry.place,
                key="defaults",
                hint=_("leave {word} out").format(word="'override'"),
            )

    def _chosen(self, entry: DefaultsEntry, listed: _List) -> Composition:
        if entry.group is None:
            return self.part(entry, listed)
        key = entry.key(listed.base, listed.package)
        if key in self._overrides:
            self._met.add(key)
            other, _list = self._overrides[key]
            entry = replace(entry, name=other.name, place=other.place, one_of_list=other.one_of_list)
        if entry.one_of_list:
            return self.part(entry, listed)
        self._choices.name(entry, key)
        if entry.name is not None and not self._is_left_out(entry, listed):
            self._choices.make(entry, key)
        return self.part(entry, listed)

    def _is_left_out(self, entry: DefaultsEntry, listed: _List) -> bool:
        return entry.optional and self._files.find(entry.file_path(listed.base)) is None

    def part(self, entry: DefaultsEntry, listed: _List) -> Composition:
        """What one entry other than ``_self_`` brings."""
        if entry.name is None:
            return Composition()
        bundled = _bundled(entry, listed)
        return self._file(entry, listed) if bundled is None else bundled

    def _file(self, entry: DefaultsEntry, listed: _List) -> Composition:
        path = entry.file_path(listed.base)
        file = self._files.find(path)
        if file is None:
            nested_list = bool(listed.base or listed.package)
            if entry.optional or (nested_list and _has_files(f"{path}.yaml")):
                return Composition()
            message = _("{name!r} is neither a configuration of verl nor found as {file}").format(
                name=entry.text, file=self._files.expected(path)
            )
            raise InputError(message, location=entry.place, key="defaults", hint=_(PRINT_HINT))
        resolved = file.resolve()
        if resolved in listed.open_files:
            raise InputError(
                _("{name!r} includes itself").format(name=entry.text),
                location=entry.place,
                key="defaults",
                hint=_("remove one of the entries"),
            )
        document = self._files.read(file, entry)
        header = header_package(document) if entry.package is None else None
        below = _List(
            document=document,
            base=path.rpartition("/")[0],
            package=entry.below(listed.base, listed.package) if header is None else header,
            open_files=(*listed.open_files, resolved),
        )
        return self._once(file, below, entry)

    def _once(self, file: FilePath, below: _List, entry: DefaultsEntry) -> Composition:
        """What a file brings below a package: its list is followed the first time that it is met there."""
        followed = self._followed.get((file, below.package))
        if followed is None:
            before = len(self._choices)
            followed = _Followed(self.read(below), before, len(self._choices))
            self._followed[file, below.package] = followed
        else:
            self._choices.expect_none_since(followed.before, followed.behind, entry)
        return followed.composition


def _bundled(entry: DefaultsEntry, listed: _List) -> Composition | None:
    """What an entry means that names a configuration of verl; None where it names another file."""
    choice, place, folder = entry.name or "", entry.place, entry.folder_path(listed.base)
    if entry.group is None and not folder:
        if choice in (*CONFIGS, *FINE_TUNING_CONFIGS):
            return Composition(config=choice)
        refuse_config(choice, place)
        return Composition() if choice == "legacy_reward_impl" else None  # a part of verl's own ppo_trainer
    if folder in _FINE_TUNING_GROUPS and not (listed.base or listed.package):
        return Composition(engine=choice, engine_location=place) if folder == "engine" else Composition()
    group = folder if folder == _ENGINE_GROUP else entry.key(listed.base, listed.package)
    engine = bundled_engine(group, choice)
    if engine is None:
        return None
    named = group == _ENGINE_GROUP or engine != "dp"
    return Composition(engine=engine, engine_location=place) if named else Composition()


def _has_files(path: str) -> bool:
    """Whether verl itself has a file, or a folder of them; their keys are among the defaults of a release."""
    files = (file for version in reversed(BUNDLED) for file in read_defaults(version, CONFIGS[0]).files)
    return any(file.startswith(f"{CONFIG_FOLDER}{path}") for file in files)


def _searched(document: Document, folder: FilePath, starts: Sequence[FilePath]) -> Iterator[FilePath]:
    """The folders that ``hydra.searchpath`` names; relative ones are meant from where the job is started.

    Where that is nobody knows: the folder of the configuration is tried, then those above it.
    """
    hydra = document.tree.get("hydra")
    search_path = hydra.get("searchpath") if isinstance(hydra, dict) else None
    for item in search_path if isinstance(search_path, list) else ():
        scheme, _separator, path = str(item).partition("://")
        if scheme == "pkg":
            path = path.replace(".", "/")
        if scheme in ("file", "pkg") and path:
            above = (*starts, folder.absolute(), *folder.absolute().parents)
            yield from (place for start in above if is_there(place := start / path, FilePath.is_dir))
