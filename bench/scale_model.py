#!/usr/bin/env python3
"""What 10^9 and 10^11 rows amount to, on 1, 3 and 10 servers: two tables of docs/scale.md.

    bench/scale_model.py            prints the tables
    bench/scale_model.py --check F  fails if those in F are others

Measured inputs are those of docs/scale.md, "What was measured"; the rest is arithmetic over settings.
"""
import math
import sys

ROW_BYTES = 53.2        # table, lz4, a row of 49 bytes
KEY_BYTES = 23.3        # lsm_index over bigint, not compressed
FILTER_BITS = 10.0
WAL_BYTES = 164.0       # per row, wal_level = replica, files logged
FILE_BYTES = 64 * 2**20
MEMTABLE_BYTES = 64 * 2**20
RATIO = 10
LIST_BYTES = 170.0      # of the list of files, per file and process
LEVEL0_RUNS = 2         # of one memtable each, on the average
HOT_SHARE = 0.01        # of a table's segments that are looked into often
HOT_BITS = 24.0         # of elastic filters there


def levels(size):
    """Levels below level 0 that this many bytes need."""
    n, target = 1, MEMTABLE_BYTES * RATIO
    while size > target:
        n, target = n + 1, target * RATIO
    return n


def amplification(size):
    """Bytes written per byte that came: flush, one merge within level 0, and half the ratio for each level."""
    return 2 + levels(size) * (RATIO / 2 + 1)


def human(n):
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if n >= 10 or unit == "B" else f"{n:.1f} {unit}"
        n /= 1000


def table():
    lines = ["| rows | servers | table | key | files | levels | filters | list, per process | WAL | written (model) |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for exponent in (9, 11):
        for servers in (1, 3, 10):
            rows = 10**exponent / servers
            t, k = rows * ROW_BYTES, rows * KEY_BYTES
            files = (t + k) / FILE_BYTES
            filters = 2 * rows * FILTER_BITS / 8
            lines.append("| 10^%d | %d | %s | %s | %d | %d, %d | %s | %s | %s | %s |" % (
                exponent, servers, human(t), human(k), files, levels(t), levels(k), human(filters),
                human(files * LIST_BYTES), human(rows * WAL_BYTES),
                human(t * amplification(t) + k * amplification(k))))
    return "\n".join(lines) + "\n"


def runs(rows):
    """Keys in each run of the key's tree: level 0, full levels, the last one with the rest."""
    keys, result = MEMTABLE_BYTES / KEY_BYTES, []
    left = rows
    for n in [keys] * LEVEL0_RUNS + [keys * RATIO ** i for i in range(1, levels(rows * KEY_BYTES))]:
        result.append(n)
        left -= n
    return result + [left]


def rate(bits):
    """False positives of a Bloom filter."""
    return math.exp(-bits * math.log(2) ** 2)


def monkey(sizes, bits):
    """Bits of each run, proportional rates, with this average: allocate.c."""
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        each = [min(max((middle - math.log(n)) / math.log(2) ** 2, 1.0), 32.0) for n in sizes]
        if sum(b * n for b, n in zip(each, sizes)) > bits * sum(sizes):
            high = middle
        else:
            low = middle
    return each


def monkey_bits(sizes, wanted):
    """The average for so many false positives per absent key."""
    low, high = 1.0, 32.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(map(rate, monkey(sizes, middle))) > wanted:
            low = middle
        else:
            high = middle
    return high


def filter_table():
    lines = ["| rows | servers | runs | false reads per 1000 absent keys | ... `monkey`, the same memory | memory of the key's filters | ... `monkey`, as many false reads | `elastic`, 1 % of segments hot |",
             "|---|---|---|---|---|---|---|---|"]
    for exponent in (9, 11):
        for servers in (1, 3, 10):
            rows = 10**exponent / servers
            sizes = runs(rows)
            uniform = len(sizes) * rate(FILTER_BITS)
            lines.append("| 10^%d | %d | %d | %.1f | %.1f | %s | %s | %s |" % (
                exponent, servers, len(sizes), 1000 * uniform, 1000 * sum(map(rate, monkey(sizes, FILTER_BITS))),
                human(rows * FILTER_BITS / 8), human(rows * monkey_bits(sizes, uniform) / 8),
                human(rows * HOT_SHARE * HOT_BITS / 8)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        text = open(sys.argv[2]).read()
        sys.exit(0 if table() in text and filter_table() in text else "the tables of %s are not what %s prints" % (sys.argv[2], sys.argv[0]))
    sys.stdout.write(table() + "\n" + filter_table())
