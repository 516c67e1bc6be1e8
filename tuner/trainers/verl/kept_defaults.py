"""Composed copies of verl's defaults, kept between runs in the user's cache folder.

Composing one and finding the release that it is most like takes a third of a run. A kept one counts as long
as no file that it was read from has changed, nor one has appeared that was looked for in vain.
What may hold a secret is not kept.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path as FilePath

from msgspec import DecodeError, MsgspecError, Struct
from msgspec.json import decode, encode

import tuner
from tuner.cache_files import cache_folder, keep, read_kept
from tuner.file_state import FileState, are_settled, file_state
from tuner.inputs.secrets import hidden_value, is_carried
from tuner.inputs.tree import Path, Tree
from tuner.trainers.verl.defaults import read_defaults
from tuner.trainers.verl.fingerprint import Likeness
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.trainer_code.kept_answers import FOLDER, MOST_FILES

_READING = (  # modules that decide what is read from the files of a copy
    "files.py",
    "inputs/convert.py",
    "inputs/secrets/*.py",
    "inputs/tree.py",
    "inputs/yaml_file.py",
    "inputs/yaml_nodes.py",
    "trainers/verl/composition.py",
    "trainers/verl/defaults_entries.py",
    "trainers/verl/fingerprint.py",
    "trainers/verl/kept_defaults.py",
    "trainers/verl/oldest_by_code.py",
)


class KeptDefaults(Struct, frozen=True, kw_only=True):
    """A composed copy, the release that it is most like, and the files that decided this."""

    tree: Tree
    version: str
    oldest_by_code: str = ""
    lacking: tuple[Path, ...]  # as :class:`Likeness` has them
    added: tuple[Path, ...]
    changed: tuple[Path, ...]
    states: dict[str, FileState]  # of files by name, those that are not there among them

    def likeness(self, config: str) -> Likeness:
        """The copy beside the release."""
        released = dict(read_defaults(self.version, config).tree)
        likeness = Likeness(
            version=self.version, tree=self.tree, released=released, oldest=self.oldest_by_code
        )
        # Where a cached property looks first: comparing takes longer than all that is read here.
        vars(likeness).update(lacking=self.lacking, added=self.added, changed=self.changed)
        return likeness


def kept_defaults(file: FilePath, config: str) -> KeptDefaults | None:
    """What is kept of a copy; None where nothing is, or something has changed since."""
    place = _place(file, config)
    text = None if place is None else read_kept(place)
    if text is None:
        return None
    try:
        kept = decode(text, type=KeptDefaults)
    except DecodeError:
        return None
    if kept.version not in BUNDLED or any(file_state(name) != state for name, state in kept.states.items()):
        return None
    return kept


def keep_defaults(file: FilePath, config: str, likeness: Likeness, states: Mapping[str, FileState]) -> None:
    """Keep a copy for the next run, unless a file was just written or a value is not to be kept."""
    place = _place(file, config)
    if place is None or not are_settled(states.values()) or hidden_value("", likeness.tree) != likeness.tree:
        return
    kept = KeptDefaults(
        tree=likeness.tree,
        version=likeness.version,
        oldest_by_code=likeness.oldest,
        lacking=likeness.lacking,
        added=likeness.added,
        changed=likeness.changed,
        states=dict(states),
    )
    try:
        text = encode(kept).decode()
        if decode(text, type=KeptDefaults) != kept:  # as an infinite number
            return
    except (MsgspecError, ValueError, OverflowError):  # as a number that is too large
        return
    keep(place, text, most=MOST_FILES)


def _place(file: FilePath, config: str) -> FilePath | None:
    root = None if is_carried() else cache_folder(FOLDER)
    if root is None:
        return None
    place = "\0".join((str(file), config, *BUNDLED, _reading()))
    return root / f"{sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()}.json"


@cache
def _reading() -> str:
    """A hash of the code that reads: other code may read something else."""
    package = FilePath(tuner.__file__).parent
    files = (file for pattern in _READING for file in sorted(package.glob(pattern)))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
