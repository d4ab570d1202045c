#!/usr/bin/python3
"""Draws what bench/run.sh and bench/papers/figures.sh measured (Debian: python3-matplotlib).

usage: plot.py [-o DIRECTORY] [-t svg|png] DIRECTORY [NAME...]

DIRECTORY has the CSVs and summaries.  Names: ratios (rows of the table against their targets), fig1, fig5a, fig5b, fig6,
fig7, fig8, fig9, latency (per second, of run.sh latency), demo (of bench/demo.sh); default: whatever there are data for.
"""
import argparse
import collections
import csv
import os
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

STORAGES = ["disk", "page_cache", "tmpfs"]
LABELS = {
    "disk": "disk, evicted before each chunk",
    "page_cache": "page cache",
    "tmpfs": "tmpfs",
}
COLORS = {"disk": "tab:brown", "page_cache": "tab:blue", "tmpfs": "tab:green"}
OFF, ON, HASH, GAIN = "0.65", "tab:blue", "tab:red", "black"


class Point:
    """Medians of the chunks at one x of one storage."""

    def __init__(self, rows):
        def median(sharing, column):
            return statistics.median(float(r[column]) for r in rows if r["sharing"] == sharing)

        self.off, self.on = median("off", "ns"), median("on", "ns")
        self.hash_off, self.hash_on = median("off", "hash_ns"), median("on", "hash_ns")
        self.gain = 100 * (self.off / self.on - 1)
        self.gain_quartiles = self.quartiles(rows)
        self.hash_share = 100 * self.hash_off / self.off

    @staticmethod
    def quartiles(rows):
        """Of the gain between neighbouring chunks."""
        rounds = collections.defaultdict(dict)
        for row in rows:
            rounds[row["round"]][row["sharing"]] = float(row["ns"])
        gains = sorted(100 * (r["off"] / r["on"] - 1) for r in rounds.values())
        return gains[(len(gains) - 1) // 4], gains[-1 - (len(gains) - 1) // 4]


def read_figure(path):
    """The machine line, and {storage: {x: Point}} in the order measured."""
    with open(path) as file:
        machine = file.readline()[2:].strip()
        groups = collections.OrderedDict()
        for row in csv.DictReader(file):
            groups.setdefault((row["storage"], row["x"]), []).append(row)
    data = collections.OrderedDict((s, collections.OrderedDict()) for s in STORAGES)
    for (storage, x), rows in groups.items():
        data[storage][x] = Point(rows)
    return machine, collections.OrderedDict((s, p) for s, p in data.items() if p)


def lines(axes, data, value, quartiles=False):
    for storage, points in data.items():
        names = list(points)
        axes.plot(names, [value(p) for p in points.values()], marker="o",
                  color=COLORS[storage], label=LABELS[storage])
        if quartiles:
            axes.vlines(names, *zip(*(p.gain_quartiles for p in points.values())), color=COLORS[storage], alpha=0.5)
    axes.legend(fontsize=8)
    medians = [value(p) for points in data.values() for p in points.values()]
    limits(axes, medians)


def limits(axes, medians):
    """So that the medians fill the plot; noise may leave it."""
    axes.set_ylim(min(0, 1.5 * min(medians)), 1.5 * max(max(medians), 1))


def bars(axes, points):
    """Pairs of bars, off and on, hashing below the rest; the gain on a second axis."""
    places = range(len(points))
    values = list(points.values())
    unit, divisor = ("us", 1000) if max(p.off for p in values) > 5000 else ("ns", 1)
    for shift, name, color in ((-0.2, "off", OFF), (0.2, "on", ON)):
        total = [getattr(p, name) / divisor for p in values]
        hashing = [getattr(p, "hash_" + name) / divisor for p in values]
        at = [x + shift for x in places]
        axes.bar(at, hashing, 0.36, color=HASH, label="hashing" if name == "off" else None)
        axes.bar(at, [t - h for t, h in zip(total, hashing)], 0.36, bottom=hashing, color=color,
                 label="rest, a digest per filter" if name == "off" else "rest, one digest shared")
    axes.set_xticks(list(places))
    axes.set_xticklabels(list(points))
    axes.set_ylabel("%s per lookup" % unit)
    gain = axes.twinx()
    gain.plot(list(places), [p.gain for p in values], color=GAIN, marker="o", label="gain of sharing")
    gain.set_ylabel("gain, %")
    gain.set_ylim(min(0, 1.2 * min(p.gain for p in values)), max(10, 1.5 * max(p.gain for p in values)))
    handles = [h + g for h, g in zip(axes.get_legend_handles_labels(), gain.get_legend_handles_labels())]
    axes.legend(*handles, fontsize=8, loc="upper left")
    axes.set_ylim(top=1.4 * axes.get_ylim()[1])


def only(data):
    """The points of a figure with one storage."""
    return next(iter(data.values()))


def draw_shares(axes, data):
    lines(axes, data, lambda p: p.hash_share)


def draw_gains(axes, data):
    lines(axes, data, lambda p: p.gain, quartiles=True)


def draw_times(axes, data):
    bars(axes, only(data))


def draw_storages(axes, data):
    points = collections.OrderedDict((LABELS[s], only({s: p})[s]) for s, p in data.items())
    names = list(points)
    axes.bar(names, [p.gain for p in points.values()], 0.5,
             color=[COLORS[s] for s in data])
    for at, point in enumerate(points.values()):
        axes.vlines(at, *point.gain_quartiles, color="black")
        axes.annotate("%.3g -> %.3g us" % (point.off / 1000, point.on / 1000), (at, max(0, point.gain)),
                      ha="center", va="bottom", fontsize=8)
    axes.axhline(0, color="black", linewidth=0.8)
    limits(axes, [p.gain for p in points.values()])


# name: how to draw it, and its words (no label where the drawing has its own)
FIGURES = {
    "fig1": (draw_shares, "runs", "share of hashing, a digest per filter, %",
             "Figure 1: time spent on hashing, half of the keys present, 512 B keys"),
    "fig5a": (draw_times, "bytes of the key", None, "Figure 5a: absent keys, 5 runs, page cache"),
    "fig5b": (draw_times, "runs", None, "Figure 5b: absent keys of 512 B, page cache"),
    "fig6": (draw_storages, None, "gain of sharing, %; line: quartiles", "Figure 6: storage, absent keys of 512 B, 5 runs"),
    "fig7": (draw_gains, "bits per key", "gain of sharing, %", "Figure 7: absent keys of 512 B, 5 runs"),
    "fig8": (draw_times, "share of present keys", None, "Figure 8: disk, keys of 512 B, 5 runs"),
    "fig9": (draw_times, "share of present keys", None, "Figure 9: tmpfs, keys of 512 B, 5 runs"),
}


def draw_figure(axes, name, data):
    draw, x, y, title = FIGURES[name]
    draw(axes, data)
    if x:
        axes.set_xlabel(x)
    if y:
        axes.set_ylabel(y)
    axes.set_title(title)


def draw_ratios(axes, directory):
    """Every line of the summaries that compares with heap or RocksDB, and its target."""
    entries = []
    machine = ""
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".summary"):
            continue
        with open(os.path.join(directory, name)) as file:
            for line in file:
                if line.startswith("# cpu"):
                    machine = line[2:].strip()
                elif not line.startswith("#"):
                    entries.append(line.rstrip("\n").split("\t"))
    # the sizes and times of lsm against another engine; not the sharing rows, which compare lsm with itself
    entries = [e for e in entries if e[3].split()[0] in ("heap", "rocksdb", "singles") and not e[9].startswith("below")]
    entries.sort(key=lambda e: (e[3].split()[0], float(e[5])))
    places = range(len(entries))
    for at, (_, _, _, b, _, ratio, low, high, _, target) in zip(places, entries):
        wanted = float(target.split("x")[0]) if target else None
        color = "tab:blue" if wanted is None else "tab:green" if float(ratio) >= wanted else "tab:orange"
        axes.barh(at, float(ratio), color=color, height=0.6)
        axes.plot([float(low), float(high)], [at, at], color="black", linewidth=1.2)
        if wanted is not None:
            axes.plot([wanted, wanted], [at - 0.4, at + 0.4], color="tab:red", linewidth=2)
    axes.set_yticks(list(places))
    axes.set_yticklabels(["%s (%s)" % (e[1], e[3].split()[0]) for e in entries], fontsize=7)
    axes.set_xscale("log")
    axes.margins(y=0.01)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times as good as what is named in brackets; red: target (green: met); line: quartiles")
    axes.figure.set_size_inches(9, 1 + 0.22 * len(entries))
    return machine


DEMO = collections.OrderedDict((
    ("none", ("none", "tab:red")), ("alone", ("blocked,\nsharing off", OFF)), ("shared", ("blocked,\nsharing on", ON)),
    ("small", ("blocked,\nsmall", "tab:cyan")), ("elastic", ("elastic,\nsmall", "tab:green"))))


def draw_demo(figure, path):
    """Medians of times, means of counters, a bar per kind of filters."""
    with open(path) as file:
        machine = file.readline()[2:].strip()
        groups = collections.defaultdict(list)
        for row in csv.DictReader(file):
            groups[row["storage"], row["keys"], row["filters"]].append(row)

    def per_lookup(column):
        def mean(rows):
            return sum(float(r[column]) for r in rows) / sum(float(r["lookups"]) for r in rows)
        return mean

    def time(rows):
        return statistics.median(float(r["ns"]) / float(r["lookups"]) / 1000 for r in rows)

    panels = (("memory", "absent", time, "us of CPU, absent key, files cached"),
              ("disk", "absent", time, "us, absent key, files not cached"),
              ("memory", "present", time, "us of CPU, present key, files cached"),
              ("memory", "absent", per_lookup("digests"), "digests computed, absent key"),
              ("memory", "absent", per_lookup("filters_asked"), "filters asked, absent key"),
              ("memory", "absent", per_lookup("blocks_read"), "blocks read, absent key"))
    figure.clear()
    figure.set_size_inches(13, 7)
    for at, (storage, keys, value, title) in enumerate(panels):
        axes = figure.add_subplot(2, 3, at + 1)
        values = [value(groups[storage, keys, name]) for name in DEMO]
        axes.bar(range(len(DEMO)), values, color=[color for _, color in DEMO.values()])
        for x, v in enumerate(values):
            axes.annotate("%.3g" % v, (x, v), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(DEMO)))
        axes.set_xticklabels([label for label, _ in DEMO.values()], fontsize=8)
        axes.set_title("per lookup: " + title, fontsize=9)
        axes.margins(y=0.12)
    return machine


def draw_latency(figure, path):
    """Transactions and their p99 in each second; the turns of heap and of lsm one after the other."""
    with open(path) as file:
        machine = file.readline()[2:].strip()
        loads = collections.OrderedDict()
        for row in csv.DictReader(file):
            turns = loads.setdefault(row["script"], collections.OrderedDict())
            turns.setdefault(row["am"], collections.OrderedDict()).setdefault(int(row["round"]), []).append(row)
    figure.clear()
    figure.set_size_inches(4 * len(loads), 5)
    for at, (load, turns) in enumerate(loads.items()):
        above = figure.add_subplot(2, len(loads), at + 1)
        below = figure.add_subplot(2, len(loads), len(loads) + at + 1, sharex=above)
        for am, color in (("heap", "0.55"), ("lsm", "tab:blue")):
            start = 0
            for number, rows in turns[am].items():
                seconds = range(start, start + len(rows))
                label = am if number == 1 else None
                above.plot(seconds, [int(r["tps"]) for r in rows], color=color, label=label)
                below.plot(seconds, [float(r["p99_ms"]) for r in rows], color=color)
                start += len(rows) + 1
        above.set_ylim(bottom=0)
        above.set_title(load)
        below.set_yscale("log")
        below.set_xlabel("second")
        if at == 0:
            above.set_ylabel("transactions per second")
            below.set_ylabel("p99, ms")
            above.legend()
    return machine


def footer(figure, machine):
    settings = machine.find(" settings=")
    figure.text(0.01, 0.005, machine[:settings] if settings > 0 else machine, fontsize=6, color="0.4")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="out", help="where to write; default: DIRECTORY")
    parser.add_argument("-t", dest="type", default="svg", choices=["svg", "png"])
    parser.add_argument("directory")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    out = options.out or options.directory
    # the same SVG from the same data
    matplotlib.rcParams["svg.hashsalt"] = "lsmam"
    names = options.names or [n for n in FIGURES if os.path.exists(os.path.join(options.directory, n + ".csv"))] + ["ratios"]
    if not options.names and os.path.exists(os.path.join(options.directory, "latency.series.csv")):
        names.append("latency")
    for name in names:
        figure, axes = plt.subplots(figsize=(7, 4))
        if name == "ratios":
            machine = draw_ratios(axes, options.directory)
        elif name == "demo":
            machine = draw_demo(figure, os.path.join(options.directory, "demo.csv"))
        elif name == "latency":
            machine = draw_latency(figure, os.path.join(options.directory, "latency.series.csv"))
        elif name in FIGURES:
            machine, data = read_figure(os.path.join(options.directory, name + ".csv"))
            draw_figure(axes, name, data)
        else:
            sys.exit("plot.py: there is no plot \"%s\"" % name)
        footer(figure, machine)
        figure.tight_layout(rect=(0, 0.02, 1, 1))
        path = os.path.join(out, "%s.%s" % (name, options.type))
        figure.savefig(path, metadata={"Date": None} if options.type == "svg" else None)
        plt.close(figure)
        print(path)


main()
