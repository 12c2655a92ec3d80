// pg-boss: many polling workers that take one job each, or one that is given thousands of jobs in one call.

import { PgBoss } from "pg-boss";
import { begin, called, finish } from "./witness.mjs";

const QUEUE = "noop";
const CONCURRENCY = 20;
const BATCH = 5000;

const boss = new PgBoss({
  connectionString: process.env.PEER_STORE,
  max: CONCURRENCY,
  // How soon workers learn that there is a backlog, so that they need not rest between two jobs.
  superviseIntervalSeconds: 1,
  monitorIntervalSeconds: 1,
  queueCacheIntervalSeconds: 1,
});
boss.on("error", console.error);
await boss.start();

const [verb, parameter] = process.argv.slice(2);
if (verb === "fill") {
  await boss.createQueue(QUEUE);
  for (let left = Number(parameter); left > 0; left -= BATCH) {
    await boss.insert(QUEUE, Array.from({ length: Math.min(BATCH, left) }, () => ({})));
  }
  await boss.stop();
} else {
  if (parameter === "batches") {
    begin();
    await boss.work(QUEUE, { batchSize: BATCH, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      called(jobs.length);
    });
  } else {
    const each = { localConcurrency: CONCURRENCY, burstWhenReadyExceeds: 1, pollingIntervalSeconds: 0.5 };
    await boss.work(QUEUE, each, async () => {
      called();
    });
  }
  process.on("SIGTERM", async () => {
    await boss.stop();
    finish();
    process.exit(0);
  });
}
