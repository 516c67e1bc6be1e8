"""Where the refusals of verl's checks rest in its code: what the wheels hold beside what the checks say."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.tables import scene, table
from tuner.findings import Rule
from tuner.trainers.verl.checks import RULES
from tuner.trainers.verl.checks.guards import CodeGuard, RefusedBy, guards_of
from tuner.trainers.verl.checks.guards_by_release import read
from tuner.trainers.verl.releases import BUNDLED, PREVIEWS
from tuner.trainers.verl.source import source_of
from tuner.trainers.verl.trainer_code.package import TrainerCode

REFUSING = [(rule, module) for rule, module in RULES if rule.refuses]
GUARDS = [(rule, guard) for rule, module in REFUSING for guard in guards_of(module)]


@pytest.mark.parametrize(("rule", "module"), REFUSING, ids=[rule.code for rule, _module in REFUSING])
def test_every_refusal_rests_on_code_or_on_what_is_no_code_of_verl(rule: Rule, module: ModuleType) -> None:
    refused_by = getattr(module, "REFUSED_BY", None)

    assert bool(guards_of(module)) != isinstance(refused_by, RefusedBy)


@pytest.mark.parametrize(
    ("rule", "guard"), GUARDS, ids=[f"{rule.code} {guard.name}" for rule, guard in GUARDS]
)
def test_found_in_the_releases_that_the_check_names(rule: Rule, guard: CodeGuard) -> None:
    named = [
        release
        for release in BUNDLED
        if release in guard.packaged
        and (release in guard.releases or PREVIEWS.get(release, release) in guard.releases)
    ]

    assert [release for release in BUNDLED if read()[release][rule.code][guard.name]] == named


def test_all_bundled_releases_were_looked_through() -> None:
    assert list(read()) == list(BUNDLED)


@pytest.fixture
def code(tmp_path: Path) -> TrainerCode:
    file = tmp_path / "verl" / "trainer" / "checks.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "class Checks:\n"
        "    def validate(self, config):\n"
        "        if config.dynamic:\n"
        "            pass\n"
        "        elif config.mini > config.train:\n"
        "            raise ValueError(f'too large: {config.mini}')\n"
        "        try:\n"
        "            assert config.sync in ['first', 'second']\n"
        "        finally:\n"
        "            config.last = getattr(config, 'quiet', None)\n"
    )
    (tmp_path / "verl" / "broken.py").write_text("def f(:\n    assert mini < train\n")
    return TrainerCode(tmp_path / "verl")


@pytest.mark.parametrize(
    ("words", "stops", "lines"),
    [
        ("mini train", True, ["verl/trainer/checks.py:6"]),
        ("Checks validate sync", True, ["verl/trainer/checks.py:8"]),
        ("too large", True, ["verl/trainer/checks.py:6"]),
        ("dynamic mini", True, ["verl/trainer/checks.py:6"]),
        ("last", True, []),
        ("last quiet", False, ["verl/trainer/checks.py:10"]),
        ("mini sync", True, []),
    ],
)
def test_a_statement_is_told_by_the_words_in_it_and_around_it(
    code: TrainerCode, words: str, stops: bool, lines: list[str]
) -> None:
    assert [str(line) for line in code.lines(words.split(), stops=stops)] == lines


def test_words_and_literals_of_all_files(code: TrainerCode) -> None:
    assert code.names("quiet") and code.names("mini") and not code.names("quie")
    assert code.has_literal("second") and not code.has_literal("third")


def test_a_file_that_is_written_anew_is_read_anew(code: TrainerCode) -> None:
    assert not code.names("novel")
    (code.root / "novel.py").write_text("novel = 1\n")

    assert TrainerCode(code.root).names("novel")


def test_what_the_files_alone_decide_is_found_once_until_they_change(code: TrainerCode) -> None:
    """Every proposal is read anew, and asks the same of the copy."""
    searched = []

    def find() -> int:
        searched.append(1)
        return len(searched)

    assert [TrainerCode(code.root).remembered(("question",), find) for _ in range(3)] == [1, 1, 1]
    (code.root / "novel.py").write_text("novel = 1\n")
    assert TrainerCode(code.root).remembered(("question",), find) == 2


_MOVED = {
    "CFG103": "class ActorRolloutRefWorker:\n    def init_model(self):\n"
    "        if not self.config.rollout.use_dynamic_bsz:\n"
    "            assert self.config.rollout.log_prob_micro_batch_size_per_gpu is not None\n",
    "CFG129": "class vLLMRollout:\n    def __init__(self, config):\n"
    "        assert not (not config.enforce_eager and config.free_cache_engine)\n",
    "CFG136": "class Server:\n    async def launch_server(self):\n"
    '        args = {"load_format": self.config.load_format, "disable_log_stats": True}\n',
    "CFG149": "class Trainer:\n    def _validate_config(self):\n"
    "        minimal_bsz = megatron_dp * config.actor.ppo_micro_batch_size_per_gpu\n",
    "CFG172": "class OneStepOffRayTrainer:\n    def __init__(self):\n        assert not self.hybrid_engine\n",
}


@pytest.mark.parametrize("code_of_rule", _MOVED)
def test_a_construct_is_found_in_a_copy_that_moved_its_file(code_of_rule: str, tmp_path: Path) -> None:
    module = next(module for rule, module in RULES if rule.code == code_of_rule)
    guards = [guard for guard in guards_of(module) if guard.file]
    (tmp_path / "verl" / "trainer").mkdir(parents=True)
    home = tmp_path / "verl" / "novel.py"
    home.write_text("class Other:\n    def stop(self):\n        raise ValueError\n")
    assert not any(guard.lines(TrainerCode(tmp_path / "verl")) for guard in guards)

    home.write_text(_MOVED[code_of_rule])

    lines = [str(line) for guard in guards for line in guard.lines(TrainerCode(tmp_path / "verl"))]
    assert lines == [f"verl/novel.py:{_MOVED[code_of_rule].count(chr(10))}"]


@pytest.mark.parametrize(
    ("rule", "module"),
    [(rule, module) for rule, module in REFUSING if guards_of(module)],
    ids=[rule.code for rule, module in REFUSING if guards_of(module)],
)
def test_every_refusal_of_an_example_rests_on_a_guard_that_concerns_it(
    rule: Rule, module: ModuleType
) -> None:
    """A refusal on which no guard bears would stand in a copy of the trainer that never makes it."""
    examples = table(rule.name)
    scenes = [scene(examples.bad_base, examples.bad)]
    scenes += [scene(row.base, row.set) for row in examples.rows if row.finds]
    refusals = [
        (version, finding, one.workload)
        for one in scenes
        for version in (source_of(one.settings, one.version).version,)
        for finding in module.check(one.settings, one.workload, version)
        if finding.refuses
    ]

    assert refusals
    for version, finding, workload in refusals:
        resting = [guard for guard in guards_of(module) if guard.concerns(finding, workload)]
        assert any(version in guard.releases for guard in resting), (version, finding.message)
