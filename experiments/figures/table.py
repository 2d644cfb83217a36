"""Table of figures: its rows in order."""

from __future__ import annotations

from experiments.figures.kinds import MORE, Bare, Figure, Inside, Row

_STORED = Bare("bare XADD of the same frames through one shard", "xadd", "samples_per_second")
_SHARD = Bare("CPU of a shard for bare XADD of the same frames", "xadd", "cpu_seconds_per_million")
_PASS = Bare("one numpy pass over the same samples", "numpy", "samples_per_second")
_GET = Inside("a pipelined GET of the same records", "median.reference_milliseconds.p50")
_PAPER = _SHARD._replace(entities=101, metrics=5)
_SHIPPED = _SHARD._replace(entities=101, metrics=20)  # as in the product's table of VMs

_WIRE = ("acquisition/link", "acquisition/model", "acquisition/shards", "acquisition/wire")
_FILTER = (*_WIRE, "filters/kernels", "filters/runtime", "filters/worker")
_LOAD = ("acquisition/outbox", "experiments/emulation", "experiments/harness")
_PIPELINE = (*_FILTER, *_LOAD, "experiments/ingest.py")
_SCALE = (*_FILTER, *_LOAD, "experiments/scale")
_READING = (*_FILTER, *_LOAD, "acquisition/snapshot", "experiments/reading")
_JUDGING = ("filters/decisions", "filters/judging")

_MILLIONS = 1e-6
_PERCENT = 100.0
_COST = "cpu_seconds_per_million_samples"


def _filter_core(kind: str, what: str) -> Row:
    at = f"rows.{kind}"
    per_core = Figure(
        f"{at}.samples_per_filter_core", "{:.1f} million samples/s", _PASS, MORE, _MILLIONS
    ), Figure(f"{at}.frames_per_filter_core", "{:,.0f} frames/s")  # fmt: skip
    what = f"one core of the filter, frames of 100 x 15, by its CPU time, {what}"
    return Row(
        f"{kind}-core", what, "scale", f"--rows {kind}", "--seconds 6 --repeats 2", "--repeats 3", per_core, _SCALE
    )


def _million(kind: str, what: str, full: str) -> Row:
    at = f"rows.{kind}"
    cores = f"{at}.cpu_cores.shards + {at}.cpu_cores.filter"
    cost = f"{at}.cpu_seconds_per_million.shards + {at}.cpu_seconds_per_million.filter"
    figures = (
        Figure(f"{at}.samples_smoothed_per_second", "{:.2f} million samples/s smoothed", scale=_MILLIONS),
        Figure(f"{at}.samples_offered_per_second", "of {:.2f} million offered", scale=_MILLIONS),
        Figure(f"{at}.samples_lost", "lost {:,.0f}"),
        Figure(f"{at}.freshness_ms.p50", "freshness p50 {:,.0f} ms"),
        Figure(f"{at}.freshness_ms.p99", "p99 {:,.0f} ms"),
        Figure(cores, "shards and filter {:.2f} cores"),
        Figure(cost, "{:.4f} CPU seconds per million samples", _SHARD._replace(entities=101)),
    )
    return Row(kind, what, "scale", f"--rows {kind}", "--seconds 10", full, figures, _SCALE)


ROWS: tuple[Row, ...] = (
    Row(
        "data-center-tls",
        "40 hosts of 100 VMs over TLS, 20 metrics of each every second: what all of them take of shards and filter",
        "ingest",
        "--hosts 40 --entities 101 --metrics 20 --rate 1 --tls",
        "--warmup 10 --seconds 30",
        "--warmup 10 --seconds 60 --repeats 3",
        (
            Figure("cpu_cores.shards + cpu_cores.filter", "**{:.2f} cores**"),
            Figure("samples_lost", "lost {:,.0f}"),
            Figure("freshness_ms.p50", "freshness p50 {:,.0f} ms"),
            Figure("freshness_ms.p99", "p99 {:,.0f} ms"),
            Figure(f"{_COST}.shards + {_COST}.filter", "{:.2f} CPU seconds per million samples", _SHIPPED),
        ),
        (*_PIPELINE, "experiments/processes"),
        front=True,
    ),
    Row(
        "probe-tls",
        "the probe of one of them: the host and 100 VMs each second, checks and sending over TLS included",
        "probe_cost",
        "--source procfs --tls --processes 1 --vms 100 --warm-up 10",
        "--seconds 15 --repeats 1",
        "--seconds 30 --repeats 5",
        (
            Figure("medians.procfs_tls.cpu_percent", "**{:.2f}% of a core**"),
            Figure(
                "medians.procfs_tls.ratio_to_empty_loop", "{:.1f} of the loop",
                Inside("a bare C loop over the files of the host and of one process"),
            ),
            Figure("medians.procfs_tls.probe_private_bytes", "{:.1f} MB of its own", scale=1e-6),
        ),
        ("acquisition/link", "acquisition/outbox", "acquisition/wire", "probes", "experiments/probe_cost"),
        front=True,
    ),
    Row(
        "saturation-lean",
        "saturation: frames of 100 x 15 in a closed loop, lean hosts, which hold nothing they sent, generator included",
        "scale",
        "--rows filter",
        "--seconds 6 --repeats 2",
        "--repeats 3",
        (
            Figure(
                "rows.filter.samples_smoothed_per_second", "**{:.1f} million samples/s** smoothed", _STORED, MORE,
                _MILLIONS,
            ),
            Figure("rows.filter.samples_lost", "lost {:,.0f}"),
            Figure("rows.filter.freshness_ms.p99", "freshness p99 {:,.0f} ms"),
        ),
        _SCALE,
        front=True,
    ),
    Row(
        "saturation",
        "the same with the product's writer and outbox in every host, in turn with lean hosts",
        "scale",
        "--rows writers",
        "--seconds 6 --repeats 2",
        "--seconds 15 --repeats 5",
        (
            Figure(
                "rows.writers.samples_smoothed_per_second", "{:.1f} million samples/s smoothed",
                Inside("lean hosts in the same run", "rows.writers.lean_samples_smoothed_per_second"), MORE, _MILLIONS,
            ),
            Figure("rows.writers.samples_lost", "lost {:,.0f}"),
            Figure("rows.writers.freshness_ms.p50", "freshness p50 {:,.0f} ms"),
            Figure("rows.writers.freshness_ms.p99", "p99 {:,.0f} ms"),
        ),
        _SCALE,
        failures="failures missed",
    ),
    _filter_core("filter", "decision inputs as shipped")._replace(front=True),
    _filter_core("filter-full", "every decision input for VMs too"),
    _filter_core("filter-off", "no decision inputs"),
    Row(
        "paper",
        "the paper's whole data center: 100 hosts x 101 entities x 5 metrics at 1 Hz",
        "ingest",
        "--hosts 100 --entities 101 --metrics 5 --rate 1",
        "--seconds 10",
        "--seconds 30 --repeats 3",
        (
            Figure("samples_smoothed_per_second", "{:,.0f} samples/s"),
            Figure("samples_lost", "lost {:,.0f}"),
            Figure("freshness_ms.p50", "freshness p50 {:.1f} ms"),
            Figure("freshness_ms.p99", "p99 {:.1f} ms"),
            Figure("cpu_cores.shards + cpu_cores.filter", "shards and filter {:.1f}% of one core", scale=_PERCENT),
            Figure(f"{_COST}.shards + {_COST}.filter", "{:.2f} CPU seconds per million samples", _PAPER),
        ),
        _PIPELINE,
        front=True,
    ),
    Row(
        "inputs",
        "decision inputs: CPU of the filter per sample to that without them; memory of the shards beyond it",
        "inputs_cost",
        "--together 100 1",
        "--ticks 15",
        "--ticks 60",
        (
            Figure("together.100.to_off.shipped", "{:.2f}", Inside("off, as shipped in hundreds")),
            Figure("together.1.to_off.shipped", "{:.2f}", Inside("off, as shipped one by one")),
            Figure("together.100.to_off.full", "{:.2f}", Inside("off, in full in hundreds")),
            Figure("kb_per_series.vms of 101.shipped", "{:.2f} kB a series of 101 VMs"),
            Figure("kb_per_series.a host alone.shipped", "{:.2f} kB of a host alone"),
        ),
        (*_FILTER, "experiments/inputs_cost.py"),
    ),
    Row(
        "probe",
        "the probe: host and 100 busy processes, 16 metrics each second, checks and sending included",
        "probe_cost",
        "--source procfs --warm-up 6",
        "--seconds 8 --repeats 2",
        "--seconds 15 --repeats 5",
        (
            Figure("medians.procfs.cpu_percent", "{:.2f}% of a core"),
            Figure("medians.procfs.ratio_to_bare_tools", "{:.2f} of the bare tools", Inside("bare vmstat and pidstat")),
            Figure("medians.procfs.ratio_to_empty_loop", "{:.2f} of the loop", Inside("a bare C loop over its files")),
            Figure("medians.procfs.probe_private_bytes", "{:.1f} MB of its own", scale=1e-6),
        ),
        ("acquisition/link", "acquisition/outbox", "acquisition/wire", "probes", "experiments/probe_cost"),
        front=True,
    ),
    Row(
        "snapshot",
        "a whole coherent snapshot of 100 hosts in a Python client (`SnapshotReader`), every plane touched, the "
        "pipeline running",
        "reading",
        "--question snapshot --hosts 100",
        "--warm-up 12 --seconds 20",
        "--seconds 60 --repeats 3",
        (
            Figure("median.milliseconds.p50", "a new tick p50 {:.1f} ms", _GET),
            Figure("median.milliseconds.p99", "p99 {:.1f} ms"),
            Figure("median.unchanged_milliseconds.p50", "unchanged p50 {:.2f} ms", _GET),
            Figure("median.unchanged_milliseconds.p99", "p99 {:.2f} ms"),
            Figure("median.ids_milliseconds.p99", "(a bare GET of the commit ids p99 {:.2f} ms)"),
        ),
        _READING,
        front=True,
        failures="",
    ),
    Row(
        "hot",
        "`/v1/hot` of 100 hosts, 8 connections, the paper's data center being smoothed meanwhile",
        "serve_load",
        "--hosts 100",
        "--seconds 3",
        "--seconds 10",
        (
            Figure(
                "loads.hot.requests_per_second", "{:,.0f} requests/s",
                Inside("a bare server of the same bytes", "bare.requests_per_second"), MORE,
            ),
            Figure("loads.hot.p50", "p50 {:.2f} ms"),
            Figure("loads.hot.p99", "p99 {:.1f} ms"),
        ),
        (*_READING[:-1], *_JUDGING, "filters/documents", "filters/service", "experiments/serve_load"),
    ),
    Row(
        "archive",
        "the archiver and a PostgreSQL of Debian's package: the paper's data center as it lies in the streams after an "
        "outage of the database, 1% of the samples invalid in runs of 1 to 60 s",
        "archive_live",
        "--row backlog --hosts 100 --entities 101 --metrics 5 postgresql",
        "--ticks 240",
        "--ticks 600",
        (
            Figure(
                "milliseconds_per_million.archiver", "archiver {:,.0f} ms of CPU per million samples",
                Bare("one numpy pass over a million samples", "numpy", "milliseconds_per_million", 101, 5),
            ),
            Figure("milliseconds_per_million.database", "database {:,.0f} ms"),
            Figure("times_live", "{:.0f} times live speed"),
            Figure("gap", "missing {:,.0f}"),
        ),
        (*_WIRE, "filters/archive", "experiments/archive_live"),
        failures="",
    ),
    Row(
        "archive-episodes",
        "episodes of invalid samples upserted into PostgreSQL and SQLite, 20,000 in a transaction, by the clock",
        "archive_cost",
        "--only episodes postgresql sqlite",
        "--episodes 200000",
        "--episodes 1000000",
        (
            Figure(
                "postgresql.episodes.new_rows_per_second", "PostgreSQL {:,.0f} new rows/s",
                Inside("a bare COPY of the same rows", "postgresql.episodes.bare_rows_per_second"), MORE,
            ),
            Figure("postgresql.episodes.again_rows_per_second", "{:,.0f} again"),
            Figure(
                "sqlite.episodes.new_rows_per_second", "SQLite {:,.0f} new rows/s",
                Inside("a bare INSERT of the same rows", "sqlite.episodes.bare_rows_per_second"), MORE,
            ),
            Figure("sqlite.episodes.again_rows_per_second", "{:,.0f} again"),
        ),
        ("filters/archive", "experiments/archive_cost"),
        failures="",
    ),
    Row(
        "failover",
        "kill -9 of a master with a replica (root)",
        "failover",
        "",
        "--repeats 2",
        "--repeats 5",
        (
            Figure("seconds.first_write", "first write after {:.1f} s", Inside("the promotion", "seconds.promoted")),
            Figure("seconds.last_write", "all probes of that shard after {:.1f} s"),
        ),
        (*_WIRE, "acquisition/outbox", "filters/worker", "experiments/testbed", "experiments/failover"),
        failures="problems",
    ),
    _million("million", "a million VMs: 10,000 connections x 101 x 15 at 1 Hz, lean hosts", "--seconds 300"),
    _million("two-million", "20,000 hosts x 101 x 15 at 1 Hz, lean hosts", "--seconds 60"),
)  # fmt: skip
#: Rows that only the long form runs unasked.
LONG: tuple[Row, ...] = (
    _million("million-whole", "a million VMs with the product's writer and outbox in every host", "--seconds 300"),
    _million("million-full", "a million VMs, lean hosts, every decision input kept for each", "--seconds 300"),
)
