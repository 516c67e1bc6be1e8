"""The tables of the chapter on a running verl, out of the code and out of a record."""

import re
from pathlib import Path

from tests.docs.small_site import build
from tuner.inside_verl.installing import PATCHES
from tuner.inside_verl.settings import SETTINGS

RECORD = "heads-in-verl-2xh100.json"


def test_the_tables_hold_what_the_code_and_the_record_hold(tmp_path: Path) -> None:
    directives = (
        ".. inside-verl-settings::",
        ".. inside-verl-patches::",
        f".. inside-verl-updates:: {RECORD}",
    )
    text = "\n\n".join(("Page\n====", *directives)) + "\n"
    site = build(tmp_path, {"index.rst": text}, extensions=["folded", "inside_verl"])
    assert site.warnings == ""
    page = site.page("index")
    named = [setting.name for setting in SETTINGS] + [patch.name for patch in PATCHES]
    named += [value for setting in SETTINGS for value in setting.values]
    shown = re.sub("<[^>]+>", "", page)  # a literal of several words has a tag for each
    assert [name for name in named if name not in shown] == []
    assert "tuner-recompute" in page and "0.66 s" in page and "0.75 s" in page
    assert "CompilationError" in page  # an engine that stopped has a row, too
    translated = {patch.does for patch in PATCHES} | {setting.does for setting in SETTINGS}
    assert translated <= site.messages("index")
    assert not any("GiB" in message for message in site.messages("index"))


def test_updates_of_verls_worker_stand_beside_what_is_predicted_today(tmp_path: Path) -> None:
    text = "Page\n====\n\n.. worker-updates:: update-in-verl-2xh100.json\n"
    site = build(tmp_path, {"index.rst": text}, extensions=["worker_updates"])
    assert site.warnings == ""
    rows = re.findall("<tr.*?</tr>", site.page("index"), flags=re.DOTALL)[1:]
    assert len(rows) == 4
    for row in rows:
        peaks = [float(number) for number in re.findall(r"([\d.]+) GiB", row)]
        assert len(peaks) == 2 and abs(peaks[0] / peaks[1] - 1) < 0.01
        assert len(re.findall(r"[\d.]+ s\b", row)) == 2
