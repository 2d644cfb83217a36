"""The column names that vmstat prints in other languages (catalogues of procps 3.3.15 to 4.0.6).

Live sampling runs vmstat with LC_ALL=C; captures come from anywhere. Korean calls both si
and bi 입 and both so and bo 출: names that mean two columns are left out, so these are MISSING.
"""

_WORDS: dict[str, str] = {
    "r": "dz k",
    "b": "bl",
    "swpd": "swap växl 交换 스왑",
    "free": "frei libre wolna livre fritt trống 空闲 თავისუფალია 가용 liber",
    "buff": "tampon bufor 缓冲 búf 버퍼",
    "cache": "Cache кеш nhớtạm 缓存 caché 캐시",
    "si": "vi sin",
    "so": "vu",
    "bi": "bin",
    "bo": "bu",
    "in": "avb",
    "cs": "ktxb",
    "us": "uż an",
    "id": "be ia",
    "wa": "io vä",
    "st": "sk",
    "gu": "go gä",
}

#: what a header says -> the English name
TRANSLATED: dict[bytes, bytes] = {
    word.encode(): name.encode() for name, words in _WORDS.items() for word in words.split()
}
