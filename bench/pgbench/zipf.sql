-- Zipf-distributed, hot keys anywhere in the table: -D theta=1.1 -D alpha=PERCENT (present) -D rows=N
\set rank random_zipfian(1, :rows, :theta)
\set id 1 + permute(:rank - 1, :rows)
\set absent case when random(1, 100) > :alpha then 1 else 0 end
SELECT v FROM t WHERE id = 2 * :id - :absent;
