"""Takes out the findings that comments ignore."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from tuner.review.input_findings import FindingLine, Silenced, SilencedBy
from tuner.review.project.selection import KnownRules, Selection
from tuner.review.suppression import unused
from tuner.review.suppression.comments import Suppression


class Applied(Struct, frozen=True, kw_only=True):
    """The findings of one input, those that are left and those that its comments ignore."""

    lines: tuple[FindingLine, ...]
    silenced: tuple[Silenced, ...] = ()


def without_ignored(
    lines: Sequence[FindingLine],
    comments: Callable[[str], tuple[Suppression, ...]],
    *,
    source: str,
    known: KnownRules,
    selection: Selection,
    require_reason: bool,
) -> Applied:
    """Hold the findings of one input against the comments in its file, and in files that findings lie in.

    Args:
        lines: the findings that are wanted.
        comments: those of a file by its name; none of what is no file.
        source: the input's own file, whose comments are held to be of use.
        known: all rules.
        selection: which are wanted; others are never unused.
        require_reason: whether a comment has to say why.
    """
    remaining: list[FindingLine] = []
    silenced: list[Silenced] = []
    used: set[tuple[Suppression, str]] = set()
    for line in lines:
        covering = [it for it in _covering(line, comments, source) if _code_in(it, line, known)]
        used.update((it, line.finding.rule.code) for it in covering)
        if covering:
            silenced.append(_silenced(line, covering[0]))
        else:
            remaining.append(line)
    for comment in comments(source):
        idle = [word for word in comment.words if _is_idle(comment, word, used, known, selection)]
        for finding in unused.check(comment, idle, known, require_reason=require_reason):
            line = FindingLine(location=comment.place, finding=finding, overrides=())
            of_file = [it for it in comments(source) if it.whole_file and _code_in(it, line, known)]
            if of_file:
                silenced.append(_silenced(line, of_file[0]))
            elif selection.wants(finding):
                remaining.append(line)
    return Applied(lines=tuple(sorted(remaining, key=lambda line: line.rank)), silenced=tuple(silenced))


def _silenced(line: FindingLine, comment: Suppression) -> Silenced:
    return Silenced(line=line, by=SilencedBy.COMMENT, reason=comment.reason)


def _covering(
    line: FindingLine, comments: Callable[[str], tuple[Suppression, ...]], source: str
) -> Iterator[Suppression]:
    """The comments that speak of the place of a finding; one for the input's whole file, of any place."""
    place = line.location
    yield from (it for it in comments(place.source) if it.covers(place))
    if place.source != source:
        yield from (it for it in comments(source) if it.whole_file)


def _code_in(comment: Suppression, line: FindingLine, known: KnownRules) -> bool:
    return not comment.instead and line.finding.rule.code in map(known.code, comment.words)


def _is_idle(
    comment: Suppression,
    word: str,
    used: set[tuple[Suppression, str]],
    known: KnownRules,
    selection: Selection,
) -> bool:
    code = known.code(word)
    if code is None or code == unused.RULE.code or comment.instead or not selection.wants_rule(code):
        return False
    return (comment, code) not in used
