"""The advice as an HTML page: whole, alone in one file, and nobody's markup in it."""

import re
from base64 import b64decode
from gzip import decompress
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.runner import ROOT, run

CONFIG = str(ROOT / "docs/examples/qwen2.5-7b-grpo.yaml")
JOB = (CONFIG, "trainer.n_gpus_per_node=8", "--gpu", "h100-sxm", "--verl-version", "0.9.1")
_VOID = {"meta", "rect", "line"}


class Page(HTMLParser):
    """Counts elements, and fails where one is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in _VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(*arguments: str) -> tuple[str, Page]:
    result = run("advise", *arguments, "--output-format", "html")
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
    assert shown.seen.count("svg") == 2  # before and after


def test_the_page_asks_for_nothing() -> None:
    text, shown = page(*JOB)
    assert not {"script", "img", "link", "iframe"} & set(shown.seen)
    assert not re.search(r"""src=|href="(?!data:)|url\(|@import""", text)
    assert len(text) < 200_000


def test_the_json_report_is_in_it() -> None:
    text, _ = page(*JOB)
    (packed,) = re.findall(r'href="data:application/gzip;base64,([^"]+)"', text)
    assert decompress(b64decode(packed)).decode().strip() == run("advise", *JOB, "-f", "json").out.strip()


def test_markup_in_a_key_is_text(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        Path(CONFIG).read_text(encoding="utf-8") + "\n'<script>x</script>': 1\n", encoding="utf-8"
    )
    text, shown = page(str(config), *JOB[1:])
    assert "&lt;script&gt;" in text
    assert "<script>x</script>" in shown.text and "script" not in shown.seen


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


def test_every_title_stands_once_and_the_page_has_a_main_part() -> None:
    text, _ = page(*JOB)
    for title in re.findall(r"<h2>(.*?)</h2>", text):
        assert text.count(f">{title}<") + text.count(f"{title}\n") == 1, title
    assert text.count("<main>") == text.count("</main>") == 1
