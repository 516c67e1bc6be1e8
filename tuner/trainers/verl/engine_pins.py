"""The rollout engine that the repository of a launch pins, and the release of verl which that bounds.

Where no copy of verl and no pin of it is there, the engine beside it tells what the launch was written for:
a release runs with the engines that its requirements allow, and with no others.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes, repository_folders
from tuner.language import _
from tuner.serving.names import NAMES, PACKAGES
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.rollout_engine_versions import EnginePin, newest_release_with
from tuner.trainers.verl.trainer_code.requirements import newest_required
from tuner.units import MIB
from tuner.versions import at_least
from tuner.workload import RolloutEngine

_ENGINES = (RolloutEngine.VLLM, RolloutEngine.SGLANG)
_VERSION = r"v?(\d+(?:\.\d+){1,3}(?:[.-]?post\d+)?)"
_INSTALLED = r"\bpip3?\s+install\b[^\n#]*?\bPACKAGE(?:\[[\w,\s-]*\])?==" + _VERSION
_IMAGE = r"^FROM\s+\S*\bPACKAGE(?:-openai)?[:_-]?" + _VERSION
#: The files of a folder, by the forms in which they name an engine.
_NAMED_IN = (("Dockerfile*", (_IMAGE, _INSTALLED)), ("README*", (_INSTALLED,)))

#: verl since then asks for a newer tensordict than older ones allow: METADATA of its wheels.
_TENSORDICT_SINCE, _OLDEST_TENSORDICT = "0.5.0", "0.8.0"


def release_with(pin: EnginePin) -> ReleaseChoice | None:
    """The newest bundled release that runs with a pinned engine; None where none does."""
    releases = [one for one in BUNDLED if not pin.below or not at_least(one, pin.below)]
    version = newest_release_with(pin.engine, pin.version, releases)
    if version is None:
        return None
    reason = _("the newest that allows {engine} {version}, which {file} pins")
    return ReleaseChoice(
        version=version,
        reason=reason.format(engine=NAMES[pin.engine], version=pin.version, file=pin.file),
    )


def pinned_engine(folder: str) -> EnginePin | None:
    """The engine that the repository around a folder pins, the nearest first; None where it pins none.

    Args:
        folder: in which the launch lies; empty where nobody says.
    """
    for above in repository_folders(Path(folder).absolute()) if folder else ():
        for engine in _ENGINES:
            pin = next(_pins(above, engine), None)
            if pin is not None:
                return pin
    return None


def _pins(folder: Path, engine: RolloutEngine) -> Iterator[EnginePin]:
    """What a folder's files say of an engine, what they need before how it is installed."""
    package = PACKAGES[engine]
    required = newest_required(folder, package)
    tensors = newest_required(folder, "tensordict")
    older = tensors is not None and not at_least(tensors.version, _OLDEST_TENSORDICT)
    below = _TENSORDICT_SINCE if older else ""
    if required is not None and required.pinned:
        yield EnginePin(engine=engine, version=required.version, file=required.file, below=below)
    for names, forms in _NAMED_IN:
        for file in sorted(folder.glob(names)):
            text = _text(file)
            for form in forms:
                found = re.search(
                    form.replace("PACKAGE", re.escape(package)), text, re.MULTILINE | re.IGNORECASE
                )
                if found is not None:
                    place = f"{folder.name}/{file.name}"
                    yield EnginePin(engine=engine, version=found[1], file=place, below=below)


def _text(file: Path) -> str:
    try:
        return read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return ""
