"""Which keys decide a field of a workload, as the tables of fields have it."""

from collections.abc import Iterator, Mapping

from tuner.inputs.settings import Settings
from tuner.trainers.fields import (
    Plain,
)
from tuner.trainers.verl.fields.conversation import MEANINGS as TALKS
from tuner.trainers.verl.parts import parts
from tuner.trainers.verl.source import ReleaseSettings, source_of
from tuner.trainers.workload_part import Path, WorkloadPart
from tuner.workload import Workload

_CONVERSATION: Path = ("batch", "conversation")  # which no row of a table reads


def keys_of_fields(settings: Settings, workload: Workload, *, version: str) -> Mapping[Path, tuple[str, ...]]:
    """The keys that decide each field of a workload, by its path; fields that no key decides are not there.

    Args:
        settings: the loaded settings.
        workload: what was read from them.
        version: the release that they were read for.
    """
    source = source_of(settings, version)
    of_parts = {
        path: keys for part in parts(source, workload) for path, keys in _of_part(part, source, workload)
    }
    return {**of_parts, _CONVERSATION: tuple(filter(None, map(source.key, TALKS)))}


def _of_part(
    part: WorkloadPart, source: ReleaseSettings, workload: Workload
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    value = part.of(workload)
    if value is None:
        return
    of_part = source if part.context is None else part.context.source  # whose section it is
    for field in part.fields:
        try:
            if isinstance(field, Plain):
                meanings = [field.key_meaning(part.context)]
            else:
                meanings = [meaning for meaning, _value in field.assignments(part.context, value)]
        except ValueError:  # nothing would give the field this value
            continue
        keys = tuple(key for key in map(of_part.key, dict.fromkeys(meanings)) if key is not None)
        if keys:
            yield (*part.path, *field.path.split(".")), keys
