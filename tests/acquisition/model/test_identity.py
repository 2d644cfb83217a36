"""Identities: stable for ever, and different for different things."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acquisition.model import identity
from acquisition.model.metric import GAUGE, Metric, resource_set_id, schema_hash


def test_identities_never_change() -> None:
    """They name rows in the shards and in archives: a change orphans both."""
    assert identity.host_id("alpha") == 0x1FD65B54F0B3CCA9
    assert identity.entity_id("process", "4711", "boot:99") == 0x4BA18E04DDC03225


def test_parts_do_not_run_into_each_other() -> None:
    assert identity.identity("a", "bc") != identity.identity("ab", "c")
    assert identity.entity_id("process", "1", "2") != identity.entity_id("vm", "1", "2")


@given(st.text(), st.text(), st.text())
def test_another_epoch_is_another_entity(stable: str, one: str, other: str) -> None:
    same = identity.entity_id("process", stable, one) == identity.entity_id("process", stable, other)
    assert same == (one == other)


def test_names_that_are_no_utf8_have_an_identity() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert 0 <= identity.host_id(name) < 2**64
    assert identity.host_id(name) != identity.host_id("caf")


def test_schema_depends_on_columns_and_not_on_ranges() -> None:
    metric = Metric("cpu_ratio", "ratio", GAUGE, 0.0, 1.0, "help")
    assert schema_hash((metric,)) == schema_hash((metric._replace(high=2.0, help="other"),))
    assert schema_hash((metric,)) != schema_hash((metric._replace(unit="percent"),))
    assert schema_hash((metric, metric._replace(name="x"))) != schema_hash((metric._replace(name="x"), metric))
    assert resource_set_id("host") == 0xCF2713FD
