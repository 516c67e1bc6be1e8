"""The shapes of credentials: what providers publish of them, so that they are known wherever they stand.

A row is looked for only in a text that holds one of its markers, and its pattern is compiled only then:
nearly every text holds none. What a pattern calls ``shown`` stays; all else that it matches is hidden.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

GITLEAKS = "gitleaks 8.24, config/gitleaks.toml"
GITHUB = "docs.github.com, Supported secret scanning patterns"
RFC = "RFC 3986, 3.2.1; RFC 6750; RFC 7617; RFC 7519; RFC 7468"


class CredentialShape(NamedTuple):
    """One form of credentials."""

    name: str
    markers: tuple[str, ...]  # one of them stands in every credential of this form
    pattern: str
    source: str


# Characters of a value up to a blank or a quotation mark, also of one that JSON has escaped.
_OF_VALUE = r"(?:[^\s\"'\\<>]|\\[^\"'\s])"
_START = r"(?<![A-Za-z0-9])"
# Words that follow "hf_" or "sk-" in names of functions, variables and packages.
_NO_HF = (
    r"(?!(?:tokenizer|transfer|checkpoint|processor|weights?|datasets?|format|settings|overrides|examples?)"
    r"(?![A-Za-z0-9]))"
)
_NO_SK = r"(?!(?:learn|image|video)(?![A-Za-z0-9]))"
_PARAMETER = (
    r"(?:access_?token|auth_?token|id_?token|refresh_?token|token|auth|api_?key|key|sig|signature|password|passwd"
    r"|pwd|secret|client_?secret|code|sas|x-amz-(?:signature|credential|security-token)|x-goog-signature)"
)
_HEADER = (
    r"(?:(?:proxy-)?authorization|x-api-key|api-key|x-auth-token|x-access-token|private-token|job-token"
    r"|x-goog-api-key|x-vault-token|ocp-apim-subscription-key|set-cookie|cookie)"
)
# "api-key" and "subscription-key" in any case, but not "unknown-key", which reports are full of.
_KEY_MARKERS = tuple(
    letters + word
    for letters in ("pi", "Pi", "pI", "PI", "on", "On", "oN", "ON")
    for word in ("-Key", "-key", "-KEY")
)
_SCHEME = r"(?:bearer|basic|token|digest|apikey|negotiate)"

SHAPES: Sequence[CredentialShape] = (
    CredentialShape(
        "Hugging Face", ("hf_",), rf"{_START}hf_{_NO_HF}[A-Za-z0-9]{{8,}}|hf_[A-Za-z0-9]{{30,}}", GITLEAKS
    ),
    CredentialShape("Hugging Face, organisation", ("api_org_",), r"api_org_[A-Za-z0-9]{16,}", GITLEAKS),
    CredentialShape(
        "OpenAI, Anthropic, DeepSeek, OpenRouter, LiteLLM",
        ("sk-",),
        # Glued to whatever else is longer than any name; task-, disk- and the like are words.
        rf"{_START}sk-{_NO_SK}[A-Za-z0-9_-]{{3,}}|(?<![adiceru])sk-[A-Za-z0-9]{{30,}}",
        GITLEAKS,
    ),
    CredentialShape(
        "GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{16,}", GITHUB
    ),
    CredentialShape("GitHub, fine-grained", ("github_pat_",), r"github_pat_\w{20,}", GITHUB),
    CredentialShape(
        "GitLab",
        ("gl", "GR1348941"),
        r"\bgl(?:pat|dt|ptt|rt|rtr|cbt|ft|soat|imt|agent|oas|ffct)-[\w.-]{8,}|GR1348941[\w-]{20,}",
        GITLEAKS,
    ),
    CredentialShape("Google, API key", ("AIza",), r"AIza[\w-]{20,}", GITLEAKS),
    CredentialShape("Google, OAuth", ("GOCSPX-", "ya29."), r"GOCSPX-[\w-]{20,}|ya29\.[\w.-]{20,}", GITHUB),
    CredentialShape(
        "AWS",
        ("AKIA", "ASIA", "ABIA", "ACCA", "A3T"),
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{12,}",
        GITLEAKS,
    ),
    CredentialShape(
        "Azure, storage or Cosmos key", ("==",), r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==", GITHUB
    ),
    CredentialShape("Azure, client secret", ("Q~",), r"[\w.~-]{3}\dQ~[\w.~-]{31,34}", GITLEAKS),
    CredentialShape(
        "Azure, connection string",
        ("Key=",),
        rf"(?P<shown>(?:Account|SharedAccess)Key=)(?:(?!;){_OF_VALUE})+",
        GITHUB,
    ),
    CredentialShape("Alibaba Cloud", ("LTAI",), r"LTAI[A-Za-z0-9]{12,}", GITLEAKS),
    CredentialShape("Tencent Cloud", ("AKID",), r"AKID[A-Za-z0-9]{13,}", GITHUB),
    CredentialShape("Volcengine", ("AKLT",), r"AKLT[\w-]{20,}", GITHUB),
    CredentialShape(
        "Slack", ("xox", "xapp-"), r"xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|xapp-\d-[\w-]{10,}", GITLEAKS
    ),
    CredentialShape(
        "hooks of chats",
        ("hooks.slack.com/", "/api/webhooks/", "/webhookb2/", "/bot/v2/hook/"),
        rf"(?P<shown>hooks\.slack\.com/|/api/webhooks/|/webhookb2/|/bot/v2/hook/){_OF_VALUE}+",
        GITLEAKS,
    ),
    CredentialShape("Telegram", (":AA",), r"(?<!\d)\d{8,10}:AA[\w-]{30,}", GITLEAKS),
    CredentialShape("Docker", ("dckr_",), r"dckr_(?:pat|oat)_[\w-]{16,}", GITHUB),
    CredentialShape(
        "npm", ("npm_",), rf"{_START}npm_(?=[a-z_]{{0,200}}[A-Z0-9])[A-Za-z0-9]{{16,}}", GITLEAKS
    ),
    CredentialShape("PyPI", ("pypi-",), r"pypi-(?=[\w-]{0,200}[A-Z])[\w-]{16,}", GITLEAKS),
    CredentialShape(
        "Stripe",
        ("k_live_", "k_test_", "whsec_"),
        r"[srp]k_(?:live|test)_\w{8,}|whsec_[\w+/=]{16,}",
        GITLEAKS,
    ),
    CredentialShape("SendGrid", ("SG.",), r"SG\.[\w-]{16,}\.[\w-]{16,}", GITLEAKS),
    CredentialShape("Twilio", ("SK",), rf"{_START}SK[0-9a-f]{{32}}", GITLEAKS),
    # It begins with what is always there, to which a search leaps: many a report has such a word.
    CredentialShape("Mailgun", ("key-",), r"key-(?<![A-Za-z0-9]key-)[0-9a-f]{32}", GITLEAKS),
    CredentialShape(
        "Mailchimp",
        tuple(f"-us{digit}" for digit in range(10)),
        rf"{_START}[0-9a-f]{{32}}-us\d{{1,2}}",
        GITLEAKS,
    ),
    CredentialShape("Databricks", ("dapi",), r"dapi[0-9a-f]{32}(?:-\d)?", GITLEAKS),
    CredentialShape("DigitalOcean", ("_v1_",), r"do[opr]_v1_[0-9a-f]{40,}", GITLEAKS),
    CredentialShape("Vault", ("hvs.", "hvb.", "hvr."), r"\bhv[sbr]\.[\w-]{20,}", GITLEAKS),
    CredentialShape("Grafana", ("glsa_", "glc_"), r"glsa_\w{20,}|glc_[\w+/=]{20,}", GITLEAKS),
    CredentialShape("NVIDIA", ("nvapi-",), r"nvapi-[\w-]{16,}", GITHUB),
    CredentialShape(
        "Groq, xAI, Perplexity", ("gsk_", "xai-", "pplx-"), rf"{_START}(?:gsk_|xai-|pplx-)\w{{16,}}", GITHUB
    ),
    CredentialShape("Replicate", ("r8_",), rf"{_START}r8_[A-Za-z0-9]{{20,}}", GITHUB),
    CredentialShape("Tavily", ("tvly-",), r"tvly-[\w-]{12,}", GITHUB),
    CredentialShape("LangSmith", ("lsv2_",), r"lsv2_(?:pt|sk)_\w{16,}", GITHUB),
    CredentialShape("Weights & Biases", ("wandb_v1_",), r"wandb_v1_\w{16,}", GITHUB),
    CredentialShape("Pinecone", ("pcsk_",), r"pcsk_\w{20,}", GITHUB),
    CredentialShape("RunPod", ("rpa_",), rf"{_START}rpa_[A-Z0-9]{{20,}}\w*", GITHUB),
    CredentialShape("Sentry", ("sntry",), r"sntry[su]_[\w+/=]{20,}", GITLEAKS),
    CredentialShape("Atlassian", ("ATATT3", "ATCTT3"), r"AT[AC]TT3[\w=-]{20,}", GITLEAKS),
    CredentialShape("Shopify", ("shp",), r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", GITLEAKS),
    CredentialShape("Notion", ("ntn_", "secret_"), rf"{_START}(?:ntn_|secret_)[A-Za-z0-9]{{40,}}", GITLEAKS),
    CredentialShape(
        "ModelScope", ("ms-",), rf"{_START}ms-[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}", GITHUB
    ),
    CredentialShape("age", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[0-9A-Z]{20,}", GITLEAKS),
    CredentialShape("JSON web token", ("eyJ",), r"(?<![\w-])eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*", RFC),
    CredentialShape(
        "private key",
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s,:.-]|\\[nrt])*",
        RFC,
    ),
    CredentialShape(
        "name and password in an address",
        ("@",),
        r"(?P<shown>(?<![\w+.-])[A-Za-z][\w+.-]{0,30}:/{1,2})"
        rf"(?:[^\s/:@\"'<>\\]{{0,200}}:(?!\d+/)(?:(?!@){_OF_VALUE}){{1,200}}(?=@)|(?!git@)[^\s/:@\"'<>\\]{{1,200}}(?=@))",
        RFC,
    ),
    CredentialShape(
        "parameter of an address",
        ("?", "&"),
        rf"(?P<shown>(?i:[?&;]{_PARAMETER})=)(?:(?![&#]){_OF_VALUE})+",
        GITLEAKS,
    ),
    CredentialShape(
        "header",
        ("uthorization", "UTHORIZATION", *_KEY_MARKERS, "-Token", "-token", "-TOKEN", "ookie"),
        rf"(?P<shown>(?i:{_HEADER})[\"']?\s*[:=]\s*[\"']?)(?i:{_SCHEME}\s+)?"
        rf"(?:(?![,;}}\]]){_OF_VALUE})+(?:; ?(?:(?![,;}}\]]){_OF_VALUE})+)*",
        RFC,
    ),
    CredentialShape(
        "scheme of a header",
        ("earer ", "EARER ", "asic "),
        r"(?P<shown>(?i:\bbearer) +)(?!tokens?\b)[\w.~+/=-]{4,}"
        r"|(?P<shown_too>\bBasic +)(?=[A-Za-z+/]{0,200}[0-9=])[A-Za-z0-9+/]{8,}={0,2}",
        RFC,
    ),
)

_LONG = 4096  # characters, from which on to look for all markers takes longer than to sort the lines out
_MARKED = tuple((marker, number) for number, shape in enumerate(SHAPES) for marker in shape.markers)


@cache
def _pattern(number: int) -> re.Pattern[str]:
    return re.compile(SHAPES[number].pattern)


def without_shapes(text: str, word: str) -> str:
    """A text with a word in place of everything that has the shape of a credential."""
    lines = _different_lines(text) if len(text) > _LONG else text
    numbers = [number for marker, number in _MARKED if marker in lines]
    for number in dict.fromkeys(numbers):
        text = _pattern(number).sub(lambda match: _head(match) + word, text)
    return text


def _different_lines(text: str) -> str:
    """The lines of a text once each, without what indents them: of a long report a tenth.

    No marker begins with a blank or goes on in a further line, so each that the text has is here as well.
    """
    return "\n".join({line.lstrip(" ") for line in text.split("\n")})


def _head(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("shown") or groups.get("shown_too") or ""


# Keys of Weights & Biases are 40 hexadecimal digits, as the hashes of commits and snapshots are.
_DIGITS = 40


@cache
def _hexadecimal() -> re.Pattern[str]:
    return re.compile(r"(?<![0-9a-f])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{40,}")


@cache
def _hash_before() -> re.Pattern[str]:
    return re.compile(
        r"(?:snapshots|blobs?|commits?|tree|raw|archive|revisions?|objects|checkouts?)/$|sha256:$|@$"
        r"|(?:^|[\s=,'\"\[])(?:/|~|\.{1,2}/)(?:[^\s:'\"]*[/_.-])?$"  # within a path of a file
    )


def without_digits(text: str, word: str) -> str:
    """A text without long hexadecimal digits, but where they name a commit, a snapshot or a file."""
    if len(text) < _DIGITS:
        return text

    def hidden(match: re.Match[str]) -> str:
        before = text[max(0, match.start() - 300) : match.start()]
        return match[0] if _hash_before().search(before) else word

    return _hexadecimal().sub(hidden, text)
