"""Huge pages of a host: captures, sizes with and without columns of their own, what is not known."""

from __future__ import annotations

import shutil
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.model.codes import MISSING, RANGE, UNREADABLE, VALID
from acquisition.model.derived import DERIVED, MEMORY
from probes.checks import rate
from probes.figures.hugepages import METRICS, SIZES, Pool, figures
from probes.metrics import HOST
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_host import HostSource
from tests.support import FIXTURES

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CAPTURE = FIXTURES / "captures" / "static-hugepages" / "t0"
NAMES = [metric.name for metric in METRICS]
Sizes = dict[int, tuple[object, object, object]]  #: kB -> what the files say: total, free, reserved


def machine(directory: Path, meminfo: str = "", sizes: Sizes | None = None) -> HostFacts:
    """The capture, with more lines in /proc/meminfo in place of its own about huge pages, and with files of sizes."""
    proc, sys = directory / "proc", directory / "sys"
    shutil.copytree(CAPTURE / "proc", proc)
    if meminfo:
        kept = [line for line in (proc / "meminfo").read_text().splitlines() if not line.startswith("Huge")]
        (proc / "meminfo").write_text("\n".join([*kept, meminfo]) + "\n")
    for size, counts in (sizes or {}).items():
        base = sys / f"kernel/mm/hugepages/hugepages-{size}kB"
        base.mkdir(parents=True)
        for name, count in zip(("nr_hugepages", "free_hugepages", "resv_hugepages"), counts, strict=True):
            (base / name).write_text(f"{count}\n")
    return HostFacts("host-a", str(proc), str(sys))


def read(facts: HostFacts) -> dict[str, tuple[float, int]]:
    """All figures of the host: by the step in C, where it is there, and the same by the definition."""
    found = []
    for as_defined in (False, True):
        source = HostSource(HOST, facts)
        if as_defined:
            source._table = None
        reading = source.sample(1000.0, 50.0)
        found.append((dict(zip(HOST.metrics, map(repr, reading.values), strict=True)), bytes(reading.codes)))
        source.close()
    assert found[0] == found[1]
    names = [metric.name for metric in HOST.metrics]
    return dict(zip(names, zip(reading.values, reading.codes, strict=True), strict=True))


def huge(facts: HostFacts) -> list[tuple[float, int]]:
    """The figures of METRICS; 0 in place of what is not valid."""
    found = read(facts)
    return [(0.0 if isnan(found[name][0]) else found[name][0], found[name][1]) for name in NAMES]


def valid(*values: float) -> list[tuple[float, int]]:
    return [(float(value), VALID) for value in values]


def test_free_pages_of_a_static_pool_are_available_to_guests(tmp_path: Path) -> None:
    found = read(machine(tmp_path))
    assert [found[name] for name in NAMES] == valid(240 * GIB, 200 * GIB, 240 * GIB, 200 * GIB, 0, 0, 0, 0)
    how = DERIVED[MEMORY]
    used = how.formula(max, *(found[part][0] for part in (*how.parts, *how.extra)))
    assert used == pytest.approx(1 - (4_500_000 * KIB + 200 * GIB) / (256 * GIB))
    assert used < 0.21


def test_both_sizes_with_reserved_pages(tmp_path: Path) -> None:
    sizes: Sizes = {2048: (1000, 600, 100), 1048576: (8, 3, 3)}
    found = huge(machine(tmp_path, "Hugetlb: 10436608 kB", sizes))
    two, one = [2 * MIB * count for count in (1000, 600, 100)], [GIB * count for count in (8, 3, 3)]
    assert found == valid(two[0] + one[0], 500 * 2 * MIB, *two, *one)


def test_other_sizes_count_in_the_sums(tmp_path: Path) -> None:
    sizes: Sizes = {64: (160, 16, 0), 2048: (0, 0, 0), 32768: (10, 10, 1), 1048576: (0, 0, 0)}
    found = huge(machine(tmp_path, "Hugetlb: 337920 kB", sizes))
    assert found[:2] == valid(10 * MIB + 320 * MIB, MIB + 9 * 32 * MIB)
    assert found[2:] == valid(0, 0, 0, 0, 0, 0)


def test_pages_added_to_a_pool_count_at_the_next_reading(tmp_path: Path) -> None:
    facts = machine(tmp_path, "Hugetlb: 0 kB", {2048: (0, 0, 0)})
    source = HostSource(HOST, facts)
    assert source.sample(1000.0, 50.0).values[HOST.metrics.index(METRICS[0])] == 0.0
    proc = Path(facts.proc)
    (proc / "meminfo").write_text((proc / "meminfo").read_text().replace("Hugetlb: 0", "Hugetlb: 20480"))
    (Path(facts.sys) / "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").write_text("10\n")
    assert source.sample(1001.0, 51.0).values[HOST.metrics.index(METRICS[0])] == 20.0 * MIB
    source.close()


def test_a_host_without_huge_pages_reads_no_other_file(tmp_path: Path) -> None:
    sizes: Sizes = {2048: ("x", "x", "x")}
    assert huge(machine(tmp_path, "HugePages_Total: 0\nHugetlb: 0 kB", sizes)) == valid(*[0] * 8)


def test_a_kernel_that_says_nothing_leaves_them_missing(tmp_path: Path) -> None:
    assert huge(machine(tmp_path, "VmallocUsed: 1 kB")) == [(0.0, MISSING)] * 8


def test_an_old_kernel_names_the_default_size_only(tmp_path: Path) -> None:
    lines = "HugePages_Total: 4\nHugePages_Free: 3\nHugePages_Rsvd: 1\nHugepagesize: 1048576 kB"
    found = huge(machine(tmp_path, lines))
    assert found[:2] == valid(4 * GIB, 2 * GIB)
    assert found[2:5] == [(0.0, MISSING)] * 3
    assert found[5:] == valid(4 * GIB, 3 * GIB, GIB)


def test_sizes_that_only_their_sum_names_have_unknown_free_pages(tmp_path: Path) -> None:
    lines = "HugePages_Total: 4\nHugePages_Free: 3\nHugePages_Rsvd: 1\nHugepagesize: 2048 kB\nHugetlb: 2105344 kB"
    found = huge(machine(tmp_path, lines))
    assert found[:2] == [(2.0 * GIB + 8 * MIB, VALID), (0.0, MISSING)]
    assert found[2:5] == valid(8 * MIB, 6 * MIB, 2 * MIB)
    assert found[5:] == [(0.0, MISSING)] * 3


@pytest.mark.parametrize("text", ["x", "-1", "1 2", "9" * 60])
def test_a_file_that_is_no_number_is_unreadable(tmp_path: Path, text: str) -> None:
    found = huge(machine(tmp_path, "Hugetlb: 2048 kB", {2048: (5, text, 0), 1048576: (0, 0, 0)}))
    assert [code for _, code in found] == [VALID, UNREADABLE, VALID, UNREADABLE, VALID, VALID, VALID, VALID]


def test_more_than_the_memory_of_the_host_is_out_of_range(tmp_path: Path) -> None:
    source = HostSource(HOST, machine(tmp_path, "Hugetlb: 1048576 kB", {2048: (1 << 20, 0, 0)}))
    reading = source.sample(1000.0, 50.0)
    rate.build(HOST, {})(reading)
    codes = dict(zip([metric.name for metric in HOST.metrics], reading.codes, strict=True))
    assert codes["hugepages_2m_total_bytes"] == codes["hugepages_total_bytes"] == RANGE
    assert codes["hugepages_2m_free_bytes"] == VALID
    source.close()


counts = st.integers(0, 1 << 20)


@given(st.dictionaries(st.sampled_from([64 * KIB, *SIZES.values(), 16 * GIB]), st.tuples(counts, counts, counts)))
def test_sums_and_columns_account_for_every_page(pages: dict[int, tuple[int, int, int]]) -> None:
    pools = {size: Pool(*((float(count * size), VALID) for count in each)) for size, each in pages.items()}
    row = figures(pools, 0.0)
    assert set(row) == set(NAMES)
    assert all(code == VALID for _, code in row.values())
    others = sum(total * size for size, (total, _, _) in pages.items() if size not in SIZES.values())
    named = sum(row[f"{name}_total_bytes"][0] for name in SIZES)
    assert row["hugepages_total_bytes"][0] == named + others
    assert row["hugepages_available_bytes"][0] == sum(
        max(0, free - reserved) * size for size, (_, free, reserved) in pages.items()
    )
