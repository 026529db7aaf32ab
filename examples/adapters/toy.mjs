// A system that is no Python: the same protocol, a JSON object a line. It keeps a file a key, and believes it.
//
//     survives check -- node examples/adapters/toy.mjs
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const next = async () => JSON.parse((await lines.next()).value ?? process.exit(0));
let folder;

const claims = [
  { id: "at-most-once", says: "A key is never sent twice.", where: "this file" },
  { id: "true-completion", says: "Done is what the sink has answered.", where: "this file" },
  { id: "first-result", says: "A repetition is told the first receipt.", where: "this file" },
  { id: "progress", says: "What is in doubt waits for an operator.", choice: "operator", where: "this file" },
];

async function held(id, point, more) {
  say({ id, held: point, n: 1, ...more });
  return await next(); // {"continue": 1, "receipt": "r1"}, or {"continue": 1, "raise": "..."}
}

function write(path, text) {
  const file = openSync(path + ".new", "w");
  writeSync(file, text);
  fsyncSync(file);
  closeSync(file);
  renameSync(path + ".new", path);
}

async function start(id, { key, payload }) {
  const path = `${folder}/${key}`;
  if (existsSync(path)) {
    const receipt = readFileSync(path, "utf8");
    return receipt ? { outcome: "done", result: receipt } : { outcome: "unknown", reason: "it was begun" };
  }
  write(path, "");
  const told = await held(id, "effect-enter", { key, payload, effect_id: key });
  const exit = await held(id, "effect-exit", { key });
  if (told.raise ?? exit.raise) return { outcome: "failed", reason: told.raise ?? exit.raise };
  write(path, told.receipt);
  return { outcome: "done", result: told.receipt };
}

for (;;) {
  const { id, do: what, with: given, ...rest } = await next();
  if (what === "hello") {
    folder = rest.folder;
    say({ id, version: 1, style: "call", system: "toy.mjs", system_version: "1.0", abilities: ["effect-id"], claims });
  } else if (what === "start") say({ id, ...(await start(id, given)) });
  else if (what === "close") { say({ id, outcome: "done" }); process.exit(0); }
  else say({ id, error: `this adapter has no ${what}` });
}
