// graphile-worker: the local queue and batched completion, as on the page of its own performance tests.

import { makeWorkerUtils, run } from "graphile-worker";
import { called, finish } from "./witness.mjs";

const preset = {
  worker: {
    connectionString: process.env.PEER_STORE,
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

const noop = async () => {
  called();
};

const [verb, jobs] = process.argv.slice(2);
if (verb === "fill") {
  const utils = await makeWorkerUtils({ preset });
  await utils.migrate();
  await utils.withPgClient((client) =>
    client.query(
      `SELECT graphile_worker.add_jobs(array(
         SELECT ('noop', '{}'::json, NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
           FROM generate_series(1, $1::int)))`,
      [jobs],
    ),
  );
  await utils.release();
} else {
  // Its own handler would end the process by the signal, before the last word of the witness.
  const runner = await run({ preset, taskList: { noop }, noHandleSignals: true });
  process.on("SIGTERM", () => runner.stop());
  await runner.promise;
  finish();
}
