"""Follows the ``defaults`` of a configuration of NeMo-RL: paths of files, the later laid on the earlier.

Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/utils/config.py`` (``load_config_with_inheritance``,
``merge_with_override``).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError
from tuner.files import is_there
from tuner.inputs.tree import Tree, merged
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.trainers.nemo_rl.exemplars import FOLDER, exemplars

_REPLACES = "_override_"  # in a section: it takes the place of the one below, key by key is not merged
_DEFAULTS = "defaults"
_MOST_FILES = 64  # that name one another


class InheritedFiles(Struct, frozen=True, kw_only=True):
    """A user's files, lowest first, and NeMo-RL's own example below them."""

    documents: tuple[Document, ...]
    defaults: Tree
    base: str  # the name of that example; empty where the files rest on none


def parents_in(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that a configuration names as those it inherits from, in the order they are laid."""
    named = tree.get(_DEFAULTS)
    if isinstance(named, str):
        return (named,)
    return tuple(map(str, named)) if isinstance(named, list) else ()


def inherited(base: Tree, own: Mapping[str, Any]) -> Tree:
    """A configuration laid on another one.

    A section of the top that says ``_override_: true`` takes the place of the other's.
    """
    kept = {key: value for key, value in base.items() if not replaces(own.get(key))}
    laid: Tree = merged(kept, {key: _without_mark(value) for key, value in own.items()})
    return laid


def replaces(section: Any) -> bool:
    """Whether a section says that it takes the place of the one below."""
    return isinstance(section, dict) and bool(section.get(_REPLACES))


def _without_mark(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: below for key, below in value.items() if key != _REPLACES}


def composed(name: str, version: str, above: tuple[str, ...] = ()) -> Tree:
    """An example of a release with those that it inherits from.

    Args:
        name: of its file.
        version: the release.
        above: the names of those that inherit from it, which it does not inherit from again.

    Raises:
        KeyError: the release has no example of this name.
    """
    own = exemplars(version)[name]
    tree: Tree = {}
    for parent in parents_in(own):
        below = Path(parent).name
        if below not in (*above, name):
            tree = inherited(tree, composed(below, version, (*above, name)))
    return inherited(tree, {key: value for key, value in own.items() if key != _DEFAULTS})


def compose(document: Document, version: str) -> InheritedFiles:
    """The files of a configuration, with those that it inherits from.

    A parent that is one of NeMo-RL's own examples is read where it lies, and taken from the release that is
    bundled where it is not there.

    Raises:
        InputError: a file is malformed, is neither there nor one of the release's, or too many follow.
    """
    return _Files(version).composition(document)


class _Files:
    """The files that name one another, each read where it is named."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._read = 0

    def composition(self, document: Document) -> InheritedFiles:
        """See :func:`compose`."""
        documents: tuple[Document, ...] = ()
        tree: Tree = {}
        base = ""
        for parent in parents_in(document.tree):
            below = self._parent(parent, document)
            if isinstance(below, str):
                base = below
                tree = inherited(tree, composed(below, self._version))
            else:
                tree, base = inherited(tree, below.defaults), below.base or base
                documents += below.documents
        own = {key: value for key, value in document.tree.items() if key != _DEFAULTS}
        return InheritedFiles(documents=(*documents, replace(document, tree=own)), defaults=tree, base=base)

    def _parent(self, named: str, document: Document) -> InheritedFiles | str:
        """What one file that is named brings: an example of the release by its name, or files."""
        self._read += 1
        file = Path(document.source).parent / named
        if self._read > _MOST_FILES:
            raise self._error(document, _("more than {most} files name one another").format(most=_MOST_FILES))
        if file.name in exemplars(self._version) and _is_own(file):
            return file.name
        if is_there(file, Path.is_file):
            return self.composition(read_yaml(file))
        if file.name in exemplars(self._version):
            return file.name
        raise self._error(
            document,
            _("{named} is not there, and NeMo-RL {version} has no example of that name").format(
                named=named, version=self._version
            ),
        )

    def _error(self, document: Document, message: str) -> InputError:
        return InputError(
            message,
            location=document.location(_DEFAULTS),
            key=_DEFAULTS,
            hint=_("give the file where its parents lie beside it, or write their keys into it"),
        )


def _is_own(file: Path) -> bool:
    """Whether a file lies where a checkout of NeMo-RL has its examples, so that it is the release's own."""
    parts = Path(*[part for part in file.parts if part != "."]).resolve().parts
    return parts[-3:-1] == FOLDER
