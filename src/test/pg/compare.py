#!/usr/bin/env python3
"""Compares outputs of PostgreSQL's regression and isolation tests with those of a baseline.

    compare.py --config NAME --suite regress|isolation --source DIR --baseline DIR
               --results DIR --differences FILE --major VERSION [--passed LOG] test ...

An output is cut into pieces, one per SQL statement (regress) or per permutation (isolation).
Pieces that differ are looked up in the list of differences.  Normalised before
they are compared:

- rows of a result whose statement has no ORDER BY are sorted: SQL leaves their order open.  Statements that
  read from a cursor or a prepared statement do not show their ORDER BY: their rows are not sorted;
- the access method's name lsm_index reads btree, where psql and pg_get_indexdef show it;
- counters that lsmam adds to EXPLAIN (ANALYZE), also in JSON, are dropped, and its NOTICE that a
  key is rebuilt as btree, which it says where PostgreSQL supports btree keys only.

The list of differences, one a line, fields separated by tabs:

    versions  configurations  suite/test  class  statement's id  output's id  reason  statement

Ids are digests.  "*" as the output's id accepts any output; it is for outputs that
are not the same in each run.  With it, class "plan" is accepted only where both
outputs are plans, and "order" only where both have the same lines in another order; so
no result can hide behind them.

Exit code 1: differences that are not listed, or tests that did not finish.
"""
import argparse
import difflib
import hashlib
import os
import re
import sys

CLASSES = {
    'physical': 'physical layout: ctid, block counts, page inspection',
    'plan': 'plan choice: EXPLAIN output',
    'order': 'order of rows that no ORDER BY (or only a part of one) asks for: follows the plan',
    'catalog': 'catalog listings of the extra access methods',
    'limit': 'limitation of PostgreSQL; the reason names its function',
    'noise': "differs between runs of PostgreSQL's own heap as well",
}
SEPARATOR = re.compile(r'^-+(\+-+)*$')
ROWS = re.compile(r'^\((\d+) rows?\)$')

COUNTERS = re.compile(r'^ *(LSM( \(leader\))?: \w+|Level \d+: filter )')
JSON_COUNTERS = re.compile(r'^ +"LSM": {')
REBUILT = re.compile(r'^(\w+: )?NOTICE:  index ".*" of table ".*" is rebuilt as (btree|lsm_index)$|'
                     r'^DETAIL:  PostgreSQL (supports|makes|refreshes) .* btree |'
                     r'^DETAIL:  Keys of partitioned tables are supported with btree only|'
                     r'^DETAIL:  The keys of partitions have the access method of')

# 15 says "test NAME ... ok", later versions "ok 7 - NAME"
OK = re.compile(r'^(?:test)?\s*(\S+)\s+\.\.\.\s+ok\b|^ok\s+\d+\s+[-+]\s+(\S+)')


def digest(text):
    return hashlib.sha1(text.encode()).hexdigest()[:8]


def squeeze(text):
    return re.sub(r'\s+', ' ', text).strip()


# ---- cutting outputs into pieces ----

def ended(line):
    return re.search(r';\s*(--.*)?$', line) or line.startswith('\\') or line.startswith('--')


def cut_regress(sql, out):
    """Pieces (statement, output lines); `out` echoes the lines of `sql` in order."""
    pieces = []
    statement, chunk = [], []
    pos, copying = 0, False

    def finish():
        nonlocal statement, chunk
        if chunk:
            # the last statement: what follows the last line that ended one
            last = 0
            for i, line in enumerate(statement[:-1]):
                if ended(line):
                    last = i + 1
            pieces.append((squeeze('\n'.join(
                l for l in statement[last:] if not l.startswith('--'))), chunk))
            statement, chunk = [], []

    for line in sql:
        if copying:
            # data is not echoed; statements after a COPY that failed are
            if line == '\\.':
                copying = False
            if not line or line not in out[pos:pos + 5]:
                continue
            copying = False
            found = out.index(line, pos)
        elif not line:
            # echoed within a statement only
            if pos >= len(out) or out[pos] or not statement or ended(statement[-1]):
                continue
            found = pos
        else:
            try:
                found = out.index(line, pos)
            except ValueError:
                continue
            # a line that is not echoed here may occur much later
            if found - pos > 2000:
                continue
        chunk = out[pos:found]
        finish()
        statement.append(line)
        pos = found + 1
        if re.search(r'\bfrom\s+stdin\b', line, re.I):
            copying = True
    chunk = out[pos:]
    finish()
    return pieces


def cut_isolation(sql, out):
    pieces, name, chunk = [], 'setup', []
    for line in out:
        if line.startswith('starting permutation:'):
            pieces.append((name, chunk))
            name, chunk = line, []
        else:
            chunk.append(line)
    pieces.append((name, chunk))
    return pieces


# ---- normalisation ----

def without_json_counters(lines):
    """Drops what EXPLAIN (FORMAT JSON) says under "LSM", up to the brace at the same depth."""
    result, depth = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is None and JSON_COUNTERS.match(line):
            depth = indent
        elif depth is None:
            result.append(line)
        elif indent == depth and line.lstrip().startswith('}'):
            depth = None
    return result


def normalise(statement, lines, isolation):
    """Sorts rows of results without ORDER BY; AM names as in the baseline."""
    lines = [re.sub(r'(?<![\w.])lsm_index\b', 'btree', l) for l in without_json_counters(lines)]
    result, i = [], 0
    step = statement
    while i < len(lines):
        if isolation and lines[i].startswith('step '):
            step = lines[i]
        elif isolation and step.startswith('step ') and not SEPARATOR.match(lines[i]):
            step += ' ' + lines[i]
        if SEPARATOR.match(lines[i]):
            end = i + 1
            while end < len(lines) and not ROWS.match(lines[end]):
                end += 1
            if end < len(lines):
                rows = [l for l in lines[i + 1:end] if not COUNTERS.match(l)]
                if len(rows) < end - i - 1:
                    n = int(ROWS.match(lines[end]).group(1)) - (end - i - 1 - len(rows))
                    lines[end] = '(%d row%s)' % (n, '' if n == 1 else 's')
                if sortable(step) and not is_plan(lines[i - 1:i]):
                    rows = sorted(rows)
                result += [lines[i]] + rows
                i = end
                continue
        result.append(lines[i])
        i += 1
    return result


def sortable(statement):
    return not re.search(r'\border\s+by\b|\bfetch\b|\bexecute\b|^\\', statement, re.I)


def unpad(lines):
    """For results whose columns became wider or narrower with an AM's name."""
    return [re.sub(r'-+', '-', squeeze(re.sub(r'\s*\|\s*', '|', l))) for l in lines]


def is_plan(lines):
    return any(re.match(r"^ *(QUERY PLAN|explain\w*) *$", l) for l in lines[:2])


def cut(suite, source, test, results):
    path = os.path.join(results, test + '.out')
    if not os.path.exists(path):
        return None
    out = [l for l in open(path, errors='surrogateescape').read().split('\n')
           if not REBUILT.match(l)]
    if suite == 'isolation':
        return cut_isolation(None, out)
    sql = open(os.path.join(source, 'sql', test + '.sql'),
               errors='surrogateescape').read().split('\n')
    return cut_regress(sql, out)


def number(pieces):
    """Statements that occur again get a number."""
    seen, result = {}, []
    for statement, chunk in pieces:
        seen[statement] = seen.get(statement, 0) + 1
        key = statement if seen[statement] == 1 else '%s #%d' % (statement, seen[statement])
        result.append((key, statement, chunk))
    return result


def compare_test(suite, base, ours):
    """Differences (id, class or None, statement, their lines, our lines), and how many differ only by order"""
    isolation = suite == 'isolation'
    base, ours = number(base), number(ours)
    theirs = {key: chunk for key, _, chunk in base}
    mine = {key for key, _, _ in ours}
    differences, reordered = [], 0
    for key, statement, chunk in ours:
        other = theirs.get(key, [])
        if chunk == other:
            continue
        a = normalise(statement, other, isolation)
        b = normalise(statement, chunk, isolation)
        if a == b or unpad(a) == unpad(b):
            reordered += 1
            continue
        kind = None
        if is_plan(other) and is_plan(chunk):
            kind = 'plan'
        elif sorted(unpad(a)) == sorted(unpad(b)):
            kind = 'order'
        differences.append((digest(key), kind, key, a, b))
    for key, statement, chunk in base:
        if key not in mine:
            differences.append((digest(key), None, key, normalise(statement, chunk, isolation), []))
    return differences, reordered


# ---- the list ----

def read_list(path, major):
    """The lines of this version, without the first field"""
    entries = []
    if os.path.exists(path):
        for no, line in enumerate(open(path, errors='surrogateescape'), 1):
            line = line.rstrip('\n')
            if not line or line.startswith('#'):
                continue
            fields = line.split('\t')
            if len(fields) != 8 or fields[3] not in CLASSES or not fields[6]:
                sys.exit('%s:%d: not a difference' % (path, no))
            if major in fields[0].split(','):
                entries.append(fields[1:])
    return entries


def listed(entries, config, test, difference):
    """The entry that covers the difference."""
    key, kind, statement, theirs, ours = difference
    for e in entries:
        if config not in e[0].split(',') or e[1] != test or e[3] != key:
            continue
        if e[2] in ('plan', 'order') and e[4] == '*':
            if kind in ('plan', 'order'):
                return e
        elif e[4] in ('*', digest('\n'.join(ours))):
            return e
    return None


def unused(entries, used, config, suite, tests):
    """Entries for this run that covered nothing (plans are not the same in each run)."""
    return [e for e in entries if config in e[0].split(',') and id(e) not in used and
            e[1].split('/')[0] == suite and e[1].split('/')[1] in tests]


def main():
    p = argparse.ArgumentParser()
    for name in ('config', 'suite', 'source', 'baseline', 'results', 'differences', 'major'):
        p.add_argument('--' + name, required=True)
    p.add_argument('--candidates', help='write unlisted differences here, in the format of the list')
    p.add_argument('--report', help='write what differs here')
    p.add_argument('--passed', help='output of pg_regress: tests that are ok are not looked at')
    p.add_argument('tests', nargs='+')
    args = p.parse_args()

    entries = read_list(args.differences, args.major)
    passed = set()
    if args.passed:
        for line in open(args.passed, errors='replace'):
            m = OK.match(line)
            if m:
                passed.add(m.group(1) or m.group(2))
    counts, reordered, bad, missing, used = {}, 0, 0, 0, set()
    report, candidates = [], []
    for test in args.tests:
        base = cut(args.suite, args.source, test, args.baseline)
        ours = cut(args.suite, args.source, test, args.results)
        if base is None or ours is None:
            print('not ok - %s/%s did not run%s' % (
                args.suite, test, ' on heap' if base is None else ''))
            missing += 1
            continue
        if test in passed:
            continue
        differences, r = compare_test(args.suite, base, ours)
        reordered += r
        for d in differences:
            name = '%s/%s' % (args.suite, test)
            entry = listed(entries, args.config, name, d)
            if entry:
                counts[entry[2]] = counts.get(entry[2], 0) + 1
                used.add(id(entry))
                continue
            bad += 1
            report.append('==== %s %s (%s) %s\n' % (name, d[0], d[1] or '?', d[2][:400]))
            report += [l + '\n' for l in difflib.unified_diff(d[3], d[4], lineterm='', n=2)][2:]
            candidates.append('\t'.join([
                args.major, args.config, name, d[1] or '?', d[0],
                '*' if d[1] else digest('\n'.join(d[4])),
                {'plan': 'the plan differs', 'order': 'row order follows the plan'}.get(d[1], '?'),
                d[2][:100]]) + '\n')
    idle = unused(entries, used, args.config, args.suite, args.tests)
    report += ['==== listed, but not seen: %s %s %s %s\n' % (e[1], e[3], e[2], e[6]) for e in idle]
    for path, lines in ((args.report, report), (args.candidates, candidates)):
        if path:
            with open(path, 'w', errors='surrogateescape') as f:
                f.writelines(lines)
    print('--- %s, %s: %d tests, %d equal to the last row; results in another order: %d; listed: %s; not listed: %d; listed but not seen: %d' % (
        args.config, args.suite, len(args.tests), len(passed & set(args.tests)), reordered,
        ', '.join('%s %d' % kv for kv in sorted(counts.items())) or 'none', bad, len(idle)))
    sys.exit(1 if bad or missing else 0)


main()
