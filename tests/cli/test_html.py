"""The advice as an HTML page: whole, alone in one file, and nobody's markup in it."""

import json
import re
from base64 import b64decode, b64encode
from gzip import compress, decompress
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli import answers
from tests.cli.golden import expect
from tests.cli.runner import ROOT, run
from tests.cli.test_documents import NAMES, documents, said, squeezed, without_tags
from tests.cli.test_left_out import REWARD_MODEL
from tests.cli.test_logs import GPU, log, steps
from tests.cli.test_logs import JOB as LOGGED
from tuner.render import html_page
from tuner.render.document.html import html_text
from tuner.render.html import advice_html
from tuner.render.html_style import STYLE
from tuner.units import GIB

CONFIG = str(ROOT / "docs/examples/qwen2.5-7b-grpo.yaml")
JOB = (CONFIG, "trainer.n_gpus_per_node=8", "--gpu", "h100-sxm", "--verl-version", "0.9.1")
MISSPELT = "actor_rollout_ref.actor.use_dynamic_bzs=True"
_VOID = {"meta", "rect", "line", "br"}
_LEGIBLE = 4.5  # the least contrast of text that WCAG 2.2 allows at level AA


class Page(HTMLParser):
    """Counts elements, and fails where one is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.inside: dict[str, list[str]] = {}  # the texts of all elements of a kind
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in _VOID:
            self.opened.append(tag)
            self.inside.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        for tag in set(self.opened):
            self.inside[tag][-1] += data


def page(*arguments: str, stdin: str = "") -> tuple[str, Page]:
    result = run("advise", *arguments, "--output-format", "html", stdin=stdin)
    assert result.code == 0, result.err
    return result.out, Page(result.out)


def test_the_page_says_what_the_full_text_says() -> None:
    _, shown = page(*JOB)
    assert not shown.opened
    full = run("advise", *JOB, "--full").out
    codes = re.findall(r"^ +\d+ \w+ ([A-Z]{3}\d{3}) ", full, re.M)
    assert len(codes) > 3
    assert [code for code in codes if code not in shown.text] == []
    pasted = re.findall(r"^actor_rollout_ref\.\S+", full, re.M)
    assert len(pasted) > 3
    assert [line for line in pasted if line not in shown.text] == []
    assert shown.seen.count("svg") == 4  # memory and seconds, before and after


def test_the_page_has_every_sentence_of_the_full_text() -> None:
    written = squeezed(without_tags(advice_html(answers.answer())))
    texts = list(filter(None, map(squeezed, said(documents()["advise --full"]))))
    assert len(texts) > 12
    assert [text for text in texts if text not in written] == []


def test_the_page_asks_for_nothing() -> None:
    text, shown = page(*JOB)
    assert not {"img", "link", "iframe"} & set(shown.seen)
    (script,) = shown.inside["script"]  # of the page's own, by its digest, and no other
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in text
    assert not re.search(r"""src=|href="(?!data:)|url\(|@import""", text)
    assert len(text) < 200_000


def test_the_json_report_is_in_it() -> None:
    text, _ = page(*JOB)
    (packed,) = re.findall(r'href="data:application/gzip;base64,([^"]+)"', text)
    assert decompress(b64decode(packed)).decode().strip() == run("advise", *JOB, "-f", "json").out.strip()


def test_packed_data_that_looks_like_a_credential_is_packed_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = '{"phases": [1, 2, 3]}'
    tightest = b64encode(compress(text.encode(), 9, mtime=0)).decode()
    monkeypatch.setattr(html_page, "without_shapes", lambda shown, word: shown.replace(tightest, word))
    (packed,) = re.findall(r"base64,([^\"]+)", html_page.attached(text))
    assert packed != tightest
    assert decompress(b64decode(packed)).decode() == text


def test_markup_in_a_key_is_text(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        Path(CONFIG).read_text(encoding="utf-8") + "\n'<script>x</script>': 1\n", encoding="utf-8"
    )
    text, shown = page(str(config), *JOB[1:])
    assert "&lt;script&gt;" in text
    assert "<script>x</script>" in shown.text and shown.seen.count("script") == 1


def test_a_comparison_is_a_page_with_both_sides() -> None:
    liger = "actor_rollout_ref.model.use_liger=True"
    said = run("diff", CONFIG, CONFIG, liger, *JOB[1:], "-f", "html")
    shown = Page(said.out)
    assert not shown.opened
    assert shown.seen.count("svg") == 4
    assert "use_liger: False → True" in shown.text
    assert "download" in said.out


def test_findings_are_a_page() -> None:
    said = run("check", *JOB, MISSPELT, "-f", "html")
    shown = Page(said.out)
    assert not shown.opened
    assert any("use_dynamic_bzs" in cell for cell in shown.inside["td"])
    findings = len(json.loads(run("check", *JOB, MISSPELT, "-f", "json").out)["findings"])
    told = sum(map(int, re.findall(r"\d+", shown.inside["h1"][0])))
    assert told == findings > 5


def test_the_sums_are_in_it() -> None:
    _, shown = page(*JOB)
    assert "memory.fsdp.states.shard_bytes" in shown.text


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_bar_is_as_long_as_its_phase(share: float) -> None:
    text, _ = page(*JOB, f"actor_rollout_ref.rollout.gpu_memory_utilization={share}")
    first = text.partition("<svg")[2].partition("</svg>")[0]
    rollout = first.partition(">rollout<")[2].partition("monospace")[0]
    peak = float(re.findall(r"([\d.]+) GiB", rollout)[0])
    capacity = float(re.findall(r"the card ([\d.]+) GiB", first)[0])
    width = sum(float(size) for size in re.findall(r'(?<!-)width="([\d.]+)"', rollout))
    mark = float(re.findall(r'<text x="([\d.]+)"', first)[0]) - 4
    assert width / mark == pytest.approx(peak / capacity, rel=0.01)


def test_the_numbers_at_its_head_are_those_of_the_answer() -> None:
    _, shown = page(*JOB)
    report = json.loads(run("advise", *JOB, "-f", "json").out)
    peak = max(phase["peak_bytes"] for phase in report["memory"]["phases"])
    tiles = " ".join(shown.inside["dd"][:5])
    assert f"{peak / GIB:.1f} GiB of {report['memory']['capacity_bytes'] / GIB:.1f}, rollout" in tiles
    assert f"{report['step_time']['seconds']:.0f} s" in tiles
    gain = -report["combination"]["change"]["share"]
    assert f"{gain:.0%} " in tiles


def test_a_bar_of_seconds_is_as_long_as_its_phase_and_alike_before_and_after() -> None:
    text, _ = page(*JOB)
    bar = r'<title>(\w+): ([\d.]+) s, .*?</title>.*?<rect x="118" y="[\d.]+" width="([\d.]+)"'
    before, after = (re.findall(bar, svg) for svg in re.findall(r'<svg [^>]*class="seconds".*?</svg>', text))
    told = {
        phase["phase"]: phase["seconds"]
        for phase in json.loads(run("advise", *JOB, "-f", "json").out)["time"]
    }
    assert len(before) > 2
    assert all(float(seconds) == pytest.approx(told[name], abs=0.5) for name, seconds, _width in before)
    scales = [float(width) / float(seconds) for _name, seconds, width in (*before, *after)]
    assert max(scales) == pytest.approx(min(scales), rel=0.06)


def test_every_title_stands_once_and_the_page_has_a_main_part() -> None:
    text, _ = page(*JOB)
    for title in re.findall(r"<h2>(.*?)</h2>", text):
        assert text.count(f">{title}<") + text.count(f"{title}\n") == 1, title
    assert text.count("<main>") == text.count("</main>") == 1


def test_the_whole_page() -> None:
    packed = r"(?<=base64,)[^\"]+"  # differs with the library that packs it
    expect("advice.html", re.sub(packed, "...", advice_html(answers.answer())))


def test_each_kind_of_part_has_a_tag_of_its_own() -> None:
    _, shown = page(*JOB)
    assert shown.inside["h1"] == ["Qwen2.5-7B-Instruct on 8 x h100-sxm: FITS"]
    assert any(text.endswith(" at the peak (rollout)") for text in shown.inside["p"])
    assert any(text.startswith("Step time: ") for text in shown.inside["p"])
    assert "trainer" in shown.inside["dt"]
    findings = [text for text in shown.inside["li"] if "evidence: " in text]
    assert len(findings) > 3
    pasted = [text for text in shown.inside["pre"] if "The sum, written out" not in text]
    assert len(pasted) > len(findings)
    assert all(len(line.split()) == 1 for text in pasted[:-1] for line in text.replace(" \\", "").split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_every_element_of_a_document_is_closed(name: str) -> None:
    shown = Page(html_text(documents()[name]))
    assert not shown.opened
    assert shown.seen.count("h1") <= 1
    assert {"h1", "h2"} & set(shown.seen)


def test_a_run_stands_beside_the_model_in_tables() -> None:
    text, shown = page("-", *GPU, stdin=log("0.9.1", LOGGED, steps()))
    assert [caption.partition(",")[0] for caption in shown.inside["caption"]] == ["Observed beside modelled"]
    assert text.count("<table>") == text.count('role="group" aria-label="Observed beside modelled, ') >= 1
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', text)
    assert heads[:4] == ["phase", "observed", "modelled", "interval"]
    assert "update_actor" in re.findall(r'<th scope="row">(.*?)</th>', text)
    assert re.search(r'<td class="right">[\d.]+ s</td>', text)


def test_a_failed_allocation_is_explained_before_the_verdict() -> None:
    _, shown = page(*JOB, "--failed-allocation", "18.54 GiB")
    before, _verdict, _after = shown.text.partition(" at the peak (rollout)")
    assert "Failed allocation of 18.54 GiB" in before


def test_what_is_not_counted_is_said_of_the_block_as_well() -> None:
    _, shown = page(*JOB, REWARD_MODEL)
    (pasted,) = [text for text in shown.inside["p"] if text.startswith("Paste this: ")]
    assert re.match(r"Paste this: FITS with [\d.]+ GiB to spare at least, without the reward model;", pasted)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_is_legible_on_its_ground(scheme: str) -> None:
    light, _, dark = STYLE.partition("prefers-color-scheme: dark")
    colours = dict(re.findall(r"--(\w+): (#\w{6});", dark.partition("} }")[0] if scheme == "dark" else light))
    assert set(re.findall(r"var\(--(\w+)\)", STYLE)) == set(colours)
    texts = colours.keys() - {"ground", "shade", "line"}
    assert len(texts) == 7
    assert all(contrast(colours[name], colours["ground"]) >= _LEGIBLE for name in texts)
    assert contrast(colours["text"], colours["shade"]) >= _LEGIBLE


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG computes it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
