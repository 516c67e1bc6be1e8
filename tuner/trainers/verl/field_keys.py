"""Which keys decide a field of a workload, as the tables of fields have it."""

from collections.abc import Mapping

from tuner.inputs.settings import Settings
from tuner.trainers.verl.fields.conversation import MEANINGS as TALKS
from tuner.trainers.verl.parts import parts
from tuner.trainers.verl.source import source_of
from tuner.trainers.workload_part import Path
from tuner.trainers.workload_part import keys_of_fields as fields_of_parts
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
    of_parts = fields_of_parts(parts(source, workload), source, workload)
    return {**of_parts, _CONVERSATION: tuple(filter(None, map(source.key, TALKS)))}
