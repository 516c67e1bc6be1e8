"""Which settings of a project hold for an input, and what is said of those that cannot be used."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.cli.runner import Result, run
from tests.cli.test_commands import CONFIG
from tests.review.conftest import forget
from tuner.cli import validation
from tuner.cli.validation import Request
from tuner.consultation.premises import OPTIONS
from tuner.render.schemas import schema
from tuner.review.project.discovery import VARIABLE
from tuner.review.project.project import Named, project_of
from tuner.review.project.schema import PREMISES
from tuner.review.project.toml import place_of

pytestmark = pytest.mark.sampled(6)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one configuration, in which the command line works."""
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository")
    Path("jobs/small").mkdir(parents=True)
    Path("jobs/small/a.yaml").write_bytes(Path(CONFIG).read_bytes())
    return tmp_path


def nodes_of(file: str | None, **named: object) -> object:
    """The number of nodes that the settings say, which tells the files of these tests apart."""
    return project_of(None if file is None else Path(file), Named(**named)).value("nodes")  # type: ignore[arg-type]


# What lies where, and the number of nodes that holds for jobs/small/a.yaml; ".." is outside the repository.
DISCOVERY = {
    "nothing": ({}, None),
    "at the top": ({"tuner.toml": "nodes = 1"}, 1),
    "the nearest wins": ({"tuner.toml": "nodes = 1", "jobs/tuner.toml": "nodes = 2"}, 2),
    "and is not merged": ({"tuner.toml": "nodes = 1", "jobs/tuner.toml": 'gpu = "h100-sxm"'}, None),
    "beside it": ({"jobs/small/.tuner.toml": "nodes = 3", "tuner.toml": "nodes = 1"}, 3),
    "of one folder": ({"tuner.toml": "nodes = 1", ".tuner.toml": "nodes = 2"}, 1),
    "of pyproject": ({"pyproject.toml": "[tool.tuner]\nnodes = 4"}, 4),
    "pyproject without a table": ({"jobs/pyproject.toml": "[tool.ruff]", "tuner.toml": "nodes = 1"}, 1),
    "own before pyproject": ({"tuner.toml": "nodes = 1", "pyproject.toml": "[tool.tuner]\nnodes = 4"}, 1),
    "above the repository": ({"../tuner.toml": "nodes = 5"}, None),
    "what it extends": ({"tuner.toml": 'extend = "more/base.toml"', "more/base.toml": "nodes = 6"}, 6),
    "over what it extends": ({"tuner.toml": 'extend = "b.toml"\nnodes = 1', "b.toml": "nodes = 6"}, 1),
    "for some files": ({"tuner.toml": 'nodes = 1\n[[per-file]]\nfiles = ["jobs/*.yaml"]\nnodes = 7'}, 7),
    "by name": ({"tuner.toml": '[[per-file]]\nfiles = ["a.*"]\nnodes = 7'}, 7),
    "for others": ({"tuner.toml": 'nodes = 1\n[[per-file]]\nfiles = ["other/**/*.yaml"]\nnodes = 7'}, 1),
    "the last of several": (
        {"tuner.toml": '[[per-file]]\nfiles=["a.*"]\nnodes=7\n[[per-file]]\nfiles=["**/a.yaml"]\nnodes=8'},
        8,
    ),
}


@pytest.mark.parametrize("case", DISCOVERY)
def test_the_settings_that_hold_are_those_of_the_nearest_file(case: str) -> None:
    files, expected = DISCOVERY[case]
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    assert nodes_of("jobs/small/a.yaml") == expected


def test_options_and_the_environment_name_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("tuner.toml", 1), ("other.toml", 2), ("third.toml", 3)):
        Path(name).write_text(f"nodes = {count}")
    file = "jobs/small/a.yaml"
    assert nodes_of(None) == 1  # of a command as it is typed: those of the working folder
    monkeypatch.setenv(VARIABLE, "other.toml")
    assert nodes_of(file) == 2
    assert nodes_of(file, given=("third.toml",)) == 3
    assert nodes_of(file, given=("third.toml", "nodes = 4")) == 4
    assert nodes_of(file, isolated=True) is None
    Path("pyproject.toml").write_text("tool = 1")  # has no table of ours, and was asked for
    assert nodes_of(file, given=("pyproject.toml",)) is None
    assert nodes_of(file, isolated=True, given=("nodes = 5",)) == 5


def check(*words: str) -> Result:
    return run("check", "jobs/small/a.yaml", *words)


# A line of tuner.toml, and what its error has to say.
BAD = {
    "gpuu = 'h100-sxm'": "tuner.toml:2:1: gpuu: there is no such setting; did you mean gpu?",
    "nodes = 'two'": "tuner.toml:2:1: nodes: 'two' is not what this takes",
    "gpu = 'h1000'": "tuner.toml:2:1: gpu: no GPU 'h1000' is known; near it: h100-sxm",
    "network = 'fast'": "tuner.toml:2:1: network: 'fast' is no rate",
    "verl-version = 'nine'": "tuner.toml:2:1: verl-version: 'nine' is not a verl release",
    "select = ['ROLL']": "tuner.toml:2:1: there is no rule 'ROLL'; did you mean ROL?",
    "min-evidence = 'sure'": "tuner.toml:2:1: min-evidence: 'sure' is not what this takes",
    "nodes =": "tuner.toml:2:8: this is not valid TOML",
    "extend = 'tuner.toml'": "tuner.toml:2:1: these settings extend themselves",
    "extend = 'none.toml'": "none.toml: there is no such file",
    "baseline = 'none.json'": "none.json: there is no baseline",
    "[[per-file]]\nfiles = ['*']\nnodez = 1": "tuner.toml:4:1: per-file[1].nodez: there is no such setting",
    "[[budget]]\nmemory = 'much'": "tuner.toml:3:1: 'much' is no amount of memory",
    "[[budget]]\nphases.sleep.seconds = 1": "budget[1].phases.sleep: there is no such setting",
}


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_used_is_one_line_with_its_place(text: str) -> None:
    Path("tuner.toml").write_text(f"# of the team\n{text}\n")
    result = check("jobs/small/a.yaml")
    assert result.code == 2
    assert result.out == ""
    errors = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert BAD[text] in errors[0]
    # The settings concern both inputs alike; the configuration has nothing to do with most of these errors.
    assert len(set(errors)) == len(errors)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--isolated", "--config", "x.toml"), "--isolated takes no settings file"),
        (("--config", "x.toml", "--config", "y.toml"), "--config names 2 files"),
        (("--config", "gpuu = 1"), "--config: gpuu: there is no such setting"),
        (("--config", "gpu = h200"), "this is not valid TOML: Invalid value; write it as --config"),
        (("--select", "ROL01"), "--select: there is no rule 'ROL01'"),
        (("--prune-baseline",), "no baseline is named"),
    ],
)
def test_options_that_cannot_be_used(words: tuple[str, ...], message: str) -> None:
    result = check(*words)
    assert result.code == 2
    assert message in result.err


def codes(*words: str) -> set[str]:
    return {line.split()[2] for line in check(*words, "-f", "concise", "--gpu", "h100-sxm").out.splitlines()}


def test_rules_are_selected_by_code_name_group_and_evidence() -> None:
    everything = codes()
    groups = {code[:3] for code in everything}
    assert len(groups) > 1
    one = sorted(code for code in everything if code.startswith("CFG"))[0]
    assert codes("--select", "CFG") == {code for code in everything if code.startswith("CFG")}
    assert codes("--ignore", "CFG") == {code for code in everything if not code.startswith("CFG")}
    assert codes("--select", "ALL", "--ignore", "CFG", "--select", one) == {
        code for code in everything if not code.startswith("CFG") or code == one
    }
    exact = codes("--min-evidence", "exact")
    assert exact < everything
    content = json.loads(check("-f", "json", "--gpu", "h100-sxm").out)
    assert exact == {it["code"] for it in content["findings"] if it["evidence"] == "exact"}
    Path("tuner.toml").write_text('ignore = ["unknown-key"]\n[[per-file]]\nfiles=["a.yaml"]\nignore=["MEM"]')
    forget()
    assert codes() == {
        code for code in everything if not code.startswith("MEM")
    }  # of this file it says other
    assert codes("--isolated") == everything


def test_advise_takes_premises_from_the_settings_and_says_so() -> None:
    Path("tuner.toml").write_text('gpu = "h200"\n\nmean-response-length = 400\ngpus-per-node = 4\n')
    text = run("advise", "jobs/small/a.yaml", "--gpu", "8xh100-sxm").out
    assert "settings: --mean-response-length 400 (tuner.toml:3:1)\n" in text  # options win, also half of one
    assert "h100-sxm" in text
    report = json.loads(run("advise", "jobs/small/a.yaml", "-f", "json").out)
    said = {one["option"]: one["value"] for one in report["premises"]["project_settings"]}
    assert said == {"--gpu": "h200", "--mean-response-length": 400, "--gpus-per-node": 4}
    assert report["premises"]["gpu_reason"] == "tuner.toml:1:1"
    words = ("--config", 'verl-version = "0.9"', "-f", "json")
    report = json.loads(run("advise", "jobs/small/a.yaml", *words).out)
    assert report["premises"]["release_reason"] == "asked for 0.9, by --config"
    assert report["workload"]["cluster"]["gpus_per_node"] == 4


def test_fail_on_is_that_of_the_input_unless_an_option_says_it() -> None:
    Path("tuner.toml").write_text('gpu = "h100-sxm"\nfail-on = "advice"\nselect = ["ROL", "MEM", "BAT"]')
    assert check().code == 1
    assert check("--fail-on", "error").code == 0
    assert check("--config", 'fail-on = "error"').code == 0


def test_advise_fails_on_what_check_reports() -> None:
    file = Path("jobs/small/a.yaml")
    words = ("advise", str(file), "--gpu", "h100-sxm", "--fail-on", "warning")
    select = ("--config", 'select = ["CFG001"]')
    assert run(*words, *select).code == 1
    assert run(*words, *select, "--isolated").code == 1
    assert run(*words, *select, "--config", 'ignore = ["CFG001"]').code == 0
    assert run(*words, "--config", 'select = ["KRN"]').code == 0
    text = file.read_text()
    file.write_text(text.replace("  rollot:", "  # tuner: ignore[CFG001] we like it\n  rollot:"))
    assert run(*words, *select).code == 0
    file.write_text(text)
    known = {"a.yaml": {"CFG001": {"actor_rollout_ref.rollot.n": 1}}}
    Path("jobs/small/known.json").write_text(json.dumps({"version": 1, "findings": known}))
    Path("tuner.toml").write_text('select = ["CFG001"]\nbaseline = "jobs/small/known.json"')
    forget()
    assert run(*words).code == 0


def test_other_commands_take_premises_from_the_settings_and_say_so() -> None:
    Path("tuner.toml").write_text('verl-version = "0.8.0"\ngpu = "h200"\n')
    shown = " ".join(run("config", "jobs/small/a.yaml").out.split())
    assert "on verl 0.8.0, ppo_trainer (asked for 0.8.0, by tuner.toml:1:1)" in shown
    page = json.loads(run("config", "jobs/small/a.yaml", "--isolated", "-f", "json").out)
    assert page["release"] != "0.8.0"
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.54 GiB."
    said = "settings   --verl-version 0.8.0 (tuner.toml:1:1), --gpu h200 (tuner.toml:2:1)"
    for words in (("jobs/small/a.yaml",), ()):
        text = run("explain-oom", *words, "--message", message).out
        assert set(said.split()) <= set(text.split()), words
    report = json.loads(run("explain-oom", "jobs/small/a.yaml", "--message", message, "-f", "json").out)
    assert [one["value"] for one in report["project_settings"]] == ["0.8.0", "h200"]


def test_validate_takes_premises_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def answer(request: Request, ray: str | None) -> tuple[()]:
        asked.append(request)
        return ()

    monkeypatch.setattr(validation, "on_all_nodes", answer)
    Path("tuner.toml").write_text('gpu = "h200"\nmean-response-length = 400\n')
    run("validate", "jobs/small/a.yaml")
    run("validate", "jobs/small/a.yaml", "--isolated", "--gpu", "a100-80g")
    assert [(each.premises.gpu, each.premises.mean_response) for each in asked] == [
        ("h200", 400),
        ("a100-80g", None),
    ]


def test_every_premise_has_the_name_of_its_option() -> None:
    not_settings = {"trace", "launch", "headroom"}
    options = {name: option.removeprefix("--").replace("-", "_") for name, option in OPTIONS.items()}
    assert {options[name] for name in options if name not in not_settings} == set(PREMISES)


def test_the_published_schema_takes_what_the_tool_takes() -> None:
    settings = {"gpu": "h100-sxm", "per-file": [{"files": ["*"], "nodes": 2}], "budget": [{"memory": "85%"}]}
    jsonschema.validate(settings, schema("settings"))
    for wrong in ({"gpuu": 1}, {"nodes": 0}, {"gpu": None}, {"per-file": [{"nodes": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema("settings"))
    described = json.loads(run("schema", "settings").out)["$defs"]["ProjectSettings"]["properties"]
    assert "400Gb/s" in described["network"]["description"]


def test_a_key_is_found_on_its_line_whatever_stands_around_it() -> None:
    text = 'a = """\nnodes = 1\n"""\n[[per-file]]\nfiles = [\n  "x",\n]\n'
    text += '[[per-file]]\n"nodes" = 2\n[x.y]\nz.w = 1'
    for path, line in (
        (("nodes",), None),
        (("per-file", 0), 4),
        (("per-file", 0, "nodes"), 4),
        (("per-file", 1, "nodes"), 9),
        (("x", "y", "z"), 11),
        (("x",), 10),
    ):
        assert place_of(text, path, source="f").line == line


def test_settings_of_a_repository_above_are_not_those_of_one_within(folder: Path) -> None:
    Path("tuner.toml").write_text("nodes = 1")
    subprocess.run(["git", "init", "-q", "jobs"], check=True)
    assert nodes_of("jobs/small/a.yaml") is None


def test_an_error_of_something_else_is_not_laid_on_a_setting() -> None:
    Path("tuner.toml").write_text("mean-response-length = 100\ngpu = 'h100-sxm'")
    words = ("jobs/small/a.yaml", "algorithm.adv_estimator=gae", "--zero-advantage-ratio", "0.5")
    result = run("advise", *words)
    assert result.code == 2
    assert "--zero-advantage-ratio: advantages are not 0 here" in result.err
    assert "tuner.toml" not in result.err
