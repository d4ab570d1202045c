#!/usr/bin/env python3
"""What 10^9 and 10^11 rows amount to, on 1, 3 and 10 servers: the table of docs/scale.md.

    bench/scale_model.py            prints the table
    bench/scale_model.py --check F  fails if the table in F is another one

Measured inputs are those of docs/scale.md, "What was measured"; the rest is arithmetic over settings.
"""
import sys

ROW_BYTES = 53.2        # table, lz4, a row of 49 bytes
KEY_BYTES = 23.3        # lsm_index over bigint, not compressed
FILTER_BITS = 10.0
WAL_BYTES = 164.0       # per row, wal_level = replica, files logged
FILE_BYTES = 64 * 2**20
MEMTABLE_BYTES = 64 * 2**20
RATIO = 10
LIST_BYTES = 170.0      # of the list of files, per file and process


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


if len(sys.argv) == 3 and sys.argv[1] == "--check":
    sys.exit(0 if table() in open(sys.argv[2]).read() else "the table of %s is not what %s prints" % (sys.argv[2], sys.argv[0]))
sys.stdout.write(table())
