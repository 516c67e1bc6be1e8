"""How many rows the validation data have that a launch names as verl's own preparation calls them.

Each of these programs writes ``train.parquet`` and ``test.parquet`` into a folder of its data's name, with
every row of the splits. A file of that name may have other rows: what is said of it names the data.

Source: verl 0.3.0 to 0.9.1 ``examples/data_preprocess/gsm8k.py``, ``math_dataset.py`` and ``geo3k.py``
(``load_dataset``, ``map``, ``to_parquet``); the data's cards on huggingface.co: openai/gsm8k,
DigitalLearningGmbH/MATH-lighteval, hiyouga/geometry3k.
"""

from pathlib import PurePosixPath

from msgspec import Struct

from tuner.inputs.settings import Settings

_FILES = "data.val_files"
_TEST = "test.parquet"
_DATA = {"gsm8k": ("GSM8K", 1319), "math": ("MATH", 5000), "geo3k": ("Geometry3K", 601)}


class NamedData(Struct, frozen=True, kw_only=True):
    """Well-known validation data, and how many rows they have."""

    names: tuple[str, ...]
    rows: int


def named_validation_data(settings: Settings) -> NamedData | None:
    """The validation data by the names of their files; None where one of these is not known."""
    files = settings.get(_FILES) if settings.is_set(_FILES) else None
    paths = [files] if isinstance(files, str) else files
    if not isinstance(paths, list) or not paths:
        return None
    known = [_known_data(path) for path in paths]
    if any(data is None for data in known):
        return None
    told = [data for data in known if data is not None]
    return NamedData(names=tuple(name for name, _rows in told), rows=sum(rows for _name, rows in told))


def _known_data(path: object) -> tuple[str, int] | None:
    """The data of a file that is the test split in a folder of their name."""
    file = PurePosixPath(path if isinstance(path, str) else "")
    return _DATA.get(file.parent.name.lower()) if file.name == _TEST else None
