"""What counts as a secret of a script, and what does not."""

import pytest

from tests.credentials import SHAPED
from tuner.inputs.secrets import HIDDEN, is_secret, without_secrets
from tuner.inputs.secrets.shapes import SHAPES, without_shapes


@pytest.mark.parametrize(
    ("variable", "value", "secret"),
    [
        ("WANDB_API_KEY", "0123456789abcdef", True),
        ("HF_TOKEN", "hf_abcdefgh", True),
        ("DB_PASSWORD", "'correct horse'", True),
        ("MAX_TOKEN", "16384", False),
        ("prompt_key", "prompt_text", False),
        ("MODEL_PATH", "Qwen/Qwen3-8B", False),
    ],
)
def test_a_secret_is_told_by_its_name(variable: str, value: str, secret: bool) -> None:
    assert is_secret(variable, value) is secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("trainer.token=hf_abcdefghij", "trainer.token=hidden"),
        ("env.WANDB_API_KEY=0123456789abcdef x=1", "env.WANDB_API_KEY=hidden x=1"),
        ("data.prompt_key=prompt", "data.prompt_key=prompt"),
        ("actor.ppo_max_token_len_per_gpu=16384", "actor.ppo_max_token_len_per_gpu=16384"),
        ("a=" + "0a" * 20, "a=hidden"),
        ("a=key" + "0a" * 20 + "b0 of me", "a=keyhidden of me"),
        (
            "sha256:" + "0a" * 32 + " snapshots/" + "0a" * 20,
            "sha256:" + "0a" * 32 + " snapshots/" + "0a" * 20,
        ),
        ("data.seed=" + "19" * 30, "data.seed=" + "19" * 30),
        ("x=mysk-" + "aB3" * 12, "x=myhidden"),
        ("x='hf_abcdefghij'", "x='hidden'"),
        ("trainer.project_name=full_hh_rlhf_examples", "trainer.project_name=full_hh_rlhf_examples"),
        ("ckpt=/models/dpsk-v3-671B-BF16-dist_ckpt", "ckpt=/models/dpsk-v3-671B-BF16-dist_ckpt"),
    ],
)
def test_what_has_the_form_of_a_secret_is_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_long_text_hides_what_a_short_one_does() -> None:
    """Of a report with many lines that are alike, and indented, each is looked at once."""
    alike = '      "bytes": 1024,\n' * 400
    for text, secret in SHAPED:
        shown = without_shapes(f"{alike}    {text}\n{alike}", HIDDEN)
        assert (secret in shown) == (secret in without_shapes(text, HIDDEN)), secret
        assert shown.startswith(alike) and shown.count("1024") == 800
    assert not [mark for shape in SHAPES for mark in shape.markers if mark[0] == " " or "\n" in mark]


#: What stands before "key" where it is one that opens something, each as a variable of a script may have it.
OWNERS = """
    access account ak anthropic api app auth aws azure client comet consumer cosmos dashscope deepseek
    encryption gemini google groq hf hub kaggle license litellm login master mistral modelscope neptune openai
    openrouter private rsa secret service sign signing sk ssh storage subscription swanlab user vault volc
    wandb zhipu
"""
OF_MODELS = "audio bos cls end eos first image last mask max min pad sep stop unk video"


@pytest.mark.parametrize("owner", OWNERS.split())
def test_a_key_of_somebody_is_a_secret(owner: str) -> None:
    assert is_secret(f"{owner.upper()}_KEY", "correct horse")
    assert not is_secret("prompt_key", "correct horse")


@pytest.mark.parametrize("kind", OF_MODELS.split())
def test_a_token_of_a_model_is_none(kind: str) -> None:
    assert not is_secret(f"{kind}_token", "151643x")
    assert is_secret("bot_token", "151643x")
