"""Test sets whose size is known, by the names that their files have.

A file of such a name may have other rows: what is said of it names the data.

Source: verl 0.3.0 to 0.9.1 ``examples/data_preprocess/gsm8k.py``, ``gsm8k_multiturn_w_tool.py``,
``math_dataset.py`` and ``geo3k.py`` (``load_dataset``, ``map``, ``to_parquet``: every row of the split); the
cards of the data on huggingface.co: openai/gsm8k, DigitalLearningGmbH/MATH-lighteval, hiyouga/geometry3k,
Maxwell-Jia/AIME_2024, math-ai/aime25, HuggingFaceH4/MATH-500, math-ai/amc23.
"""

import re
from pathlib import PurePosixPath

_TEST = "test"
_PREPARED = (  # by verl's own programs, which write ``test.parquet`` into a folder that begins with the name
    ("gsm8k", "GSM8K", 1319),
    ("geo3k", "Geometry3K", 601),
)
_FOLDERS = {"math": ("MATH", 5000)}
_UNSURE = ("aime-2024.parquet",)  # DAPO's has each question many times; no source here says how many
_NAMES = {
    "aime": ("AIME", 30),
    "aime24": ("AIME 2024", 30),
    "aime2024": ("AIME 2024", 30),
    "aime25": ("AIME 2025", 30),
    "aime2025": ("AIME 2025", 30),
    "math500": ("MATH-500", 500),
    "amc23": ("AMC 2023", 40),
}
_SPLIT = "test|train|dev|val|valid|validation|eval"  # AIME's one split is called train
_OF_SPLIT = re.compile(f"(?:{_SPLIT})?(.+?)(?:{_SPLIT})?")


def known_test_set(file: str) -> tuple[str, int] | None:
    """The data and their rows that a file has by its name; None of any other name."""
    path = PurePosixPath(file)
    if path.name in _UNSURE:
        return None
    folder = path.parent.name.lower()
    if path.name == f"{_TEST}.parquet":
        prepared = next(((name, rows) for start, name, rows in _PREPARED if folder.startswith(start)), None)
        if prepared is not None or folder in _FOLDERS:
            return prepared or _FOLDERS[folder]
    generic = re.fullmatch(_SPLIT, path.stem.lower()) is not None
    return _NAMES.get(_plain(folder if generic else path.stem.lower()))


def _plain(name: str) -> str:
    """A name without signs between its parts, and without that of a split."""
    letters = re.sub("[^a-z0-9]", "", name)
    of_split = _OF_SPLIT.fullmatch(letters)
    return letters if of_split is None else of_split[1]
