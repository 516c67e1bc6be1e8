"""What the page on accuracy says of attention over a packed row is what was recorded."""

import json
from typing import Any

from tests.cli.runner import ROOT

PAGE = (ROOT / "docs/validation/index.rst").read_text(encoding="utf-8")
DATA = ROOT / "docs/validation/data"
ROWS: list[dict[str, Any]] = json.loads((DATA / "packed-attention-2xh200.json").read_text())["rows"]
_BACKWARD = ("bwd", "bprop", "cutlassB")


def kernel_seconds(row: dict[str, Any]) -> tuple[float, float]:
    """Of one layer's attention: forward, backward."""
    totals = [0.0, 0.0]
    for name, _, seconds in row["kernels"]["attention"]:
        totals[any(part in name for part in _BACKWARD)] += seconds / row["layers"]
    return totals[0], totals[1]


def rows(**wanted: object) -> list[dict[str, Any]]:
    return [row for row in ROWS if all(row[key] == value for key, value in wanted.items())]


def test_the_table_has_the_recorded_milliseconds() -> None:
    shown = PAGE[PAGE.index("Milliseconds of attention's kernels") :]
    longest = {"tokens": 32768, "heads": 28, "layers": 3}
    for what, wanted in (
        ("flash, within sequences\n     - flash attention 2", {"attention": "flash"}),
        ("5.17\n     - cuDNN, with a mask", {"transformers": "5.17.0", "cudnn": True}),
        ("5.17\n     - memory-efficient, with a mask", {"transformers": "5.17.0", "cudnn": False}),
        ("4.47.1\n     - cuDNN, causal", {"transformers": "4.47.1", "cudnn": True}),
        ("4.47.1\n     - flash attention 2, causal", {"transformers": "4.47.1", "cudnn": False}),
    ):
        (row,) = rows(**longest, **{"attention": "sdpa"} | wanted)
        forward, backward = (f"{1e3 * seconds:.1f}" for seconds in kernel_seconds(row))
        assert f"{what}\n     - {forward}\n     - {backward}\n" in shown


def test_rates_over_all_pairs_are_those_that_the_page_has() -> None:
    for cudnn, least, most in ((False, 117, 130), (True, 275, 359)):
        rates = []
        for row in rows(transformers="5.17.0", attention="sdpa", cudnn=cudnn, layers=3):
            work = 4 * row["tokens"] ** 2 * row["heads"] * row["head_dim"] / 1e12
            forward, backward = kernel_seconds(row)
            rates += [work / forward, 2.5 * work / backward]
        assert (round(min(rates)), round(max(rates))) == (least, most)
        assert f"{least} to {most}" in PAGE


def test_sequences_see_each_other_before_a_mask_keeps_them_apart() -> None:
    for row in ROWS:
        assert row["sees_others"] == row["transformers"].startswith("4.")
    masked, causal = (
        rows(transformers=name, tokens=32768, heads=28, cudnn=True) for name in ("5.17.0", "4.47.1")
    )
    kept = [
        {row["layers"]: row["kept_bytes"] for row in part if row["attention"] == "sdpa"}
        for part in (masked, causal)
    ]
    a_mask = (kept[0][3] - kept[0][1] - kept[1][3] + kept[1][1]) / 2
    assert abs(a_mask / (2 * 32768**2) - 1) < 1e-3


def test_the_update_took_what_the_page_says() -> None:
    cases = json.loads((DATA / "packed-attention-update-2xh200.json").read_text())["cases"]
    longest = [case["seconds"] for case in cases if case["tokens"] == 24576 and case["pass"] == "update"]
    flash, cudnn, efficient = (f"{seconds:.2f} s" for seconds in longest)
    assert f"took {flash} with flash attention, {cudnn} with ``sdpa`` and {efficient} without cuDNN" in PAGE
