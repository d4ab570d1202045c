-- The twelve conditions of consistency of TPC-C (clause 3.3.2 of its specification), over the tables of sysbench-tpcc with
-- number 1: one line each, with how many warehouses, districts, orders or customers break it.
WITH
ordered AS (SELECT o_w_id, o_d_id, max(o_id) newest, count(*) orders, sum(o_ol_cnt) lines,
		count(o_carrier_id) delivered
	FROM orders1 GROUP BY 1, 2),
waiting AS (SELECT no_w_id, no_d_id, max(no_o_id) newest, min(no_o_id) oldest, count(*) orders FROM new_orders1 GROUP BY 1, 2),
lines AS (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) lines, count(ol_delivery_d) delivered,
		sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) amount
	FROM order_line1 GROUP BY 1, 2, 3),
bought AS (SELECT o_w_id, o_d_id, o_c_id, sum(amount) amount
	FROM orders1 JOIN lines ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) GROUP BY 1, 2, 3),
paid AS (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) amount FROM history1 GROUP BY 1, 2, 3)
SELECT 1 AS condition, count(*) AS broken
	FROM warehouse1 WHERE w_ytd <> (SELECT sum(d_ytd) FROM district1 WHERE d_w_id = w_id)
UNION ALL SELECT 2, count(*)
	FROM district1 JOIN ordered ON (o_w_id, o_d_id) = (d_w_id, d_id) LEFT JOIN waiting ON (no_w_id, no_d_id) = (d_w_id, d_id)
	WHERE d_next_o_id - 1 <> ordered.newest OR d_next_o_id - 1 <> coalesce(waiting.newest, ordered.newest)
UNION ALL SELECT 3, count(*) FROM waiting WHERE newest - oldest + 1 <> orders
UNION ALL SELECT 4, count(*)
	FROM ordered WHERE lines <> (SELECT sum(l.lines) FROM lines l WHERE (ol_w_id, ol_d_id) = (o_w_id, o_d_id))
UNION ALL SELECT 5, count(*)
	FROM orders1 LEFT JOIN new_orders1 ON (no_w_id, no_d_id, no_o_id) = (o_w_id, o_d_id, o_id)
	WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)
UNION ALL SELECT 6, count(*)
	FROM orders1 LEFT JOIN lines ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) WHERE o_ol_cnt IS DISTINCT FROM lines
UNION ALL SELECT 7, count(*)
	FROM orders1 JOIN lines ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id)
	WHERE delivered <> CASE WHEN o_carrier_id IS NULL THEN 0 ELSE lines END
UNION ALL SELECT 8, count(*) FROM warehouse1 WHERE w_ytd <> (SELECT sum(h_amount) FROM history1 WHERE h_w_id = w_id)
UNION ALL SELECT 9, count(*)
	FROM district1 WHERE d_ytd <> (SELECT sum(h_amount) FROM history1 WHERE (h_w_id, h_d_id) = (d_w_id, d_id))
UNION ALL SELECT 10, count(*)
	FROM customer1 LEFT JOIN bought ON (o_w_id, o_d_id, o_c_id) = (c_w_id, c_d_id, c_id)
		LEFT JOIN paid ON (h_c_w_id, h_c_d_id, h_c_id) = (c_w_id, c_d_id, c_id)
	WHERE c_balance <> coalesce(bought.amount, 0) - coalesce(paid.amount, 0)
UNION ALL SELECT 11, count(*)
	FROM ordered LEFT JOIN waiting ON (no_w_id, no_d_id) = (o_w_id, o_d_id)
	WHERE ordered.orders - coalesce(waiting.orders, 0) <> delivered
UNION ALL SELECT 12, count(*)
	FROM customer1 LEFT JOIN bought ON (o_w_id, o_d_id, o_c_id) = (c_w_id, c_d_id, c_id)
	WHERE c_balance + c_ytd_payment <> coalesce(bought.amount, 0)
ORDER BY 1;
