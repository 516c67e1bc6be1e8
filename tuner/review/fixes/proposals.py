"""Gives findings their fixes: the edits of the user's file that their overrides come to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.advise import Recommendation
from tuner.consultation.result import Consultation
from tuner.files import read_bytes
from tuner.findings import Numerics
from tuner.inputs.named_inputs import Input
from tuner.inputs.yaml_file import MAX_BYTES
from tuner.review.input_findings import FindingLine

if TYPE_CHECKING:
    from tuner.review.fixes.plan import ScriptFile, YamlFile

_SAME_MATHEMATICS = frozenset((Numerics.EXACT, Numerics.REORDERED))


def with_fixes(
    lines: Sequence[FindingLine],
    answer: Consultation,
    given: Input,
    *,
    launch: int | None,
    content: bytes | None,
    proved: bool,
) -> tuple[tuple[FindingLine, ...], "YamlFile | ScriptFile | None"]:
    """The findings with their fixes, or with the reasons why they have none, and what the fixes edit.

    Args:
        lines: what was found.
        answer: the answer that it is of.
        given: the input as it was named.
        launch: which launch of a script is meant, from 1.
        content: what was read in place of the file, if anything was.
        proved: whether the file is read with the fixes; else that is left to who applies them.
    """
    if not any(line.overrides for line in lines):
        return tuple(lines), None
    from msgspec.structs import replace

    from tuner.review.fixes.edits import CannotEditError
    from tuner.review.fixes.plan import editable
    from tuner.review.fixes.plan import with_fixes as fixed

    source = answer.given.source
    try:
        data = content
        if data is None:
            data = read_bytes(Path(source), most=MAX_BYTES) if answer.given.text and source != "-" else b""
        file = editable(answer.given, data, given.words, launch)
    except CannotEditError as error:
        refused = (replace(line, no_fix=str(error)) if line.overrides else line for line in lines)
        return tuple(refused), None
    recommendations = answer.advice.recommendations
    safe = {(item.finding.rule.code, item.overrides) for item in recommendations if _is_safe(item)}
    return fixed(lines, file, source=source, words=given.words, safe=safe, proved=proved), file


def _is_safe(item: Recommendation) -> bool:
    """Whether it can be followed without a decision of the user's about the training."""
    return not item.yours and item.numerics in _SAME_MATHEMATICS
