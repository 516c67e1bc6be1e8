"""The Chinese catalogue, and the linter that keeps it sound."""

from pathlib import Path

import pytest

from docs.tools.lint_catalogue import lint, problems

ROOT = Path(__file__).parents[2]
CATALOGUES = sorted((ROOT / "locale" / "zh_CN" / "LC_MESSAGES").glob("*.po"))

SOUND = [
    (
        "Set ``use_remove_padding=True`` to enable sequence packing.",
        "设置 ``use_remove_padding=True`` 即可启用序列打包。",
    ),
    ("The micro-batch takes 79.6 GiB, 40% of the card.", "micro-batch 占用 79.6 GiB，即整卡的 40%。"),
    (
        "See :doc:`the rules <rules/index>` and **read** them.",
        "参见 :doc:`规则 <rules/index>`，请 **阅读** 它们。",
    ),
    ("Set ``a`` (``b``) now.", "现在设置 ``a`` （``b``）。"),
    # A target is no prose, unlike a title.
    ("See :doc:`rules/gradient-checkpointing`.", "见 :doc:`rules/gradient-checkpointing`。"),
    ("In all :now:`peak rollout`.", "合计 :now:`peak rollout`。"),
    (":math:`N` parameters", ":math:`N` 参数量"),
    (
        "A gated delta rule: flash attention, see the state dict.",
        "gated delta rule：flash attention，见 state dict。",
    ),
    ("It **will not fit**.", "它 **放不下（will not fit）**。"),
    (
        "Source: torch ``a.py`` (``f``); verl 0.9.1 ``b.py``.",
        "来源：torch ``a.py`` （``f``）；verl 0.9.1 ``b.py``。",
    ),
    ("micro-batch", "micro-batch（微批次）"),
    ("The kernel walks the vocabulary.", "该 kernel 遍历词表。"),
    ("It is `written down <https://example.org>`__ there.", "详见 `此处的记录 <https://example.org>`__。"),
]

DEFECTS = [
    # Literal markup touching Chinese text is shown raw, without a warning.
    ("Enable ``a=True`` to pack.", "启用``a=True``以打包。", "markup touches text"),
    ("Set ``a`` (or not).", "设置 ``a``（也可不设）。", "markup touches text"),
    ("Set ``micro_batch_size``.", "设置 ``微批次大小``。", "literals differ"),
    ("Set ``a``.", "设置 `a`。", "literals differ"),
    ("Set a value.", "设置 `值`。", "single backtick"),
    ("See :doc:`first-run`.", "参见 :doc:`首次运行`。", "roles differ"),
    ("See :doc:`first-run`.", "参见首次运行。", "roles differ"),
    ("See `it <https://a.example>`__.", "参见 `它 <https://b.example>`__。", "links differ"),
    ("By |name| only.", "仅由名称。", "substitutions differ"),
    ("It is **never** done.", "绝不这样做。", "strong emphasis differs"),
    ("It takes 16 bytes.", "它占用 18 字节。", "numbers differ"),
    ("It takes 16 bytes.", "它占用16字节。", "no space between Chinese and Latin"),
    ("First, this one.", "首先,这个。", "half-width punctuation"),
    ("Set ``a`` (``b``).", "设置 ``a`` (``b``)。", "half-width parenthesis"),
    ("This one.", "这个.", "half-width full stop"),
    ("First, this one.", "首先， 这个。", "space beside full-width punctuation"),
    ("40% of it", "其中的 40 %", "space before %"),
    ("This one.", "这个", "full stop"),
    ("These:", "这些。", "colon"),
    ("GPU memory is full.", "GPU 内存已满。", "do not say GPU 内存"),
    ("See :doc:`GPU memory <a>`.", "参见 :doc:`GPU 内存 <a>`。", "do not say GPU 内存"),
    ("Each token counts.", "每个令牌都算数。", "do not say 令牌"),
    ("The actor is updated.", "演员会被更新。", "do not say 演员"),
    ("The critic is updated.", "评论家会被更新。", "do not say 评论家"),
    ("Each micro-batch is full.", "每个微批次都是满的。", "is micro-batch"),
    ("Each micro-batch is full.", "每个 micro-batch 即微批次都是满的。", "do not say 微批次"),
    ("Each pass has a peak.", "每次遍历都有峰值。", "do not say 遍历"),
    ("Use fused kernels.", "使用融合 kernel。", "do not say 融合 kernel"),
    ("Remove padding first.", "先去除填充。", "do not say 去除填充"),
    ("Ulysses splits sequences.", "尤利西斯切分序列。", "do not say 尤利西斯"),
    ("Gradient checkpointing is on.", "已启用渐变检查。", "is 梯度检查点"),
    ("This sentence stays in English.", "This sentence stays in English.", "not translated"),
    (
        "Source: torch ``a.py`` (gradient cast to it).",
        "来源：torch ``a.py`` （gradient cast to it）。",
        "left in English: gradient, cast, to, it",
    ),
    (
        "Source: ``a.py``, docstring of ``f``.",
        "来源：``a.py``，docstring of ``f``。",
        "left in English: docstring, of",
    ),
]


@pytest.mark.parametrize(("message", "translation"), SOUND)
def test_a_sound_translation_has_no_problem(message: str, translation: str) -> None:
    assert problems(message, translation) == []


@pytest.mark.parametrize(("message", "translation", "complaint"), DEFECTS)
def test_a_defect_is_found(message: str, translation: str, complaint: str) -> None:
    assert any(complaint in problem for problem in problems(message, translation))


def test_missing_and_fuzzy_translations_are_found(tmp_path: Path) -> None:
    path = tmp_path / "pages.po"
    path.write_text(
        'msgid ""\nmsgstr ""\n\nmsgid "a"\nmsgstr ""\n\n#, fuzzy\nmsgid "b"\nmsgstr "乙"\n', "utf-8"
    )
    assert [problem.rsplit(": ", 1)[1] for problem in lint(path)] == ["not translated", "fuzzy"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.stem)
def test_every_catalogue_is_sound(path: Path) -> None:
    assert lint(path) == []


def test_there_are_catalogues() -> None:
    assert CATALOGUES
