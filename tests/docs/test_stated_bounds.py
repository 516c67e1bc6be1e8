"""The bounds on what is read, as the page on inputs states them, are those of the code."""

from pathlib import Path

import pytest

from tuner.inputs import yaml_file, yaml_nodes
from tuner.inputs.log.lines import END_BYTES
from tuner.nesting import MAX_DEPTH
from tuner.review import paths
from tuner.trainers.verl import defaults_files
from tuner.units import KIB, MIB

PAGE = Path(__file__).parents[2] / "docs/inputs.rst"


@pytest.mark.parametrize(
    "sentence",
    [
        f"Lists of more than {defaults_files.MOST_LEVELS} files that name one another in a row,"
        f" of more than {defaults_files.MOST_ENTRIES:,} entries,"
        f" or of files with more than {defaults_files._MOST_CHARACTERS // KIB} KiB together are refused.",
        f"A file of more than {yaml_file.MAX_BYTES // MIB} MiB or {yaml_nodes.MAX_VALUES:,} keys and values,"
        f" and what is nested deeper than {MAX_DEPTH} levels, be it by aliases, is no configuration.",
        f"Of a log beyond {2 * END_BYTES // MIB} MiB both ends are read,",
        f"A pattern that matches more than {paths._MOST_FILES:,} files is refused, and so is a folder with"
        f" more than {paths._MOST_SEEN:,} files, or {paths._MOST_FILES:,} that may be configurations.",
    ],
)
def test_the_page_states_the_bound(sentence: str) -> None:
    assert sentence in PAGE.read_text(encoding="utf-8")
