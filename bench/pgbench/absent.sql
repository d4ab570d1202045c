-- an absent key between present ones, uniform; -D rows=N as in present.sql
\set id random(1, :rows)
SELECT v FROM t WHERE id = 2 * :id - 1;
