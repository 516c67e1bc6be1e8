"""What a user gave of NeMo-RL: a file with those it inherits from, and overrides in Hydra's grammar."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location, TunerError, UnsupportedError
from tuner.inputs.overrides import Override, OverrideKind, on_command_line, parse_overrides
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import contains, leaves, merged
from tuner.inputs.user_input import Remark
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.layers import Layers
from tuner.trainers.nemo_rl import placeholders
from tuner.trainers.nemo_rl.algorithms import READ, algorithm_of
from tuner.trainers.nemo_rl.detection import ALGORITHMS
from tuner.trainers.nemo_rl.exemplars import GRPO, exemplars
from tuner.trainers.nemo_rl.inheritance import InheritedFiles, compose, composed, replaces
from tuner.trainers.nemo_rl.loaded import LoadedNemoConfiguration
from tuner.trainers.nemo_rl.releases import RELEASES
from tuner.trainers.protocol import Base, Trainer
from tuner.trainers.schema import Schema

if TYPE_CHECKING:
    from tuner.inputs.user_input import Count


class NemoConfiguration(Struct, frozen=True, kw_only=True):
    """A file and overrides, not yet laid on a release.

    Its members are those of :class:`tuner.trainers.protocol.Configuration`, where they are described.
    """

    document: Document | None
    overrides: tuple[Override, ...]

    @property
    def trainer(self) -> Trainer:  # noqa: D102
        from tuner.trainers import nemo_rl  # which imports this module

        return nemo_rl

    @property
    def release(self) -> ReleaseChoice | None:
        """The newest release whose examples have every key and every parent that the file names."""
        if self.document is None:
            return None
        having = tuple(version for version in RELEASES.versions if self._has_all(version))
        return RELEASES.newest_of(having) if having else None

    @property
    def processes_per_node(self) -> "Count | None":  # noqa: D102
        return None

    def remarks(self, version: str) -> tuple[Remark, ...]:  # noqa: D102
        return placeholders.remarks(self.on(version).settings)

    def adding(self, overrides: Sequence[str]) -> "NemoConfiguration":  # noqa: D102
        more = parse_overrides(on_command_line(overrides)).overrides
        return replace(self, overrides=(*self.overrides, *more))

    def on(self, version: str) -> LoadedNemoConfiguration:  # noqa: D102
        composition = self._composition(version)
        layers = _laid(composition, version)
        for override in self.overrides:
            layers.add_override(override)
        _expect_read(layers.tree, self.document)
        settings = Settings(
            tree=layers.tree,
            defaults=composition.defaults,
            origins=layers.origins,
            default_origin=Origin(layer=Layer.DEFAULT, text=_origin(composition, version)),
            unknown=tuple(layers.unknown()),
        )
        return LoadedNemoConfiguration(
            settings=settings, version=version, base=Base(name=composition.base or "NeMo-RL")
        )

    def _composition(self, version: str) -> InheritedFiles:
        if self.document is not None:
            return compose(self.document, version)
        return InheritedFiles(documents=(), defaults=composed(GRPO, version), base=GRPO)

    def _has_all(self, version: str) -> bool:
        assert self.document is not None
        try:
            composition = compose(self.document, version)
        except TunerError:  # which laying it on a release tells
            return False
        known = _keys_of_examples(version)
        paths = (path for one in composition.documents for path, _value in leaves(one.tree) if path)
        return all(_stands(known, path) for path in paths)


def _stands(known: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether an example has a key, or a section of free form that holds it."""
    node: Any = known
    for name in path:
        if not isinstance(node, dict) or not node:
            return True
        if name not in node:
            return False
        node = node[name]
    return True


def _laid(composition: InheritedFiles, version: str) -> Layers:
    """The user's files laid on the example, a section that says so in the place of the one below."""
    layers = Layers(composition.defaults, Schema(composition.defaults, takes_any=lambda _path: True))
    for document in composition.documents:
        for section, value in document.tree.items():
            if replaces(value) and contains(layers.tree, (section,)):
                layers.add_override(_taking_away(section, document.location(section)))
        layers.add_document(document, declares=True)
    return layers


def _taking_away(section: str, location: Location) -> Override:
    return Override(
        kind=OverrideKind.DELETE,
        key=section,
        package=None,
        value=None,
        text=f"~{section}",
        location=location,
    )


def _keys_of_examples(version: str) -> Mapping[str, Any]:
    tree: dict[str, Any] = {}
    for name in exemplars(version):
        tree = merged(tree, composed(name, version))
    return tree


def _origin(composition: InheritedFiles, version: str) -> str:
    if not composition.base:
        return _("default of NeMo-RL {version}").format(version=version)
    return _("{file} of NeMo-RL {version}").format(file=composition.base, version=version)


def _expect_read(tree: Mapping[str, Any], document: Document | None) -> None:
    """Refuse a job without an algorithm that is read.

    Raises:
        UnsupportedError: it is one of another algorithm.
    """
    if algorithm_of(tree) is not None:
        return
    other = next((name for name in ALGORITHMS if isinstance(tree.get(name), dict)), None)
    message = (
        _("jobs of {algorithm} are not modelled for NeMo-RL").format(algorithm=other)
        if other is not None
        else _("no section says by which algorithm the job learns")
    )
    location = None if document is None else document.location(*(() if other is None else (other,)))
    raise UnsupportedError(
        message,
        location=location,
        key=other,
        hint=_("those that have a section {sections} are").format(sections=_(" or ").join(READ)),
    )
