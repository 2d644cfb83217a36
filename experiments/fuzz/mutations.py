"""Mutations of text lines and of whole captures, by a seeded ``Random`` (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Line = bytes

#: Numbers never printed by a tool, or only in trouble: too large, not a number, in other scripts or formats.
NUMBERS: tuple[bytes, ...] = (
    b"-1", b"-1.00", b"-0", b"+5", b"0x10", b"1_000", b"1e308", b"1e309", b"-1e309", b"1e-400", b"nan", b"NaN", b"-nan",
    b"inf", b"-inf", b"Infinity", b"4294967295", b"4294967296", b"2147483648", b"18446744073709551615",
    b"18446744073709551616", b"184467440737095516.15", b"99999999999999999999999999", b"1,5", b"1.234,56", b"1,234.56",
    b"1.5.2", b".5", b"5.", b"-", b"--", b"%", b"5%", b"101", b"100.01", b"1.5k", b"2P", b"9Z", b"1e", b"e5", b"0" * 40,
    "١٢".encode(), "１２".encode(), "½".encode(), b"1 000", b"12\xa034", b"\xff\xfe", b"0", b"00", b"1" * 25,
)  # fmt: skip

#: Pieces of text that break assumptions: other scripts, right to left, combining, invalid UTF-8, controls.
PIECES: tuple[bytes, ...] = (
    b"\0", b"\r", b"\t", b"\x0b", b"\x0c", b"\x1b[31m", b"\x1b[", b"\x1b", b"\x7f", b"\x80", b"\xff", b"\xc3\x28",
    b"\xed\xa0\x80", "\u2028".encode(), "\u0085".encode(), "\u00a0".encode(), "\u202e".encode(),
    "\u0301".encode(), "\ufeff".encode(),
    "年月日".encode(), "오후".encode(), "πμ".encode(), b"%usr", b"PID", b"UID", b"Command", b"Average:", b"#",
    b"Linux ", b"---", b"(2 CPU)", b"\n", b"\n\n", b" ", b"  ", b":", b"01:00:01 PM", b"2026-11-21 13:00:01",
)  # fmt: skip

_HUGE = (100, 1000, 70_000)


def flip_bits(line: Line, random: Random) -> Line:
    """Flip one to three bits."""
    data = bytearray(line)
    for _ in range(1 + random.getrandbits(2) % 3):
        if data:
            data[int(random.random() * len(data))] ^= 1 << random.getrandbits(3) % 8
    return bytes(data)


def cut(line: Line, random: Random) -> Line:
    """Remove the beginning, the end, or both ends of the line."""
    at, kind = int(random.random() * (len(line) + 1)), random.getrandbits(2)
    if kind == 0:
        return line[at:]
    return line[:at] if kind < 3 else line[:at] + line[at + random.getrandbits(4) :]


def blow_up(line: Line, random: Random) -> Line:
    """Replace one value by another number, or none."""
    return _with_token(line, random, lambda _: NUMBERS[int(random.random() * len(NUMBERS))])


def scale(line: Line, random: Random) -> Line:
    """Give one value more digits, a sign or another decimal point."""
    digits = b"%d" % random.getrandbits(1 + random.getrandbits(6) % 64)
    return _with_token(line, random, lambda token: (token + digits, digits, b"-" + token, digits + b"." + token)[
        random.getrandbits(2)
    ])  # fmt: skip


def insert(line: Line, random: Random) -> Line:
    """Insert a piece of hostile text somewhere."""
    at = int(random.random() * (len(line) + 1))
    return line[:at] + PIECES[int(random.random() * len(PIECES))] + line[at:]


def huge(line: Line, random: Random) -> Line:
    """Insert a field of a hundred to seventy thousand bytes, or as many fields."""
    size = _HUGE[0 if random.getrandbits(5) else 1 + random.getrandbits(1)]
    piece = (b"9", b"A", b"1 ", "é".encode())[random.getrandbits(2)]
    return _with_token(line, random, lambda token: token + piece * size)


def swap_tokens(line: Line, random: Random) -> Line:
    """Swap two columns."""
    tokens = line.split()
    if len(tokens) < 2:
        return line[::-1]
    i, j = int(random.random() * len(tokens)), int(random.random() * len(tokens))
    tokens[i], tokens[j] = tokens[j], tokens[i]
    return b" ".join(tokens)


def drop_token(line: Line, random: Random) -> Line:
    """Remove a value."""
    tokens = line.split()
    if tokens:
        del tokens[int(random.random() * len(tokens))]
    return b"  ".join(tokens)


def double_token(line: Line, random: Random) -> Line:
    """Repeat a value."""
    tokens = line.split()
    if tokens:
        at = int(random.random() * len(tokens))
        tokens.insert(at, tokens[at])
    return b" ".join(tokens)


def commas(line: Line, random: Random) -> Line:
    """Use decimal points of other locales."""
    del random
    return line.replace(b".", b",") if b"." in line else line.replace(b",", b".")


def garbage(line: Line, random: Random) -> Line:
    """Replace the line by random bytes."""
    return random.randbytes(min(len(line), 200))


MUTATIONS: tuple[Callable[[Line, Random], Line], ...] = (
    flip_bits, flip_bits, cut, cut, blow_up, blow_up, blow_up, scale, scale, insert, insert, huge, swap_tokens,
    drop_token, double_token, commas, garbage,
)  # fmt: skip


def mutate(line: Line, random: Random) -> Line:
    """The line after one or two mutations; it may be equal by chance."""
    line = MUTATIONS[int(random.random() * len(MUTATIONS))](line, random)
    if random.getrandbits(3):
        return line
    return MUTATIONS[int(random.random() * len(MUTATIONS))](line, random)


def mutate_capture(lines: Sequence[Line], others: Sequence[Line], random: Random) -> tuple[list[Line], int]:
    """A capture with many lines mutated, joined, doubled, lost, moved, or replaced by lines of ``others`` (other tools,
    locales and versions); the number of these lines."""
    rate = (0.2, 0.6, 0.9, 1.0)[random.getrandbits(2)]
    head = 0 if random.getrandbits(2) == 0 else _head(lines)  # mostly the header stays readable
    made: list[Line] = list(lines[:head])
    mutated = 0
    for line in lines[head:]:
        if random.random() >= rate:
            made.append(line)
            continue
        mutated += 1
        kind = random.getrandbits(5)
        if kind == 0:
            made += [line, line]
        elif kind == 1 and made:
            made[-1] += (b"", b" ", b"\0", b"\r")[random.getrandbits(2)] + line
        elif kind == 2:
            made.append(others[int(random.random() * len(others))])
        elif kind == 3 and made:
            made.insert(int(random.random() * len(made)), line)
        elif kind == 4:
            made.append(lines[int(random.random() * len(lines))])
        else:
            made.append(mutate(line, random))
    return made, mutated


def _head(lines: Sequence[Line]) -> int:
    """Number of lines up to and including the first with column names."""
    known = (b"PID", b"swpd", b"%usr")
    return next((number + 1 for number, line in enumerate(lines) if any(word in line for word in known)), 1)


def _with_token(line: Line, random: Random, change: Callable[[bytes], bytes]) -> Line:
    tokens = line.split(b" ")
    filled = [at for at, token in enumerate(tokens) if token]
    if not filled:
        return change(line)
    at = filled[int(random.random() * len(filled))]
    tokens[at] = change(tokens[at])
    return b" ".join(tokens)
