"""A baseline knows findings by what they are about, and says what is new, gone or unchanged."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import Result, run
from tests.cli.test_commands import CONFIG, GIVEN

pytestmark = pytest.mark.sampled(6)

TEXT = Path(CONFIG).read_text()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs").mkdir()
    Path("jobs/a.yaml").write_text(TEXT)
    Path("jobs/b.yaml").write_text(TEXT)


def check(*words: str) -> Result:
    return run("check", "jobs/a.yaml", "jobs/b.yaml", *words, "-f", "concise", *GIVEN)


def last(result: Result) -> str:
    return result.err.splitlines()[-1]


def test_what_is_known_is_not_reported_wherever_its_lines_have_gone() -> None:
    written = check("--write-baseline", "known.json")
    assert (written.code, written.out) == (0, "")
    content = json.loads(Path("known.json").read_text())
    assert content["findings"]["jobs/a.yaml"]["CFG001"] == {"actor_rollout_ref.rollot.n": 1}
    head, data, rest = TEXT.partition("data:\n")
    section = data + rest.partition("\n\n")[0] + "\n"
    moved = "# one line\n\n" + head + rest.partition("\n\n")[2] + "\n" + section  # data stands last
    Path("jobs/a.yaml").write_text(moved)
    result = check("--baseline", "known.json")
    assert (result.code, result.out) == (0, "")
    count = sum(n for codes in content["findings"].values() for keys in codes.values() for n in keys.values())
    assert f"beside the baseline 0 new, {count} unchanged, 0 fixed" in last(result)


def test_what_is_new_fails_and_what_is_fixed_is_named_and_pruned() -> None:
    check("--write-baseline", "known.json")
    Path("jobs/a.yaml").write_text(TEXT.replace("rollot:\n    n: 4", "actr:\n    n: 4"))
    Path("jobs/b.yaml").unlink()
    words = ("check", "jobs/a.yaml", *GIVEN, "--baseline", "known.json", "-f", "concise")
    result = run(*words)
    assert result.code == 1
    assert [line.split()[2] for line in result.out.splitlines()] == ["CFG001"]
    assert "fixed: jobs/a.yaml: CFG001 actor_rollout_ref.rollot" in result.err
    assert "fixed: jobs/b.yaml: CFG001 actor_rollout_ref.rollot" in result.err  # the file is there no more
    assert "--prune-baseline takes them out" in result.err
    before = json.loads(Path("known.json").read_text())["findings"]
    run(*words, "--prune-baseline")
    after = json.loads(Path("known.json").read_text())["findings"]
    assert before.keys() - after.keys() == {"jobs/b.yaml"}
    assert before["jobs/a.yaml"].keys() - after["jobs/a.yaml"].keys() == {"CFG001"}
    again = run(*words)
    assert "fixed:" not in again.err
    assert "1 new" in last(again)


def test_entries_of_inputs_that_are_not_checked_stay() -> None:
    check("--write-baseline", "known.json")
    text = Path("known.json").read_text()
    run("check", "jobs/a.yaml", *GIVEN, "--baseline", "known.json", "--prune-baseline")
    assert Path("known.json").read_text() == text


def test_the_settings_name_a_baseline_and_alike_findings_are_counted() -> None:
    Path("tuner.toml").write_text('baseline = "jobs/known.json"')
    Path("jobs/known.json").write_text(
        json.dumps({"version": 1, "findings": {"a.yaml": {"CFG001": {"actor_rollout_ref.rollot.n": 1}}}})
    )
    result = check("--select", "CFG001")
    assert [line.split(":")[0] for line in result.out.splitlines()] == ["jobs/b.yaml"]
    overrides = ("actor_rollout_ref.rollot.m=1", "+actor_rollout_ref.rollot.n=2")
    more = run("check", "jobs/a.yaml", *overrides, "--select", "CFG001", "-f", "concise", *GIVEN)
    assert [line.split(":")[0] for line in more.out.splitlines()] == ["command line"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "findings": {}}', '{"version": 1}', "[" * 9999]
)
def test_what_is_no_baseline_is_refused(text: str) -> None:
    Path("known.json").write_text(text)
    result = check("--baseline", "known.json")
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith("error: known.json: this is no baseline that tuner wrote")


def test_what_a_baseline_knows_is_not_mended_unless_it_is_asked_for() -> None:
    select = ("--select", "CFG106,CFG147", "--gpu", "h100-sxm")
    keys = {"actor_rollout_ref.ref.fsdp_config.param_offload": 1}
    known = {"a.yaml": {"CFG106": keys}}
    Path("jobs/known.json").write_text(json.dumps({"version": 1, "findings": known}))
    Path("jobs/tuner.toml").write_text('baseline = "known.json"\n')
    offloaded = "  ref:\n    fsdp_config:\n      param_offload: true\n  rollout:\n"
    config = TEXT.replace("  rollout:\n", offloaded, 1)
    nodes = config.replace("algorithm:\n", "trainer:\n  n_gpus_per_node: 16\nalgorithm:\n", 1)
    Path("jobs/a.yaml").write_text(nodes)
    before = Path("jobs/a.yaml").read_text()
    diff = run("check", "jobs/a.yaml", *GIVEN, *select, "--diff", "--no-baseline")
    assert "param_offload: false" in diff.out
    mended = run("check", "jobs/a.yaml", *GIVEN, *select, "--fix")
    after = Path("jobs/a.yaml").read_text()
    assert "param_offload: true" in after
    assert after != before
    assert "CFG106" not in mended.out + mended.err
    assert "1 unchanged, 0 fixed" in last(mended)
    again = run("check", "jobs/a.yaml", *GIVEN, *select, "--fix", "--no-baseline")
    assert "fixed jobs/a.yaml: CFG106" in again.err
    assert "param_offload: false" in Path("jobs/a.yaml").read_text()


def test_a_baseline_that_is_not_there_keeps_files_from_being_mended() -> None:
    result = run("check", "jobs/a.yaml", *GIVEN, "--fix", "--baseline", "none.json")
    assert (result.code, result.out) == (2, "")
    assert "none.json: there is no baseline" in result.err
    assert Path("jobs/a.yaml").read_text() == TEXT
