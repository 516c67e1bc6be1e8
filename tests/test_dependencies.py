"""What is imported is declared, and pages name the versions of Python that ``requires-python`` allows."""

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from tests.test_distribution import PROJECT, ROOT

# Modules that are called otherwise than the package that brings them.
MODULES = {"hydra-core": "hydra", "nvidia-ml-py": "pynvml", "pyyaml": "yaml"}

# What the processes of a job import of what the job brings; no extra of ours asks for it.
OF_THE_JOB = {"numpy", "verl"}
_INSIDE_A_JOB = "tuner/inside_verl/"


def declared(requirements: list[str]) -> set[str]:
    """The modules of the packages that are asked for."""
    names = [re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in requirements]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def imported() -> Iterator[tuple[str, str]]:
    """Top-level modules that the package imports from elsewhere, each with a file that does."""
    for path in sorted((ROOT / "tuner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            else:
                continue
            for top in {name.partition(".")[0] for name in names}:
                if top not in sys.stdlib_module_names and top != "tuner":
                    yield top, path.relative_to(ROOT).as_posix()


def test_every_import_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    known = declared(PROJECT["dependencies"])
    known |= declared([one for extra in ("gpu", "trace", "ray", "mcp") for one in extras[extra]])
    used = set(imported())
    job = {(name, file) for name, file in used if name in OF_THE_JOB and file.startswith(_INSIDE_A_JOB)}
    assert len(used) > 400
    assert {(name, file) for name, file in used - job if name not in known} == set()


def test_every_dependency_of_all_is_imported() -> None:
    assert declared(PROJECT["dependencies"]) - {name for name, _ in imported()} == set()


def pythons() -> list[str]:
    """The versions of Python of ``requires-python``, such as 3.10."""
    match = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"])
    assert match is not None
    return [f"3.{minor}" for minor in range(int(match[1]), int(match[2]))]


def test_the_classifiers_are_the_versions_of_python() -> None:
    prefix = "Programming Language :: Python :: 3."
    listed = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith(prefix)]
    assert listed == pythons()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", "Python {} to {}."),
        ("README.zh.md", "Python {} 至 {}。"),
        ("CONTRIBUTING.md", "Python {} to {}."),
    ],
)
def test_pages_name_the_first_and_the_last_version_of_python(page: str, words: str) -> None:
    first, *_, last = pythons()
    text = (ROOT / page).read_text(encoding="utf-8")
    assert words.format(first, last) in text
    assert len(re.findall(r"Python 3\.\d+ (?:to|至)", text)) == 1


@pytest.mark.parametrize("page", ["docs/index.rst", "docs/first-run.rst"])
def test_the_first_pages_name_the_first_version_of_python(page: str) -> None:
    assert f"Python {pythons()[0]} or newer" in (ROOT / page).read_text(encoding="utf-8")
