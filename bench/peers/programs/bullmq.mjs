// BullMQ: a worker with many jobs at a time, which forgets what is complete. Two of them, one for each core.

import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { called, finish } from "./witness.mjs";

const QUEUE = "noop";
const CONCURRENCY = 100;
const BATCH = 5000;

const connection = new Redis({ path: process.env.PEER_STORE, maxRetriesPerRequest: null });

const [verb, jobs] = process.argv.slice(2);
if (verb === "fill") {
  const queue = new Queue(QUEUE, { connection });
  for (let left = Number(jobs); left > 0; left -= BATCH) {
    await queue.addBulk(Array.from({ length: Math.min(BATCH, left) }, () => ({ name: QUEUE, data: {} })));
  }
  await queue.close();
  connection.disconnect();
} else {
  const options = { connection, concurrency: CONCURRENCY, removeOnComplete: { count: 0 } };
  const worker = new Worker(
    QUEUE,
    async () => {
      called();
    },
    options,
  );
  worker.on("error", console.error);
  process.on("SIGTERM", async () => {
    await worker.close();
    finish();
    process.exit(0);
  });
}
