-- a present key, uniform; -D rows=N: the table has the even ids up to 2 N
\set id random(1, :rows)
SELECT v FROM t WHERE id = 2 * :id;
