"""Signatures of frames: golden bytes; whatever is changed, or is another's, is refused."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire import frame, signature
from acquisition.wire.frame import Frame
from acquisition.wire.signature import HostKey, SignatureError, Verifier

MASTER, BEFORE, STRANGE = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
HOST = 0x0123456789ABCDEF
KEY = signature.host_key(MASTER, HOST)


def made(host: int = HOST, sequence: int = 1, values: bytes = bytes(12)) -> bytes:
    rows = len(values) // 12
    return frame.encode(
        Frame(
            frame.KIND_SAMPLES, 1, host, 3, rows, 3, 1.0, 7, sequence, 1, 0, sequence, 1.0 * sequence, 1.0 * sequence,
            bytes(8 * rows), values,
        )
    )  # fmt: skip


def check(data: bytes, signed: bytes | None, verifier: Verifier | None = None) -> None:
    fields = [b"f", data] if signed is None else [b"f", data, b"s", signed]
    (Verifier([MASTER]) if verifier is None else verifier).check(data, fields)


def test_golden_bytes() -> None:
    assert KEY.number.hex() == "8ad4acab"
    assert KEY.secret.hex() == "8f2d26a6e1e7200f01856b0bc4f1c59799fb973b8aeda30c9b5f41d6a782f1f6"
    assert signature.sign(KEY, made()).hex() == "8ad4acaba4c421834a152b2998bac7cb875b6ed6"


def test_it_is_hmac_sha256_of_the_frame() -> None:
    data = made()
    assert signature.sign(KEY, data)[signature.NUMBER_SIZE :] == hmac.new(KEY.secret, data, "sha256").digest()[:16]


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**53 - 1), st.binary(max_size=60).map(lambda b: b * 12))
def test_what_a_host_signs_is_taken(host: int, sequence: int, values: bytes) -> None:
    data, verifier = made(host, sequence, values), Verifier([STRANGE, MASTER])
    for _ in range(2):  # the second time its key is known
        check(data, signature.sign(signature.host_key(MASTER, host), data), verifier)


@given(st.data(), st.booleans())
def test_one_bit_that_is_another_is_refused(data: st.DataObject, known: bool) -> None:
    whole, verifier = made(), Verifier([MASTER])
    signed = signature.sign(KEY, whole)
    if known:
        check(whole, signed, verifier)
    both = bytearray(whole + signed)
    both[data.draw(st.integers(0, len(both) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SignatureError) as caught:
        check(bytes(both[: len(whole)]), bytes(both[len(whole) :]), verifier)
    assert caught.value.reason == "signature"


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans(), st.booleans())
def test_no_fields_of_a_stranger_pass_or_break_it(more: list[bytes], named: bool, known: bool) -> None:
    data, verifier = made(), Verifier([MASTER])
    if known:
        check(data, signature.sign(KEY, data), verifier)
    fields = [b"f", data, *([b"s"] if named else []), *more]
    with pytest.raises(SignatureError):
        verifier.check(data, fields)


@given(st.integers(0, 2**64 - 1).filter(lambda host: host != HOST))
def test_a_host_signs_for_no_other(other: int) -> None:
    data = made()
    with pytest.raises(SignatureError, match=f"wrong signature of a frame of host {HOST:016x}"):
        check(data, signature.sign(signature.host_key(MASTER, other), data))


def test_a_signature_is_of_one_frame() -> None:
    with pytest.raises(SignatureError, match="wrong signature"):
        check(made(sequence=2), signature.sign(KEY, made()))


def test_unsigned_frame_is_accepted_only_if_not_required() -> None:
    with pytest.raises(SignatureError, match=f"unsigned frame of host {HOST:016x}"):
        check(made(), None)
    lenient = Verifier([MASTER], required=False)
    check(made(), None, lenient)
    with pytest.raises(SignatureError, match="wrong signature"):
        check(made(), KEY.number + bytes(16), lenient)


def test_masters_are_exchanged() -> None:
    data = made()
    old, new = (signature.sign(signature.host_key(one, HOST), data) for one in (BEFORE, MASTER))
    both, later = Verifier([MASTER, BEFORE]), Verifier([MASTER])
    for signed in (old, new):
        check(data, signed, both)
    check(data, new, later)
    with pytest.raises(SignatureError, match=f"another master \\({signature.number_of(BEFORE).hex()}\\)"):
        check(data, old, later)


def test_what_is_too_short_for_a_frame_is_called_so() -> None:
    check(b"nothing", None)
    with pytest.raises(FrameError) as caught:
        frame.decode(b"nothing")
    assert caught.value.reason == "short"


def test_a_key_does_not_show_its_secret() -> None:
    assert repr(HostKey(b"\1\2\3\4", b"secret")) == "HostKey(01020304)"
