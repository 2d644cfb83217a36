"""Validity codes: one byte per sample, with the reason a value may not be used.

Missing is not zero: a sample without a value has NaN and a code. A sample that
failed a check keeps its raw value and the code of the first check that failed.
Codes are part of the wire format: numbers are never reused.
"""

NAN = float("nan")  #: in place of a missing value
VALID = 0
MISSING = 1  #: the source does not provide this figure here
FIRST = 2  #: first sample of an epoch: a counter without a predecessor has no rate
RANGE = 3  #: physically impossible: outside [low, high], NaN or infinite
RESET = 4  #: a counter went back by more than jitter; no rate, never a negative one
INCONSISTENT = 5  #: figures of one row contradict each other
RATE = 6  #: faster than the machine can be (more CPU than cores)
STUCK = 7  #: the source repeats itself although time passes
ORDER = 8  #: the source's time stood still or went back
TIMEOUT = 9  #: the source did not answer within its tick
UNREADABLE = 10  #: the text of the sample could not be parsed
LATE = 11  #: value of an older tick than requested: the newer one was on its way, as the source does provide it
CONTESTED = 12  #: two machines send under one host name: the origin of the value is unknown

#: Set beside VALID: usable, but an outlier by the Hampel identifier.
OUTLIER_FLAG = 0x80
CODE_MASK = 0x7F

NAMES: tuple[str, ...] = (
    "VALID",
    "MISSING",
    "FIRST",
    "RANGE",
    "RESET",
    "INCONSISTENT",
    "RATE",
    "STUCK",
    "ORDER",
    "TIMEOUT",
    "UNREADABLE",
    "LATE",
    "CONTESTED",
)

#: Codes of samples without a value though nothing failed. Every other code but VALID means that a check failed: only
#: such samples are *invalid*, wherever samples are counted.
WITHOUT_VALUE = (MISSING, FIRST, LATE)
#: 1 for each byte that is the code of an invalid sample, else 0; for ``bytes.translate``, or as an index.
IS_INVALID = bytes((code & CODE_MASK) not in (VALID, *WITHOUT_VALUE) for code in range(256))


def name_of(code: int) -> str:
    """The name of a code; an unknown number is shown as ``CODE<n>``, never hidden."""
    plain = code & CODE_MASK
    name = NAMES[plain] if plain < len(NAMES) else f"CODE{plain}"
    return f"{name}|OUTLIER" if code & OUTLIER_FLAG else name
