"""GitLab's code quality report.

Source: docs.gitlab.com, "Code Quality", "Import Code Quality results from a CI/CD job".
"""

import json
from hashlib import sha256
from typing import Any

from tuner.findings import Severity
from tuner.render.checked.how import How
from tuner.render.checked.wording import file_of, fingerprints, is_file, path_of, told
from tuner.review.checked import Line, Problem, Review

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.ADVICE: "info"}


def rendered(review: Review, how: How) -> str:
    """A list of issues; an input that cannot be used is one as well."""
    reported = {id(line) for line in review.lines}
    issues = [_unusable(problem) for problem in review.problems]
    issues += [
        _issue(line, review.inputs[number].source, fingerprint)
        for number, line, fingerprint in fingerprints(review)
        if id(line) in reported
    ]
    return json.dumps(issues, indent=2)


def _issue(line: Line, source: str, fingerprint: str) -> dict[str, Any]:
    begin = line.location.line if is_file(line.location.source) else None
    return {
        "description": f"{line.finding.rule.name}: {told(line)}",
        "check_name": line.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[line.finding.severity],
        "location": {"path": path_of(file_of(line, source)), "lines": {"begin": begin or 1}},
    }


def _unusable(problem: Problem) -> dict[str, Any]:
    place = problem.location
    told_of = f"{path_of(place.source)}\0{problem.message}".encode("utf-8", "surrogatepass")
    return {
        "description": problem.message,
        "check_name": "unusable-input",
        "fingerprint": sha256(told_of).hexdigest(),
        "severity": "blocker",
        "location": {"path": path_of(place.source), "lines": {"begin": place.line or 1}},
    }
