"""Finds the configuration in what a run leaves behind: Hydra's ``.hydra`` folder, and the files of wandb.

Hydra writes ``config.yaml`` (all settings), ``overrides.yaml`` (what was typed) and ``hydra.yaml`` (its own
settings) into ``.hydra`` of the run's folder. wandb writes ``config.yaml``, each section under ``value:``,
beside ``wandb-summary.json`` and ``wandb-metadata.json``, into ``files`` of the run's folder.

Source: hydra 1.3.2, ``hydra/core/utils.py``; wandb 0.19, ``wandb/sdk/lib/config_util.py``.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there
from tuner.inputs.overrides import Argument
from tuner.inputs.secrets import taken_override, taken_value
from tuner.inputs.tree import Path as Keys
from tuner.inputs.tree import Tree
from tuner.inputs.yaml_file import Document, parse_list
from tuner.language import _

HYDRA = ".hydra"
_CONFIG = "config.yaml"
_OVERRIDES = "overrides.yaml"
_WANDB = ("wandb-summary.json", "wandb-metadata.json")
_WANDB_KEYS = ("_wandb", "wandb_version")
_DEPTH = 3  # of folders: outputs/DATE/TIME/.hydra, wandb/RUN/files
_MOST_ENTRIES = 20_000
_LISTED = 10  # runs in one message


def configuration_in(folder: Path) -> Path:
    """The file with the configuration of the one run that a folder holds.

    Raises:
        InputError: the folder holds no run, or several, or cannot be read.
    """
    from tuner.inputs.record.read import configuration_of_record, is_record  # few folders are one

    if is_record(folder):
        return configuration_of_record(folder)
    place = Location(source=str(folder))
    runs = list(dict.fromkeys(_runs(folder)))
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise InputError(
            _("is a directory that holds no run: no .hydra and no files of wandb"),
            location=place,
            hint=_("give the YAML file or the launch script in it"),
        )
    listed = ", ".join(str(run) for run in runs[:_LISTED])
    more = "" if len(runs) <= _LISTED else ", ..."
    raise InputError(
        _("is a directory that holds {count} runs").format(count=len(runs)),
        location=place,
        hint=_("give one of them: {runs}").format(runs=listed + more),
    )


def is_run(folder: Path) -> bool:
    """Whether a folder is that of one run, and not one of folders and files."""
    from tuner.inputs.record.read import is_record

    return is_record(folder) or _run_of(folder) is not None


def run_configuration(document: Document) -> Path | None:
    """The file with the configuration of the run of which this is another file; None where it is none.

    Raises:
        InputError: it is such a file, and the configuration is not beside it.
    """
    file = Path(document.source)
    if not _is_hydra_own(document.tree) and file.name not in _WANDB:
        return None
    config = file.with_name(_CONFIG)
    if is_there(config, Path.is_file):
        return config
    raise InputError(
        _("this file of a run holds no configuration, and {name} is not beside it").format(name=_CONFIG),
        location=Location(source=document.source),
        hint=_("give the run's config.yaml"),
    )


def unwrapped(document: Document) -> Document:
    """The configuration that wandb has kept, without what it puts around it; any other as it is."""
    if not is_wandb(document.tree):
        return document
    unwrapped_tree = {
        key: taken_value(key, entry["value"])  # "value" is all that the reader saw of its name
        for key, entry in document.tree.items()
        if key not in _WANDB_KEYS and isinstance(entry, dict) and "value" in entry
    }
    locations: dict[Keys, Location] = {}
    for path, place in document.locations.items():
        if path[0] in unwrapped_tree and path[1:2] == ("value",):
            locations[path[:1] + path[2:]] = place
    return replace(document, tree=unwrapped_tree, locations=locations)


def typed_overrides(text: str, *, source: str) -> tuple[Argument, ...] | None:
    """The overrides of a run, which Hydra keeps as a list of text; None of YAML that is no list.

    Raises:
        InputError: it is not valid YAML, or an entry is not text.
    """
    listed = parse_list(text, source=source) if text.lstrip().startswith(("-", "[")) else None
    if listed is None:
        return None
    entries, document = listed
    arguments = []
    for number, entry in enumerate(entries):
        place = document.location(str(number))
        if not isinstance(entry, str):
            raise InputError(
                _("an entry of the list is no override"),
                location=place,
                hint=_("give a mapping of keys to values, or a list of texts such as key=value"),
            )
        arguments.append(Argument(text=taken_override(entry), location=place))
    return tuple(arguments)


def _runs(folder: Path) -> Iterator[Path]:
    """The configurations of all runs in a folder, each as it would be given."""
    own = _run_of(folder)
    if own is not None:
        yield own
        return
    latest = folder / "latest-run"  # wandb's link to the last one
    if (run := _run_of(latest)) is not None:
        yield run
        return
    visited = 0
    for here, names, _files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        visited += len(names)
        names[:] = [] if depth >= _DEPTH or visited > _MOST_ENTRIES else sorted(names)
        run = _run_of(Path(here))
        if run is not None:
            names[:] = []
            yield run


def _run_of(folder: Path) -> Path | None:
    """The configuration of the run whose own folder this is."""
    for inside in (folder / HYDRA, folder):
        if inside.name == HYDRA or is_there(inside / "hydra.yaml", Path.is_file):
            for name in (_CONFIG, _OVERRIDES):
                if is_there(inside / name, Path.is_file):
                    return inside / name
    for inside in (folder / "files", folder):
        if is_there(inside / _CONFIG, Path.is_file) and any(
            is_there(inside / name, Path.is_file) for name in _WANDB
        ):
            return inside / _CONFIG
    return None


def _is_hydra_own(tree: Tree) -> bool:
    """Whether it is ``hydra.yaml``: nothing but the settings of Hydra itself, composed."""
    own = tree.get("hydra")
    return list(tree) == ["hydra"] and isinstance(own, dict) and "runtime" in own


def is_wandb(tree: Tree) -> bool:
    """Whether it is a configuration as wandb keeps it, with each section under ``value``."""
    wrapped = [
        isinstance(entry, dict) and "value" in entry and entry.keys() <= {"value", "desc"}
        for key, entry in tree.items()
        if key not in _WANDB_KEYS
    ]
    return bool(wrapped) and all(wrapped)
