"""Credentials as providers write them, with made-up letters, and what only looks like one.

They are put together here, so that no scanner takes the tests for a leak.
"""

_HEX, _LETTERS = "0a1b2c3d4e5f6789", "aB3dE5gH7jK9mN1pQ4rS6tU8vW0xY2z"


def _hex(length: int) -> str:
    return (_HEX * 8)[:length]


def _mixed(length: int) -> str:
    return (_LETTERS * 8)[:length]


#: The credential as it stands somewhere, and the part of it that must not be seen.
SHAPED: tuple[tuple[str, str], ...] = tuple(
    (text, secret)
    for text, secret in (
        *((f"{start}{secret}", secret) for start, secret in (
            ("hf" + "_", _mixed(34)),
            ("api_" + "org_", _mixed(34)),
            ("sk" + "-", _mixed(48)),
            ("sk" + "-", "1234abcd"),
            ("sk" + "-proj-", _mixed(40)),
            ("sk" + "-ant-api03-", _mixed(60)),
            ("sk" + "-or-v1-", _hex(64)),
            ("gh" + "p_", _mixed(36)),
            ("gh" + "s_", _mixed(36)),
            ("github" + "_pat_", _mixed(22) + "_" + _mixed(59)),
            ("gl" + "pat-", _mixed(20)),
            ("gl" + "rt-", _mixed(20)),
            ("AI" + "za", _mixed(35)),
            ("GOC" + "SPX-", _mixed(28)),
            ("ya" + "29.", _mixed(40)),
            ("AK" + "IA", "Q3EXAMPLE7JK2LMN"),
            ("AS" + "IA", "Q3EXAMPLE7JK2LMN"),
            ("LT" + "AI", _mixed(20)),
            ("xo" + "xb-", "123456789012-" + _mixed(24)),
            ("xa" + "pp-1-", "A0123-456-" + _hex(40)),
            ("https://hooks.slack" + ".com/services/", "T0AB/B0CD/" + _mixed(24)),
            ("https://discord.com/api/web" + "hooks/", "123456789/" + _mixed(40)),
            ("https://open.feishu.cn/open-apis/bot/v2/" + "hook/", "1f2e3d4c-aaaa-bbbb-cccc-0123456789ab"),
            ("dckr" + "_pat_", _mixed(27)),
            ("np" + "m_", _mixed(36)),
            ("py" + "pi-", "AgEIcHlwaS5vcmc" + _mixed(50)),
            ("sk" + "_live_", _mixed(24)),
            ("rk" + "_test_", _mixed(24)),
            ("wh" + "sec_", _mixed(32)),
            ("S" + "G.", _mixed(22) + "." + _mixed(43)),
            ("S" + "K", _hex(32)),
            ("ke" + "y-", _hex(32)),
            ("da" + "pi", _hex(32)),
            ("hv" + "s.", _mixed(24)),
            ("gl" + "sa_", _mixed(32) + "_0a1b2c3d"),
            ("nva" + "pi-", _mixed(64)),
            ("gs" + "k_", _mixed(52)),
            ("ms" + "-", "0a1b2c3d-4e5f-6789-0a1b-2c3d4e5f6789"),
            ("ey" + "J", _mixed(20) + "." + "ey" + "J" + _mixed(30) + "." + _mixed(43)),
        )),
        (_hex(40), _hex(40)),
        (_mixed(43).replace("0", "1") + _mixed(43) + "==", _mixed(43)),
        ("AccountName=store;Account" + "Key=" + _mixed(30) + ";EndpointSuffix=x", _mixed(30)),
        ("https://reader:correct-horse@example.org/models/x", "correct-horse"),
        ("git+https://oauth2:correct-horse@git.example.org/team/x.git", "correct-horse"),
        ("postgresql://reader:correct-horse@db.example.org:5432/runs", "correct-horse"),
        ("redis://:correct-horse@cache.example.org:6379/0", "correct-horse"),
        ("https://example.org/data?tok" + "en=correct-horse&split=train", "correct-horse"),
        ("https://store.example.org/x?sv=2024-01-01&si" + "g=correct%2Fhorse%3D", "correct%2Fhorse"),
        ("Authorization: Bear" + "er correct-horse-battery", "correct-horse-battery"),
        ("Bear" + "er correct-horse-battery", "correct-horse-battery"),
        ("Authorization: Bas" + "ic cmVhZGVyOmNvcnJlY3Q=", "cmVhZGVyOmNvcnJlY3Q"),
        ("Authorization: Tok" + "en correct-horse-battery", "correct-horse-battery"),
        ("X-Api" + "-Key: correct-horse-battery", "correct-horse-battery"),
        ("-----BEGIN RSA PRIVATE" + " KEY-----" + _mixed(64) + "-----END PRIVATE" + " KEY-----", _mixed(64)),
        ("password=correct-horse", "correct-horse"),
    )
)  # fmt: skip

#: Without a shape: hidden by the name before them, or because the user made up the name.
BARE = ("hunter2", "correct-horse-battery-staple", "Tr0ub4dor-3", "swordfish-x9")

#: Names of variables that hold a secret, or of which nobody knows.
VARIABLES = (
    *("DB_PASS", "PASSPHRASE", "OPENAI_KEY", "REDIS_PASSWORD", "MY_TOKEN", "WANDB_API_KEY", "SLACK_WEBHOOK"),
    *("AWS_SECRET_ACCESS_KEY", "GITLAB_TOKEN", "SOMETHING", "INTERNAL_ID", "X_AUTH"),
)

#: What must stay readable as the value of a key that the release has.
READABLE = (
    *("Qwen/Qwen2.5-7B-Instruct", "deepseek-ai/DeepSeek-V3-0324", "/path/to/data.parquet", "sk-learn-data"),
    *(
        "~/data/gsm8k/train.parquet",
        "task-20240611-17",
        "hdfs://namenode:9000/user/x/train.parquet",
        "bfloat16",
    ),
    *("openai/gsm8k", "meta-llama/Llama-3.1-8B", "s3://bucket/models/qwen", "full_hh_rlhf_examples", "fsdp2"),
    *(
        "/models/dpsk-v3-671B-BF16-dist_ckpt",
        "https://example.org/data/train.parquet",
        "hf_tokenizer",
        "hf_overrides",
    ),
    "/hub/models--Qwen--Qwen3-8B/snapshots/" + _hex(40),
    "/code/verl-" + _hex(40) + "/data",
    "https://github.com/verl-project/verl/tree/" + _hex(40),
    *("http://localhost:8000/v1", "flash_attention_2", "rank-weighted-mean", "desk-research", "mask-token"),
)
