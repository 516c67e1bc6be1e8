"""A release is cut by a tool, which also says where package, changelog and tag differ."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_distribution import ROOT

CHANGELOG = """# Changelog

Its format.

## [Unreleased]

### Added

- A third thing.

### Fixed

- A fault of the candidate.

## [0.3.0rc1] - 2026-02-01

### Added

- A second thing,
  in two lines.

### Changed

- The first thing.

## [0.2.0] - 2026-01-01

### Added

- The first thing.
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "tuner").mkdir()
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    stated = '"""A package."""\n\n__version__ = "0.3.0rc1"\n'
    (tmp_path / "tuner" / "__init__.py").write_text(stated, encoding="utf-8")
    return tmp_path


def release(repository: Path, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "docs.tools.release", *words, "--root", str(repository)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def test_package_and_changelog_of_this_repository_agree() -> None:
    code, printed, errors = release(ROOT, "check")
    assert (code, errors) == (0, "")
    version = printed.strip()
    assert release(ROOT, "check", "--tag", f"v{version}")[0] == 0
    code, printed, _ = release(ROOT, "notes")
    assert code == 0
    assert printed.startswith("### ")


def test_a_next_candidate_has_a_section_of_its_own(repository: Path) -> None:
    assert release(repository, "cut", "0.3.0rc2", "--date", "2026-03-01") == (0, "", "")
    assert release(repository, "check", "--tag", "v0.3.0rc2") == (0, "0.3.0rc2\n", "")
    head, _, rest = CHANGELOG.partition("## [Unreleased]\n")
    expected = f"{head}## [Unreleased]\n\n## [0.3.0rc2] - 2026-03-01\n{rest}"
    assert (repository / "CHANGELOG.md").read_text(encoding="utf-8") == expected
    assert '__version__ = "0.3.0rc2"\n' in (repository / "tuner" / "__init__.py").read_text(encoding="utf-8")


def test_a_release_takes_over_what_its_candidates_brought(repository: Path) -> None:
    assert release(repository, "cut", "0.3.0", "--date", "2026-03-02")[0] == 0
    code, printed, _ = release(repository, "notes")
    assert code == 0
    assert printed == (
        "### Added\n\n- A second thing,\n  in two lines.\n- A third thing.\n\n"
        "### Changed\n\n- The first thing.\n\n### Fixed\n\n- A fault of the candidate.\n\n"
    ).removesuffix("\n")
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in changelog.splitlines() if line.startswith("## ")]
    assert headings == ["## [Unreleased]", "## [0.3.0] - 2026-03-02", "## [0.2.0] - 2026-01-01"]
    assert release(repository, "check", "--tag", "v0.3.0")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cut", "0.3"), "0.3: a version is written as 0.2.0, a candidate of it as 0.2.0rc1"),
        (("cut", "v0.3.0"), "v0.3.0: a version is written as"),
        (("cut", "0.3.0rc1"), "0.3.0rc1 is not above 0.3.0rc1"),
        (("cut", "0.2.9"), "0.2.9 is not above 0.3.0rc1"),
        (("cut", "0.3.0", "--date", "yesterday"), "yesterday: a day is written as 2026-01-31"),
        (
            ("check", "--tag", "v0.3.0"),
            "the tag is v0.3.0, and tuner/__init__.py says 0.3.0rc1: tag v0.3.0rc1",
        ),
        (("notes", "0.9.0"), "CHANGELOG.md: nothing is said of 0.9.0"),
    ],
)
def test_what_does_not_fit_is_one_message_and_changes_nothing(
    repository: Path, words: tuple[str, ...], message: str
) -> None:
    code, printed, errors = release(repository, *words)
    assert (code, printed) == (2, "")
    assert errors.startswith(f"error: {message}")
    assert errors.count("\n") == 1
    assert (repository / "CHANGELOG.md").read_text(encoding="utf-8") == CHANGELOG
    assert release(repository, "check")[0] == 0


def test_nothing_new_is_no_release(repository: Path) -> None:
    assert release(repository, "cut", "0.3.0rc2", "--date", "2026-03-01")[0] == 0
    code, _, errors = release(repository, "cut", "0.3.0rc3")
    assert (code, errors) == (2, "error: CHANGELOG.md: nothing is unreleased\n")


def test_a_version_without_a_section_is_seen(repository: Path) -> None:
    stated = repository / "tuner" / "__init__.py"
    stated.write_text('__version__ = "0.4.0"\n', encoding="utf-8")
    code, _, errors = release(repository, "check")
    assert code == 2
    assert "[Unreleased] and then [0.4.0] are expected" in errors
