"""What a script links, copies and moves: the folders that have another content once it has run.

Source: GNU coreutils manual, "Target directory", "ln invocation"; rsync(1), on a slash behind a source.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import normpath

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.placed_packages import PlacedPackage

#: The commands, with their options that take a value of their own.
_COMMANDS = {
    "ln": ("-S", "--suffix"),
    "cp": ("-S", "--suffix"),
    "mv": ("-S", "--suffix"),
    "rsync": ("-e", "--exclude", "--include", "--filter", "-f", "--exclude-from", "--include-from"),
    "rm": (),
    "mkdir": ("-m", "--mode"),
}
_CONTENT = ("/", "/.", "/*")  # behind the name of a folder whose content is meant
_TEMPORARY = "mktemp"  # the folder that it makes is there
_MOST = 64  # commands of a script that count
_HERE = "."


class Placing(Struct, frozen=True, kw_only=True):
    """A command that gives a folder another name or content, with its paths as they are spelled."""

    command: str
    options: tuple[str, ...]
    paths: tuple[str, ...]  # without what stands behind the name of a folder
    ends: tuple[str, ...]  # that, for each of them
    into: str  # what ``-t`` says; empty without it
    location: Location
    certain: bool  # no branch that nobody knows leads to it

    @property
    def keeps_name(self) -> bool:
        """Whether the last path is the new name itself, also where a link to a folder has it."""
        return any(
            word in ("--no-dereference", "--no-target-directory")
            or (not word.startswith("--") and not {"n", "T"}.isdisjoint(word))
            for word in self.options
        )


def placing(
    words: Sequence[str], spell: Callable[[str], str], location: Location, *, certain: bool
) -> Placing | None:
    """What a command places; None of one that places nothing.

    Args:
        words: of the command, unknown values by the names of their variables.
        spell: a path as all commands of the script would have it.
        location: of the command.
        certain: whether no branch that nobody knows leads to it.
    """
    command = _parted(words[0])[1]
    if command not in _COMMANDS:
        return None
    options, paths, into = list[str](), list[str](), ""
    rest = iter(words[1:])
    for word in rest:
        if word in ("-t", "--target-directory"):
            into = next(rest, "")
        elif word.startswith("--target-directory="):
            into = word.partition("=")[2]
        elif word in _COMMANDS[command]:
            next(rest, "")
        elif word.startswith("-") and len(word) > 1:
            options.append(word)
        else:
            paths.append(word)
    ends = [next((end for end in reversed(_CONTENT) if path.endswith(end)), "") for path in paths]
    return Placing(
        command=command,
        options=tuple(options),
        paths=tuple(spell(path.removesuffix(end) or "/") for path, end in zip(paths, ends, strict=True)),
        ends=tuple(ends),
        into=spell(into) if into else "",
        location=location,
        certain=certain,
    )


class Placements:
    """The folders that have another content, after the commands of a script in their order.

    Args:
        is_folder: whether a path leads to a folder before the script has run.
    """

    def __init__(self, placings: Iterable[Placing], is_folder: Callable[[str], bool]) -> None:
        self._is_folder = is_folder
        self._places: dict[str, tuple[str, Placing]] = {}  # what a path leads to
        self._gone: set[str] = set()
        self._made: set[str] = set()
        for number, one in enumerate(placings):
            if number >= _MOST:
                break
            self._follow(one)

    def origin(self, path: str) -> str:
        """The path as it was before the script ran."""
        above = path
        while above not in self._places:
            above = above.rpartition("/")[0]
            if not above:
                return path
        return self._places[above][0] + path[len(above) :]

    def packages(self, search: Sequence[str]) -> Iterator[PlacedPackage]:
        """The placed folders that Python may import, those that it comes to first before the others.

        Args:
            search: the folders in which it looks, the first that has a package wins.
        """
        whole = list(self._whole_folders(search))
        search = [self.origin(folder) for folder in search]
        for path, (source, command) in self._places.items():
            folder, name = _parted(path)
            if name.isidentifier():
                place = search.index(folder) if folder in search else len(search)
                whole.append(
                    (place, _package(name, source, folder, search[:place], command, folder in search))
                )
        yield from (package for _place, package in sorted(whole, key=lambda one: one[0]))

    def _whole_folders(self, search: Sequence[str]) -> Iterator[tuple[int, PlacedPackage]]:
        """Folders in which Python looks and that are placed themselves."""
        for place, folder in enumerate(search):
            if folder in self._places:
                source, command = self._places[folder]
                yield place, _package("", source, folder, search[:place], command, True)

    def _follow(self, one: Placing) -> None:
        if one.command == "mkdir":
            self._made.update(one.paths)
        elif one.command == "rm":
            for path in one.paths:
                self._take_away(path)
        elif one.paths:
            for source, place in self._placed(one):
                origin = self.origin(source)
                if one.command == "mv":
                    self._take_away(source)
                self._places[place] = origin, one
                self._gone.discard(place)

    def _placed(self, one: Placing) -> Iterator[tuple[str, str]]:
        """The sources of a command, and what they are called behind it."""
        *sources, target = one.paths if len(one.paths) > 1 or one.into else (*one.paths, _HERE)
        if one.into:
            sources, target = list(one.paths), one.into
        end = "" if one.into or len(one.paths) < 2 else one.ends[-1]
        inside = bool(one.into) or len(sources) > 1 or self._is_entered(one, target, end)
        for source, source_end in zip(sources, one.ends, strict=False):
            content = source_end in _CONTENT[1:] or (one.command == "rsync" and source_end == _CONTENT[0])
            name = _parted(source)[1]
            if content and len(sources) > 1:
                continue  # which of them has a file is not asked
            yield source, normpath(f"{target}/{name}") if inside and not content else target

    def _is_entered(self, one: Placing, target: str, end: str) -> bool:
        """Whether the last path is a folder that gets the source under its own name."""
        if one.command == "rsync" or target == _HERE:
            return True
        if target in self._places and one.keeps_name:
            return False
        there = target in self._made or _TEMPORARY in _parted(target)[1] or self._is_there(target)
        return there and "T" not in "".join(word for word in one.options if not word.startswith("--"))

    def _is_there(self, path: str) -> bool:
        return path not in self._gone and (path in self._places or self._is_folder(path))

    def _take_away(self, path: str) -> None:
        self._places.pop(path, None)
        self._made.discard(path)
        self._gone.add(path)


def _parted(path: str) -> tuple[str, str]:
    """The folder and the name of a path."""
    folder, slash, name = path.rpartition("/")
    return (folder or slash or _HERE), name


def _package(
    name: str, source: str, folder: str, before: Sequence[str], command: Placing, listed: bool
) -> PlacedPackage:
    ahead = tuple(above for above in before if above.startswith("/"))
    return PlacedPackage(
        name=name,
        source=source,
        folder=folder,
        ahead=ahead,
        listed=listed,
        location=command.location,
        certain=command.certain,
    )
