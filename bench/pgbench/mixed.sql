-- a share of present keys: -D alpha=PERCENT -D rows=N
\set id random(1, :rows)
\set absent case when random(1, 100) > :alpha then 1 else 0 end
SELECT v FROM t WHERE id = 2 * :id - :absent;
