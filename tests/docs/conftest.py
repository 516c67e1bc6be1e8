"""The extensions of the documentation are found as its build finds them."""

import sys
from collections.abc import Iterator

import pytest

from tests.cli.runner import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))


@pytest.fixture(scope="module", autouse=True)
def answers_of_the_build() -> Iterator[None]:
    """What a build of the same sources has kept, such as the calculator's script, is not computed again."""
    from kept_answers import kept_by_a_build  # found from here on

    with kept_by_a_build():
        yield
