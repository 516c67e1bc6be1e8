"""A configuration of the user's own without a ``defaults`` list: Hydra has nothing but what stands in it.

Keys that the release has and such a file lacks are read from the release, since the estimate needs them; an
override without ``+`` of one of them is refused all the same.

Source: verl 0.4.1 ``examples/split_placement/config/ppo_trainer_split.yaml``, composed so.
"""

from collections.abc import Iterable

from msgspec import Struct

from tuner.inputs.overrides import Override, OverrideKind
from tuner.inputs.settings import UnknownKey
from tuner.inputs.tree import Tree, contains, dotted, merged, nested, split_key
from tuner.inputs.yaml_file import Document
from tuner.shown_paths import shown_path

_ADDS = (OverrideKind.ADD, OverrideKind.FORCE_ADD)


class WholeConfiguration(Struct, frozen=True, kw_only=True):
    """What Hydra has once the overrides are laid on it, and those that it refuses."""

    tree: Tree
    refused: tuple[UnknownKey, ...]


def whole_configuration(
    document: Document, overrides: Iterable[Override], *, takes_any: bool = False
) -> WholeConfiguration:
    """The configuration of a file that rests on no other.

    Args:
        document: the file.
        overrides: of the launch, in their order.
        takes_any: a program lays them on the file without Hydra, which would refuse new ones.
    """
    tree: Tree = {key: value for key, value in document.tree.items() if key != "hydra"}
    refused: list[UnknownKey] = []
    for override in overrides:
        if override.package is not None or "/" in override.key:
            continue
        path = split_key(override.key)
        if not (takes_any or override.kind in _ADDS or contains(tree, path)):
            refused.append(
                UnknownKey(
                    key=dotted(path),
                    nearest=None if override.kind is OverrideKind.DELETE else f"+{dotted(path)}",
                    location=override.location,
                    refused=True,
                    reader=shown_path(document.source),
                )
            )
        elif override.kind is not OverrideKind.DELETE:
            tree = merged(tree, nested(path, override.value))
    return WholeConfiguration(tree=tree, refused=tuple(refused))
