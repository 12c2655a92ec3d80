// Creates a job and reads it, by types that openapi-typescript made: `tsc` checks it, Node runs it.
import type { paths } from "./timeball.js";

type Create = paths["/v1/jobs"]["post"];
type Job = Create["responses"][201]["content"]["application/json"];
type Body = Create["requestBody"]["content"]["application/json"];
type Read = paths["/v1/jobs/{jobId}"]["get"];
type Poll = paths["/v1/worker/poll"]["post"]["responses"][200]["content"]["application/json"];

declare const process: { argv: string[] };
const [url, key] = process.argv.slice(2);
const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };

const body: Body = { name: "typed", task: { kind: "shell", command: "true" } };
const created: Job = await (await fetch(`${url}/v1/jobs`, { method: "POST", headers, body: JSON.stringify(body) })).json();

const path: Read["parameters"]["path"] = { jobId: created.jobId };
const read: Read["responses"][200]["content"]["application/json"] =
  await (await fetch(`${url}/v1/jobs/${path.jobId}`, { headers })).json();
console.log(JSON.stringify(read));

// A tuple of the worker protocol has two members, and the compiler knows it.
const pause: NonNullable<Poll["pause"]> = [[1, 2]];
// @ts-expect-error
pause.push([1, 2, 3]);
