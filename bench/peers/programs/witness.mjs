// The same as witness.py. `called(jobs)` is one call of a handler, which may have been given several jobs.

import { openSync, writeSync } from "node:fs";

const file = openSync(process.env.PEER_WITNESS, "a");
const step = Number(process.env.PEER_STEP);
let calls = 0;
let jobs = 0;
let next = 1;

export function begin() {
  note();
}

export function called(given = 1) {
  calls += 1;
  jobs += given;
  if (jobs >= next) {
    note();
    next = (Math.floor(jobs / step) + 1) * step;
  }
}

export function finish() {
  note();
}

function note() {
  writeSync(file, `${process.pid} ${calls} ${jobs}\n`);
}
