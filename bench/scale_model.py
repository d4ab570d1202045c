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
LOG_BYTES = 82.0        # of WAL, per row: the entries of table and key
TABLE_WAL = 1.04        # per byte that flushes and compactions write, wal_level = replica
KEY_WAL = 0.62
FILE_BYTES = 64 * 2**20
MEMTABLE_BYTES = 64 * 2**20
RATIO = 10
LIST_BYTES = 170.0      # of the list of files, per file and process
FLUSH_SHARE = 0.20      # of a memtable's bytes, in the key's flushed file
TABLE_WRITTEN = 1.5     # per byte flushed, of a table that grows
L0_COMPACT_RUNS = 4     # from here on: src/tree/compaction/plan.c and control.h
L0_MAX_RUNS = 8
LEVEL0_DOWN_RATIO = 3
TIER_RATIO = 2.0
TIER_FLOOR = 0.25
LEVEL0_RUNS = 2         # of one memtable each, on the average
HOT_SHARE = 0.01        # of a table's segments that are looked into often
HOT_BITS = 24.0         # of elastic filters there


def levels(size):
    """Levels below level 0 that this many bytes need."""
    n, target = 1, MEMTABLE_BYTES * RATIO
    while size > target:
        n, target = n + 1, target * RATIO
    return n


def level0_tier(level0):
    """How many of the newest runs are merged within level 0: plan.c, level0_tier()."""
    largest, n = MEMTABLE_BYTES * TIER_FLOOR, 0
    while n < len(level0) and level0[n] <= largest * TIER_RATIO:
        largest, n = max(largest, level0[n]), n + 1
    return n


def simulate(total, flush, level0=(), below=(0.0,) * 9):
    """Bytes written per byte that came, and the levels at the end, when so many come in flushes of this size.

    Keys come in random order: a flush covers them all, and a file covers as much of its level as it has of its bytes.
    What is due, and what it moves or merges, is that of src/tree/compaction/plan.c.
    """
    level0, below, came, written = list(level0), list(below), 0.0, 0.0
    while came < total:
        size = min(flush, total - came)
        came, written = came + size, written + size
        level0.insert(0, size)
        while True:
            down = len(level0) >= L0_MAX_RUNS or sum(level0) * LEVEL0_DOWN_RATIO >= below[1]
            tier = len(level0) if down or len(level0) < L0_COMPACT_RUNS else level0_tier(level0)
            scores = [tier / L0_COMPACT_RUNS] + [below[i] / (MEMTABLE_BYTES * RATIO**i) for i in range(1, 8)]
            due = max(range(8), key=lambda i: scores[i])
            if scores[due] < 1:
                break
            if due > 0:     # a file into its part of the next level, which may be empty
                size = min(FILE_BYTES, below[due])
                if below[due + 1] > 0:
                    written += size * (1 + below[due + 1] / below[due])
                below[due], below[due + 1] = below[due] - size, below[due + 1] + size
            elif down:
                written += sum(level0) + below[1]
                below[1], level0 = below[1] + sum(level0), []
            else:
                written += sum(level0[:tier])
                level0[:tier] = [sum(level0[:tier])]
    return written / total, level0, below


def human(n):
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if n >= 10 or unit == "B" else f"{n:.1f} {unit}"
        n /= 1000


def table():
    lines = ["| rows | servers | table | key | files | levels | filters | list, per process | WAL | written, table | written, key |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for exponent in (9, 11):
        for servers in (1, 3, 10):
            rows = 10**exponent / servers
            t, k = rows * ROW_BYTES, rows * KEY_BYTES
            files = (t + k) / FILE_BYTES
            filters = 2 * rows * FILTER_BITS / 8
            tw, kw = t * TABLE_WRITTEN, k * simulate(k, MEMTABLE_BYTES * FLUSH_SHARE)[0]
            lines.append("| 10^%d | %d | %s | %s | %d | %d, %d | %s | %s | %s | %s | %s |" % (
                exponent, servers, human(t), human(k), files, levels(t), levels(k), human(filters),
                human(files * LIST_BYTES), human(rows * LOG_BYTES + tw * TABLE_WAL + kw * KEY_WAL),
                human(tw), human(kw)))
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
