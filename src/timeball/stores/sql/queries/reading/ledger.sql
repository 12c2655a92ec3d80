-- The ledger of a job: the verdicts on its fires.

-- name: ledger_sums
-- The number of fires of each verdict, and of fires without one. One statement, so that a run that ends at the same
-- time counts once. A span of fires that reaches into the range counts as a whole, and so does a day of which only the
-- daily sums are left. A run that is being removed is in `history`, in `departing` or in the daily sums. Most runs are
-- on time: the statement counts all runs in an index, and takes off those that are not on time, which have a smaller
-- index. Runs that were not due have no verdict here.
SELECT f.verdict, SUM(f.fires), SUM(f.taken_off) FROM (
  SELECT {verdict.on_time} AS verdict, COUNT(*) AS fires, 0 AS taken_off FROM history r WHERE {finished}
  UNION ALL SELECT CASE WHEN {due} THEN r.verdict END, r.fires, 1 FROM history r
    WHERE {finished} AND (r.verdict <> {verdict.on_time} OR r.origin <> {origin.schedule})
  UNION ALL SELECT r.verdict, r.fires, 0 FROM history r WHERE {short}
  UNION ALL SELECT r.verdict, r.fires, 0 FROM history r WHERE {long}
  UNION ALL SELECT r.verdict, r.fires, 0 FROM departing r WHERE {departing} AND NOT EXISTS (
    SELECT 1 FROM departures d WHERE r.id >= d.since AND r.id <= d.upto
  )
  UNION ALL SELECT s.verdict, s.fires, 0 FROM daily_sums s
    WHERE s.job_id = :job_id AND s.day > :since - 86400000000 AND s.day < :until
) AS f GROUP BY f.verdict
UNION ALL SELECT {verdict.open}, COUNT(*), 0 FROM runs r WHERE {live};
