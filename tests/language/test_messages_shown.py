"""What the program says itself is no secret: no message loses a word to the rule that hides a user's."""

import polib

from tests.cli.runner import ROOT
from tuner.inputs.secrets import without_secrets


def test_no_message_of_either_language_is_taken_for_a_secret() -> None:
    catalogue = polib.pofile(str(ROOT / "locale/zh_CN/LC_MESSAGES/tuner.po"))
    texts = [
        text
        for entry in catalogue
        for text in (entry.msgid, entry.msgid_plural, entry.msgstr, *entry.msgstr_plural.values())
    ]
    assert len(texts) > 5_000
    assert {text: without_secrets(text) for text in texts if without_secrets(text) != text} == {}
