"""Just enough reStructuredText to show a docstring in a terminal."""

import re

from tuner.language import ENGLISH, chosen, documented
from tuner.render.terminal import Terminal

# The space between markup and full-width punctuation, which reStructuredText asks for and a reader does not.
_AROUND_MARKUP = re.compile("(?<=[`*]) (?=[\uff08\u201c\u300a])|(?<=[\uff09\u201d\u300b]) (?=[`:*])")


def parse_docstring(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Title, and heading and body of each section; headings are underlined with dashes."""
    lines = text.strip().splitlines()
    marks = [
        number
        for number in range(1, len(lines))
        if re.fullmatch(r"-{3,}", lines[number].strip()) and lines[number - 1].strip()
    ]
    ends = [*(mark - 1 for mark in marks[1:]), len(lines)]
    sections = tuple(
        (lines[mark - 1].strip(), "\n".join(lines[mark + 1 : end]).strip())
        for mark, end in zip(marks, ends, strict=False)
    )
    return (lines[0].strip().rstrip(".") if lines else ""), sections


def reflow(body: str, terminal: Terminal) -> str:
    """Paragraphs and lists wrapped, directives' content and literal blocks as they are."""
    blocks = []
    for block in re.split(r"\n\s*\n", body):
        if re.match(r"\.\. [\w-]+::", block):
            block = "\n".join(line for line in block.splitlines()[1:] if not re.match(r"\s+:\w+:", line))
            blocks.append(block)
        elif re.match(r"\s", block):
            blocks.append(block)
        elif re.match(r"[-*] ", block):
            blocks.append(_list(block, terminal))
        else:
            paragraph = plain_text(" ".join(block.split()))
            blocks.append(terminal.prose(re.sub(r"::$", ":", paragraph)))
    return "\n\n".join(block for block in blocks if block.strip())


def translated(body: str) -> str:
    """The paragraphs and lists of a body in the language that is chosen, as its page has them."""
    if chosen() == ENGLISH:
        return body
    return "\n\n".join(_translated(block) for block in re.split(r"\n\s*\n", body))


def _translated(block: str) -> str:
    if re.match(r"\.\. [\w-]+::|\s", block):
        return block
    if re.match(r"[-*] ", block):
        entries = re.split(r"(?m)^[-*] ", block)[1:]
        return "\n".join(f"- {documented(' '.join(entry.split()))}" for entry in entries)
    return documented(" ".join(block.split()))


def _list(block: str, terminal: Terminal) -> str:
    entries = re.split(r"(?m)^[-*] ", block)[1:]
    return "\n".join(
        terminal.prose(plain_text(" ".join(entry.split())), indent="  ", first="- ") for entry in entries
    )


def plain_text(text: str) -> str:
    """The text without the marks of literals, emphasis, roles and links."""
    text = re.sub(_AROUND_MARKUP, "", text)
    text = re.sub(r"``(.+?)``", r"\1", text)
    text = re.sub(r":[\w:+-]+:`~?([^`<]+?)(?:\s*<[^>]+>)?`", r"\1", text)
    text = re.sub(r"`([^`<]+?)\s*<([^>]+)>`__?", r"\1 (\2)", text)
    return re.sub(r"\*\*(\S.*?)\*\*", r"\1", text)
