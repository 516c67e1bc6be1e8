"""GPU profiles, their names, and the GPU of this machine."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import fields, replace

from tuner import gpus, shipped
from tuner import nvml as nvml_module
from tuner.errors import InputError
from tuner.evidence import Evidence
from tuner.gpus import counted, find_gpu, gpu_names, namesakes
from tuner.hardware import Cluster, Gpu
from tuner.units import GIB, GIGA, MIB, TERA

FILES = sorted((shipped.profiles() / "gpus").glob("*.yaml"))


# -- profiles ------------------------------------------------------------------------------


def test_there_are_many_profiles_named_like_their_files() -> None:
    assert len(FILES) >= 18
    assert gpu_names() == tuple(sorted(file.stem for file in FILES))


def test_no_name_stands_for_two_cards() -> None:
    names = [
        gpus._normal(name)
        for file in FILES
        for name in {
            gpus._normal(n) for key in ("names", "device_names") for n in gpus._content(file).get(key, [])
        }
    ]
    assert len(names) == len(set(names))
    assert all(isinstance(name, str) for name in names)


@pytest.mark.parametrize("name", gpu_names())
def test_figures_are_plausible(name: str) -> None:
    gpu = find_gpu(name)
    assert gpu.name == name
    assert gpu.evidence is Evidence.EXACT
    assert gpu.vendor in {"nvidia", "amd", "huawei"}
    assert 14 * GIB < gpu.memory_bytes < 300 * GIB  # the T4 has least
    assert 270 * GIGA <= gpu.memory_bytes_per_s <= 8000 * GIGA
    assert 65 * TERA <= gpu.dense_bf16_flop_per_s <= 2500 * TERA
    assert 16 * GIGA <= gpu.host_bytes_per_s <= 450 * GIGA  # over PCIe 3.0
    assert 16 * GIGA <= gpu.link_bytes_per_s <= 900 * GIGA
    if gpu.dense_fp8_flop_per_s is not None:  # twice the bf16 peak, whatever sparsity would add
        assert gpu.dense_fp8_flop_per_s == pytest.approx(2 * gpu.dense_bf16_flop_per_s, rel=0.02)
    assert gpu.source


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("h100-sxm", 81559),
        ("h200", 143771),
        ("a100-80g", 81920),
        ("a100-40g", 40960),
        ("b200", 183359),
        ("h20", 97871),
        ("rtx-4090", 24564),
        ("mi300x", 196592),
        ("ascend-910b", 65536),
    ],
)
def test_memory_is_what_the_driver_reports(name: str, mib: int) -> None:
    assert find_gpu(name).memory_bytes == mib * MIB


def test_units_are_converted_once() -> None:
    gpu = find_gpu("h100-sxm")
    assert gpu.memory_bytes_per_s == pytest.approx(3.35e12)
    assert gpu.dense_bf16_flop_per_s == pytest.approx(989.4e12)
    assert gpu.link_bytes_per_s == pytest.approx(450e9)
    assert gpu.host_bytes_per_s == pytest.approx(64e9)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100", "h100-sxm"),
        ("H100", "h100-sxm"),
        (" h100-80g ", "h100-sxm"),
        ("H100_80G", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("h100 pcie", "h100-pcie"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40g"),
        ("A100", "a100-sxm-80g"),
        ("4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("910B", "ascend-910b"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert find_gpu(spelling).name == name


@pytest.mark.parametrize("name", ["h1000", "", "gtx-1080", "nvidia", "sm_90", "80GB"])
def test_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(InputError) as caught:
        find_gpu(name)
    assert repr(name) in caught.value.message
    assert caught.value.hint is not None
    assert all(known in caught.value.hint for known in gpu_names())


def test_near_names_are_suggested() -> None:
    with pytest.raises(InputError, match="near it: h100-sxm"):
        find_gpu("h100-smx")


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("8xh100-sxm", 8, "h100-sxm"),
        ("16XH200", 16, "H200"),
        ("8 x h100", 8, "h100"),
        ("h100", None, "h100"),
        ("xh100", None, "xh100"),
        ("0xh100", None, "0xh100"),
        ("8x", None, "8x"),
        ("4090", None, "4090"),
    ],
)
def test_a_number_may_stand_before_the_card(text: str, count: int | None, name: str) -> None:
    assert counted(text) == (count, name)


def test_a_file_with_a_number_in_its_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert counted("8xmine.yaml") == (8, "mine.yaml")
    Path("8xmine.yaml").touch()
    assert counted("8xmine.yaml") == (None, "8xmine.yaml")


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("h100", ("h100-nvl", "h100-pcie")),
        ("A100", ("a100-pcie-40g", "a100-pcie-80g", "a100-sxm-40g")),
        ("a100-80g", ("a100-pcie-80g",)),
        ("a100-sxm", ("a100-sxm-40g",)),
        ("h100-sxm", ()),
        ("NVIDIA H100 80GB HBM3", ()),
        ("h200", ()),
        ("h20", ()),
        ("l4", ()),
    ],
)
def test_a_short_name_may_mean_other_profiles(name: str, others: tuple[str, ...]) -> None:
    assert namesakes(name) == others


@pytest.mark.parametrize(
    ("name", "most"), [("h100", 8), ("a100", 16), ("mi300x", 8), ("h100-pcie", None), ("l20", None)]
)
def test_a_node_has_no_more_than_its_board(name: str, most: int | None) -> None:
    assert find_gpu(name).per_node == most


GOOD = (shipped.profiles() / "gpus" / "h200-sxm.yaml").read_text(encoding="utf-8")
MEASURED = """
measured:
  date: "2026-01-31"
  versions: {driver: "580.1", torch: "2.11.0"}
  usable_mib: 143000
  memory_gb_per_s: 4300.5
"""


def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "gpus"
    folder.mkdir()
    (folder / "h200-sxm.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(shipped, "profiles", lambda: tmp_path)


def test_measured_figures_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile(monkeypatch, tmp_path, GOOD + MEASURED)
    measured = find_gpu("h200").measured
    assert measured is not None
    assert measured.date == "2026-01-31"
    assert measured.versions == (("driver", "580.1"), ("torch", "2.11.0"))
    assert measured.usable_bytes == 143000 * MIB
    assert measured.memory_bytes_per_s == pytest.approx(4.3005e12)
    assert measured.context_bytes is None


def test_a_file_is_a_profile_too(tmp_path: Path) -> None:
    file = tmp_path / "Mine.YAML"
    file.write_text(GOOD + MEASURED, encoding="utf-8")
    gpu = find_gpu(str(file))
    assert gpu.measured is not None
    assert gpu.capacity_bytes == 143000 * MIB
    assert replace(gpu, measured=None) == replace(find_gpu("h200"), measured=None)
    assert gpu.limited_to(GIB).capacity_bytes == GIB
    assert gpu.limited_to(1000 * GIB).capacity_bytes == gpu.capacity_bytes


@pytest.mark.parametrize(
    ("change", "key", "stands"),
    [
        (("memory_mib: 143771", "memory_mib: -1"), "memory_mib", "memory_mib:"),
        (("host_gb_per_s: 64 ", "host_gb_per_s: .inf "), "host_gb_per_s", "host_gb_per_s:"),
        (("usable_mib: 143000", "usable_mib: .nan"), "usable_mib", "usable_mib:"),
        (("  memory_gb_per_s: 4300.5", "  memory_gb_per_s: -2"), "memory_gb_per_s", "memory_gb_per_s: -2"),
        (("  usable_mib", "  fan_rpm: 1\n  usable_mib"), "fan_rpm", "fan_rpm:"),
        (('  date: "2026-01-31"\n', ""), "date", "measured:"),
        (("names: [h200-sxm, ", "names: [7, "), "names", "names:"),
    ],
)
def test_a_users_profile_is_told_what_is_wrong_and_where(
    change: tuple[str, str], key: str, stands: str, tmp_path: Path
) -> None:
    text = GOOD + MEASURED
    assert change[0] in text
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        find_gpu(str(file))
    assert caught.value.key == key
    location = caught.value.location
    assert location is not None and location.line is not None
    assert location.source == str(file)
    assert file.read_text().splitlines()[location.line - 1].strip().startswith(stands)


def test_a_file_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        find_gpu(str(tmp_path / "none.yaml"))
    (tmp_path / "folder.yml").mkdir()
    with pytest.raises(InputError, match="directory"):
        find_gpu(str(tmp_path / "folder.yml"))
    large = tmp_path / "large.yaml"
    large.write_text("a: " + "x" * 300_000, encoding="utf-8")
    with pytest.raises(InputError, match="larger than the limit"):
        find_gpu(str(large))
    for broken in ("a: [", "[" * 5000, "- 1\n", "a: *b\n"):
        large.write_text(broken, encoding="utf-8")
        with pytest.raises(InputError):
            find_gpu(str(large))
    large.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not valid YAML"):
        find_gpu(str(large))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (GOOD + "memory_gb: 141\n", "memory_gb"),
        (GOOD.replace("memory_mib: 143771", "memory_mib: many"), "memory_mib"),
        (GOOD.replace("memory_mib: 143771", "memory_mib: 0"), "memory_mib"),
        (GOOD.replace("memory_mib: 143771\n", ""), "memory_mib"),
        (GOOD.replace("link_gb_per_s: 450", "link_gb_per_s: true"), "link_gb_per_s"),
        (GOOD + MEASURED + "  fan_rpm: 1\n", "fan_rpm"),
        (GOOD + MEASURED.replace('  date: "2026-01-31"\n', ""), "date"),
    ],
)
def test_malformed_profile_is_named(
    text: str, key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile(monkeypatch, tmp_path, text)
    with pytest.raises(InputError) as caught:
        find_gpu("h200")
    assert caught.value.key == key
    assert "h200-sxm.yaml" in str(caught.value.location)


# -- this machine --------------------------------------------------------------------------


@dataclass
class FakeNvml:
    """As much of pynvml as is called."""

    name: str = "NVIDIA H200"
    total: int | None = 143771 * MIB - 5
    starts: bool = True
    running: bool = False

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.starts:
            raise self.NVMLError("driver not loaded")
        self.running = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.running = False

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.name

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        if self.total is None:
            raise self.NVMLError("not supported")
        return SimpleNamespace(total=self.total)


def install(monkeypatch: pytest.MonkeyPatch, nvml: object) -> None:
    monkeypatch.setattr(nvml_module, "_DEVICES", ("/",))
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]


def test_the_driver_names_the_card_and_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    install(monkeypatch, nvml)
    gpu = find_gpu(None)
    assert gpu.name == "h200-sxm"
    assert gpu.memory_bytes == 143771 * MIB - 5
    assert gpu.evidence is Evidence.EXACT
    assert not nvml.running


def test_a_card_that_reports_no_memory_has_its_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml(total=None))
    assert find_gpu(None) == find_gpu("h200")


def test_a_card_without_profile_asks_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml(name="NVIDIA Tesla P40"))
    with pytest.raises(InputError, match="NVIDIA Tesla P40") as caught:
        find_gpu(None)
    assert caught.value.hint is not None
    assert "--gpu" in caught.value.hint


def assumed(gpu: Gpu) -> bool:
    known = find_gpu("h100-sxm")
    same = [field.name for field in fields(Gpu) if field.name not in {"name", "evidence"}]
    assert all(getattr(gpu, name) == getattr(known, name) for name in same)
    return gpu.name == "assumed 80 GB GPU" and gpu.evidence is Evidence.HEURISTIC


@pytest.mark.parametrize("nvml", [FakeNvml(starts=False), None], ids=["no driver", "no pynvml"])
def test_without_a_gpu_one_is_assumed_and_says_so(nvml: object, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, nvml)
    assert assumed(find_gpu(None))


def test_a_machine_without_driver_does_not_load_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_module, "_DEVICES", ("/dev/there-is-no-such-device",))
    monkeypatch.setattr(nvml_module, "os", SimpleNamespace(name="posix", path=nvml_module.os.path))
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())  # type: ignore[arg-type]
    assert assumed(find_gpu(None))


def test_cluster_counts_its_gpus() -> None:
    cluster = Cluster(gpu=find_gpu("h100"), gpus_per_node=8, nodes=4, network_bytes_per_s=50e9)
    assert cluster.gpus == 32


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("a100-80g", 79.1),
        ("a100-pcie-80g", 79.1),
        ("a100-40g", 39.4),
        ("h100", 79.1),
        ("h800", 79.1),
        ("h200", 139.8),
        ("rtx-4090", 23.55),
        ("l40s", 44.53),
        ("l40", 44.40),
        ("b200", 178.36),
        ("a30", 23.496),
        ("t4", 14.56),
        ("rtx-5090", 31.36),
        ("rtx-3090", 23.68),
        ("a10", 21.99),
        ("h100-nvl", 93.0),
        ("a800", 79.33),
        ("v100-sxm2-32g", 31.74),
        ("ascend-910c", 61.27),
    ],
)
def test_what_pytorch_is_offered_is_that_of_published_lines(name: str, gib: float) -> None:
    gpu = find_gpu(name)
    assert gpu.capacity_bytes < gpu.memory_bytes
    assert gpu.capacity_bytes / GIB == pytest.approx(gib, abs=0.01)
