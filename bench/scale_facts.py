#!/usr/bin/env python3
"""The rows that bench/scale_nodes.sh prints, for servers that share a million rows, and what scale_model.py says of them.

    scale_facts.py SERVERS UNIT_MB LOOKUPS FACTS FRONT TURN

FACTS, TURN: a line for each server, of numbers with | between them; FRONT: one line.
"""
import sys

sys.dont_write_bytecode = True
import scale_model as model

servers, unit, lookups = map(int, sys.argv[1:4])
model.MEMTABLE_BYTES = model.FILE_BYTES = unit * 2**20


def read(name):
    return [[float(x) for x in line.split("|")] for line in open(name)]


def print_row(title, *cells):
    print("%s: | %d | %s |" % (title, servers, " | ".join(cells)))


facts = read(sys.argv[4])
rows, table, key, wal, tf, tc, tn, kf, kc, kn, files, filters, probes, blocks, seconds = map(sum, zip(*facts))
print_row("sizes", "%.1f, %.1f" % (table / rows, key / rows), "%.0f" % (wal / rows),
          "%.1f" % (4 * filters / rows), "%.1f" % (probes / lookups), "%.2f" % (blocks / lookups))
flush = kf / kn
filled = [model.simulate(f[7], flush)[0] for f in facts]
print_row("filling", "%.0f kB" % (flush / 1024), "%.1f" % ((tf + tc) / tf), "%.1f" % ((kf + kc) / kf),
          "%.1f" % (sum(filled) / servers))

turn = read(sys.argv[6])
utf, utc, utn, ukf, ukc, ukn = map(sum, zip(*turn))
table_model = key_model = 0
for f, u in zip(facts, turn):
    _, level0, below = model.simulate(f[4], tf / tn)
    table_model += model.simulate(u[0], utf / utn, level0, below)[0] / servers
    if ukn:
        _, level0, below = model.simulate(f[7], flush)
        key_model += model.simulate(u[3], ukf / ukn, level0, below)[0] / servers
# updates of a column in no index write nothing of the key
print_row("updates", "%.0f" % (utf / rows), "%.1f" % ((utf + utc) / utf), "%.1f" % table_model,
          "%.0f" % (ukf / rows), *(["%.1f" % ((ukf + ukc) / ukf), "%.1f" % key_model] if ukn else ["-", "-"]))
front, behind = read(sys.argv[5])[0]
print_row("lookups", "%.1f" % (seconds / lookups * 1e6), "%.1f" % (front / lookups * 1e6), "%.1f" % (behind / lookups * 1e6))
