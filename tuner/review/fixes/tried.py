"""Which findings ``--fix`` mends: it is tried on the file, and nothing is written.

To try takes as long as to mend, a judgement of the whole job for each fix.
"""

from msgspec.structs import replace

from tuner.review.checked import Checked, FindingLine
from tuner.review.fixes.mending import keys_of, needs_unsafe


def tried(checked: Checked, afterwards: Checked) -> Checked:
    """An input as it is, with what became of each safe fix when the file was mended.

    A finding is mended also where the fix of another one leaves nothing of it.

    Args:
        checked: what is found in the file.
        afterwards: what would be found in it after ``--fix``, with the reasons for what was refused.
    """
    return replace(checked, lines=tuple(_tried(line, afterwards) for line in checked.lines))


def _tried(line: FindingLine, afterwards: Checked) -> FindingLine:
    if line.fix is None or not line.fix.safe:
        return line
    left = next((other for other in afterwards.lines if _is_the_same(other, line)), None)
    if left is None:
        return replace(line, fix=replace(line.fix, tried=True))
    if left.fix is None:
        reason = left.no_fix
    else:
        reason = left.fix.refused or ("" if left.fix.safe else needs_unsafe())
    return replace(line, fix=replace(line.fix, tried=True, refused=reason)) if reason else line


def _is_the_same(one: FindingLine, other: FindingLine) -> bool:
    return one.code == other.code and bool(keys_of(one) & keys_of(other))
