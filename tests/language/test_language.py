"""The languages of the program: how one is chosen, and that a catalogue says what the English says."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.tools.messages import CATALOGUE, extracted, main
from tests.cli.runner import RELEASE, ROOT, process, run
from tuner.catalogues import catalogue
from tuner.errors import InputError
from tuner.language import N_, _, chosen, ngettext, using

EXAMPLE = "docs/examples/qwen2.5-7b-grpo.yaml"


def test_english_is_the_text_itself() -> None:
    assert (_("phase"), N_("phase"), chosen()) == ("phase", "phase", "en")
    assert [ngettext("{n} node", "{n} nodes", n) for n in (1, 2)] == ["{n} node", "{n} nodes"]


@pytest.mark.parametrize("name", ["zh", "ZH", "zh_CN", "zh-cn", "zh_CN.UTF-8", "zh-Hans"])
def test_chinese_has_many_names(name: str) -> None:
    with using(catalogue(name, source="--lang")):
        assert (chosen(), _("phase")) == ("zh_CN", "阶段")
        assert ngettext("{count} error", "{count} errors", 1) == "{count} 个错误"
    assert chosen() == "en"


@pytest.mark.parametrize("name", ["en", "EN", "en.UTF-8"])
def test_english_has_no_catalogue(name: str) -> None:
    assert catalogue(name, source="--lang") is None


def test_a_text_without_translation_stays() -> None:
    with using(catalogue("zh", source="--lang")):
        assert _("a text that no catalogue has") == "a text that no catalogue has"


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="'tlh' is not a language"):
        catalogue("tlh", source="--lang")


@pytest.mark.parametrize(
    "arguments",
    [("--lang", "zh", "check", EXAMPLE), ("check", "--lang=zh", EXAMPLE), ("check", EXAMPLE, "--lang", "zh")],
    ids=["before", "with =", "behind"],
)
def test_the_option_may_stand_anywhere(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--gpu", "h100-sxm", *RELEASE)
    assert "已检查 1 个文件" in result.err


def test_the_variable_is_read_and_the_option_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_LANG", "zh")
    assert "已检查 1 个文件" in run("check", EXAMPLE, "--gpu", "h100-sxm", *RELEASE).err
    assert "1 file checked" in run("--lang", "en", "check", EXAMPLE, "--gpu", "h100-sxm", *RELEASE).err


def test_the_locale_of_the_system_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "1 file checked" in run("check", EXAMPLE, "--gpu", "h100-sxm", *RELEASE).err


@pytest.mark.parametrize(
    ("arguments", "variable", "named"),
    [
        (("--lang", "tlh"), "", "--lang: 'tlh'"),
        (("--lang",), "", "--lang: ''"),
        ((), "tlh", "TUNER_LANG: 'tlh'"),
    ],
)
def test_an_unknown_language_ends_with_one_message(
    arguments: tuple[str, ...], variable: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_LANG", variable)
    result = run("check", EXAMPLE, *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: {named} is not a language of tuner; there are en and zh\n"


def test_an_option_behind_two_dashes_is_an_argument() -> None:
    assert run("advise", "--", "--lang").code == 2


def test_keys_of_json_stay() -> None:
    english, chinese = (
        json.loads(run("advise", EXAMPLE, "--gpu", "h100-sxm", "-f", "json", "--lang", name).out)
        for name in ("en", "zh")
    )
    assert _shape(english) == _shape(chinese)


def _shape(value: object) -> object:
    """A document without its texts."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return str if isinstance(value, str) else value


def test_help_is_chinese_as_well() -> None:
    result = process("advise", "--help", "--lang", "zh")
    assert "评判一份配置" in result.out
    assert "建议所留出的显存份额" in result.out


def test_english_loads_no_catalogue() -> None:
    code = "import sys; from tuner.cli.application import application; application(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"tuner.language", "tuner.cli.advise"} <= set(done.stdout.split())
    assert not {"polib", "tuner.catalogues"} & set(done.stdout.split())


@pytest.mark.sampled(3)
def test_the_catalogue_is_fresh_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.sampled(4)
def test_no_text_is_hidden_from_the_extraction() -> None:
    """One inside an f-string is found by some versions of Python only."""
    marked = {
        node.args[0].value
        for path in (ROOT / "tuner").rglob("*.py")
        if re.search(r"\bN?_\s*\(", text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_", "N_")
        if isinstance(node.args[0], ast.Constant)
    }
    assert marked <= extracted().keys()


def test_the_check_finds_a_text_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "tuner.po"
    stale.write_text(CATALOGUE.read_text("utf-8") + '\nmsgid "gone"\nmsgstr "已删除"\n', "utf-8")
    monkeypatch.setattr("docs.tools.messages.CATALOGUE", stale)
    assert main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().out
