#!/usr/bin/python3
"""The table of ratios in Markdown, from the summaries that bench/run.sh wrote.

usage: table.py DIRECTORY [PAGE]   reads DIRECTORY/*.summary, and bench/reasons.txt for rows that miss their target;
with PAGE (bench/RESULTS.md) the table replaces what stands there between <!-- ratios --> and <!-- /ratios -->
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def row_order():
    """Names of rows as run.sh runs them."""
    with open(os.path.join(HERE, "run.sh")) as file:
        text = re.search(r'^rows="(.*?)"', file.read(), re.M | re.S).group(1)
    return [entry.split(":")[0] for entry in text.split()]


def reasons():
    """(row, pattern of the label, reason) of reasons.txt, in the order of the file."""
    result = []
    with open(os.path.join(HERE, "reasons.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                row, pattern, reason = line.rstrip("\n").split("\t")
                result.append((row, re.compile(pattern), reason))
    return result


def met(target, ratio, a):
    """Is the target met?  None: there is none."""
    if not target:
        return None
    numbers = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", target)]
    if target.startswith("below"):
        return a < numbers[0]
    if ".." in target:
        return numbers[0] <= ratio <= numbers[1]
    # as printed: two digits
    return ratio >= numbers[0]


def read_summary(path):
    """The machine line, the settings of the run, and its lines as lists of fields."""
    with open(path) as file:
        lines = file.read().splitlines()
    notes = " ".join(line[2:] for line in lines if line.startswith("#"))
    return dict(re.findall(r'(\w+)=("[^"]*"|\S+)', notes)), [
        line.split("\t") for line in lines if not line.startswith("#")]


def main():
    directory = sys.argv[1]
    why = reasons()
    seconds = []
    commits = set()
    machines = set()
    loads = set()
    dates = set()
    lines = []
    for row in row_order():
        path = os.path.join(directory, row + ".summary")
        if not os.path.exists(path):
            continue
        notes, results = read_summary(path)
        commits.add(notes["commit"])
        dates.add(notes["date"][:10])
        machines.add("%s, %s cores" % (notes["cpu"].strip('"'), notes["cores"]))
        if "load" in notes:
            loads.add(float(notes["load"]))
        seconds.append("%s %s" % (row, notes.get("seconds", "?")))
        for fields in results:
            name, label, a, b, unit, ratio, low, high, rounds, target = fields
            good = met(target, float(ratio), float(a.split()[-1]))
            reason = "" if good is not False else next(
                (r for r_row, pattern, r in why if r_row == name and pattern.search(label)), "")
            lines.append("| `%s` | %s | %s %s | %s %s | %s%sx%s | %s..%s | %s | %s |" % (
                name, label, a, unit, b, unit, "" if good is not False else "**", ratio,
                "" if good is not False else "**", low, high, target, reason))
    if not lines:
        sys.exit("table.py: no summaries in " + directory)
    if loads:
        machines.add("load %.1f to %.1f" % (min(loads), max(loads)))
    text = "%s; commit %s; %s. Seconds per row: %s.\n\n" % (
        "; ".join(sorted(machines)), ", ".join(sorted(commits)), ", ".join(sorted(dates)), ", ".join(seconds))
    text += "| row | what | A | B | ratio | quartiles | target | why the target is missed |\n"
    text += "|---|---|---|---|---|---|---|---|\n"
    text += "\n".join(lines) + "\n"
    if len(sys.argv) == 2:
        sys.stdout.write(text)
        return
    with open(sys.argv[2]) as file:
        before, rest = file.read().split("<!-- ratios -->\n")
    after = rest.split("<!-- /ratios -->")[1]
    with open(sys.argv[2], "w") as file:
        file.write(before + "<!-- ratios -->\n" + text + "<!-- /ratios -->" + after)


main()
