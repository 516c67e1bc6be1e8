"""The page of a rule in Markdown, for formats that carry it along."""

import re
from functools import cache

from tuner.render.all_rules import rules_and_modules
from tuner.render.document.markdown import escaped
from tuner.render.rst import plain_text
from tuner.render.rule_page import RulePage
from tuner.render.rule_page import rule_page as page_of_rule


@cache
def rule_page(code: str) -> RulePage:
    """The page of the rule with a code, which there is."""
    rule, module = next(pair for pair in rules_and_modules() if pair[0].code == code)
    return page_of_rule(rule, module)


def markdown_of(shown: RulePage) -> str:
    """A page's title and sections."""
    parts = [f"# {shown.rule.code} {shown.rule.name}", plain_text(shown.title)]
    for heading, body in shown.sections:
        parts += [f"## {heading}", *(_block(block) for block in re.split(r"\n\s*\n", body))]
    return "\n\n".join(parts)


def _block(block: str) -> str:
    directive = re.match(r"\.\. [\w-]+::", block)
    if directive is not None or re.match(r"\s", block):
        lines = block.splitlines()[1 if directive is not None else 0 :]
        return "\n".join(["```", *(line.strip() for line in lines if not re.match(r"\s+:\w+:", line)), "```"])
    if re.match(r"[-*] ", block):
        entries = re.split(r"(?m)^[-*] ", block)[1:]
        return "\n".join(f"- {_words(' '.join(entry.split()))}" for entry in entries)
    return _words(" ".join(block.split()))


def _words(text: str) -> str:
    """A paragraph; literals stay literals."""
    pieces = re.split(r"``(.+?)``", text)
    return "".join(
        f"`{piece}`" if number % 2 else escaped(plain_text(piece)) for number, piece in enumerate(pieces)
    )
