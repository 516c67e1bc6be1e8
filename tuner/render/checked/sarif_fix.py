"""A fix as SARIF has it: regions in bytes, which need no lines (3.55 fix, 3.56, 3.57)."""

from typing import Any

from tuner.review.input_findings import Fix


def sarif_fix(fix: Fix, artifact: dict[str, str]) -> dict[str, Any]:
    """One fix.

    Args:
        fix: its edits.
        artifact: where its file lies.
    """
    replacements = [
        {
            "deletedRegion": {"byteOffset": edit.start, "byteLength": edit.end - edit.start},
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    change = {"artifactLocation": artifact, "replacements": replacements}
    return {"description": {"text": fix.title}, "artifactChanges": [change]}
