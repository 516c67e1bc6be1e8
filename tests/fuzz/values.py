"""Values that people mistype and attackers choose, and secrets as they have them."""

import random

SECRET_NAMES = ("WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD")
_HEX, _LETTERS = "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

FIXED = (
    "", " ", "0", "-1", "1", "2", "3", "7", "8", "0.5", "1.5", "-0.0", "1e9", "1e15", "1000000000", "1e308",
    "-1e308", "1e400", "1e-400", "nan", "inf", "-inf", "NaN", ".nan", ".inf", "0x10", "0b1", "0o17", "1_000",
    "1:30", "true", "false", "True", "yes", "off", "null", "None", "~", "???", "auto", "fsdp", "fsdp2",
    "megatron", "vllm", "sglang", "trtllm", "hf", "grpo", "gae", "bf16", "float32", "[]", "{}", "[1]",
    "[fsdp]", "{a: 1}", "{a:1}", "[[[[1]]]]", "[null]", "[1,[2,{a:[3]}]]", "'", '"', "'x", "${", "}", "$",
    "${a}", "${a.b}", "${.}", "${..}", "${.n}", "${oc.env:HOME}", "${oc.env:X,1}", "${oc.select:a,1}",
    "${oc.select:a.b,${c}}", "${now:%Y}", "${eval:1}", "${trainer.nnodes}", "${actor_rollout_ref}", "\\", "\t",
    "#", "a#b", ":", "::", "a: b", "a=b", "=", "==", "+", "++", "-", "--", "---", "...", "*", "*x", "&x", "!",
    "!!int x", "%", "@", "/", "//", "..", "../..", "/dev/null", "~root", "~nobody/x", "$(touch x)", "`touch x`",
    "$HOME", "$((1/0))", "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen2.5-VL-7B-Instruct", "\u00e9", "\u4e2d\u6587", "\u202e", "\u200b", "\U0001f600", "\x1b[31m", "\x7f",
    "\x00", "\ud800", "\udcff", "a\nb", "\r\n", "\ufeff", "9223372036854775807", "18446744073709551616",
)  # fmt: skip


def value(rng: random.Random) -> str:
    """One value as text."""
    draw = rng.random()
    if draw < 0.55:
        return rng.choice(FIXED)
    if draw < 0.75:
        return str(rng.choice((1, -1)) * rng.randrange(10 ** rng.randrange(1, 20)))
    if draw < 0.8:
        return f"{rng.uniform(-2, 2) * 10 ** rng.randrange(-8, 12):g}"
    if draw < 0.85:
        return digits(rng)
    if draw < 0.88:
        depth = rng.choice((3, 30, 70, 200, 2_000))
        opened, closed = rng.choice((("${", "}"), ("[", "]"), ("{a:", "}"), ("(", ")")))
        return opened * depth + rng.choice(("x", "1", "")) + closed * rng.choice((depth, depth - 1))
    if draw < 0.9:
        return rng.choice(("a", "1", "${x}", "\u4e2d", "a.", "'", "\\", " ")) * rng.choice(
            (100, 5_000, 50_000)
        )
    return rng.choice(FIXED) + rng.choice(FIXED)


def digits(rng: random.Random) -> str:
    """A number that no job has."""
    count = rng.choice((16, 20, 300, 400, 1_000, 4_000, 4_400, 5_000))
    start = rng.choice(("", "-", "0x", "+", "1.", "0b1", "1e"))
    return start + "9" * count


def secret(rng: random.Random) -> str:
    """Something that must not be printed, in a form that providers use."""
    forms = (("hf_", _LETTERS, 34), ("", _HEX, 40), ("sk-", _LETTERS, 40), ("ghp_", _LETTERS, 36))
    start, letters, length = rng.choice(forms)
    return start + "".join(rng.choice(letters) for _ in range(length))


def mutated(rng: random.Random, text: str) -> str:
    """A text with a few places cut, doubled, swapped or overwritten."""
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 1, 2, 8, 60)))
        piece = rng.choice(("", text[start:end] * 2, value(rng), rng.choice("[]{}()'\"$\\#=:,-\n\t !&*|<>;")))
        text = text[:start] + piece + text[end:]
        if len(text) > 400_000:
            break
    return text


def as_bytes(rng: random.Random, text: str) -> bytes:
    """A text as a file may have it: mostly UTF-8."""
    data = text.encode("utf-8", "surrogatepass" if rng.random() < 0.5 else "replace")
    draw = rng.random()
    if draw < 0.02:
        return text.encode("utf-16", "replace")
    if draw < 0.05:
        place = rng.randrange(len(data) + 1)
        return data[:place] + bytes([rng.randrange(256)]) + data[place:]
    return data.replace(b"\n", b"\r\n") if draw < 0.08 else data
