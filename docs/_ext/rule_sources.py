"""Links from what a rule's page cites to where it stands: files of a release, issues, papers, pages.

The sources are written once, as words; this makes links of those whose address follows from them. Files are
those of verl's releases, since only a release has a tag. In running text a release or a project holds until
another is named.
"""

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_VERL = "https://github.com/verl-project/verl"
_TRACKERS = {
    "verl": _VERL,
    "vLLM": "https://github.com/vllm-project/vllm",
    "SGLang": "https://github.com/sgl-project/sglang",
}
_GUIDE = "https://verl.readthedocs.io/en/latest/perf/perf_tuning.html"
_NAMED = re.compile(r"(?P<project>verl|vLLM|SGLang|TensorRT-LLM|Megatron-Core|torch|Liger-Kernel)\b")
_RELEASE = re.compile(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])")
_FILE = re.compile(r"(?P<path>[\w-]+(?:/[\w.-]+)+\.(?:py|yaml|sh))(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")
_CITED = re.compile(
    r"(?P<issue>#(?P<number>\d{2,}))|(?P<paper>arXiv:(?P<id>\d{4}\.\d{5}))"
    r"|(?P<guide>performance tuning guide|性能调优指南)"
)


def file_address(release: str, literal: str) -> str | None:
    """Where a file of verl stands in a release; None of what is no file."""
    match = _FILE.fullmatch(literal)
    if match is None:
        return None
    lines = f"#L{match['first']}" if match["first"] else ""
    lines += f"-L{match['last']}" if match["last"] else ""
    return f"{_VERL}/blob/v{release}/verl/{match['path']}{lines}"


class _Reading:
    """What was named last in a paragraph."""

    def __init__(self) -> None:
        self.project = "verl"
        self.release: str | None = None

    def text(self, text: str) -> None:
        """Words that were passed."""
        for match in re.finditer(f"{_NAMED.pattern}|{_RELEASE.pattern}", text):
            if match["project"]:
                self.project, self.release = match["project"], None
            else:
                self.release = match[0]


def _linked(text: str, reading: _Reading) -> Iterator[nodes.Node]:
    """A piece of text with links in it."""
    at = 0
    for match in _CITED.finditer(text):
        reading.text(text[at : match.start()])
        address = _address(match, reading.project)
        if address is not None:
            yield nodes.Text(text[at : match.start()])
            yield nodes.reference("", match[0], refuri=address, internal=False)
            at = match.end()
    reading.text(text[at:])
    yield nodes.Text(text[at:])


def _address(match: re.Match[str], project: str) -> str | None:
    if match["paper"]:
        return f"https://arxiv.org/abs/{match['id']}"
    if match["guide"]:
        return _GUIDE if project == "verl" else None
    tracker = _TRACKERS.get(project)
    return None if tracker is None else f"{tracker}/issues/{match['number']}"


def link(paragraph: nodes.Element) -> None:
    """Make links in one paragraph."""
    reading = _Reading()
    linked: list[nodes.Node] = []
    for child in paragraph.children:
        if isinstance(child, nodes.Text):
            linked += _linked(child.astext(), reading)
            continue
        verl = reading.project == "verl" and reading.release is not None
        address = file_address(reading.release or "", child.astext()) if verl else None
        if isinstance(child, nodes.literal) and address is not None:
            linked.append(nodes.reference("", "", child, refuri=address, internal=False))
        else:
            linked.append(child)
    paragraph.children = []
    paragraph += [node for node in linked if not isinstance(node, nodes.Text) or node.astext()]


def _link_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if not docname.startswith("rules/") or docname == "rules/index":
        return
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if not isinstance(paragraph.parent, nodes.entry):
            link(paragraph)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make the links once a page is translated."""
    app.connect("doctree-resolved", _link_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
