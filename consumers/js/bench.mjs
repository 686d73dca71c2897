/** `node bench.mjs PLAN ITEMS ROUNDS` prints seconds of processor time per step as JSON. */

import { readFileSync } from "node:fs";

import { decode, draws } from "./headgate.mjs";

const [path, items, rounds] = process.argv.slice(2);
const plan = decode(new Uint8Array(readFileSync(path)), "json");
const count = Number(items);
const setting = plan.at(0.5);
const longs = BigInt64Array.from({ length: count }, (_, i) => BigInt(i) * 2654435761n);
const numbers = Float64Array.from(longs, Number);
const texts = Array.from(longs, (long) => `user-${long}`);
const spread = (k, { low, high }) =>
  Float64Array.from({ length: count }, (_, i) => low + (high - low) * ((i * (k + 1) * 0.6180339887498949) % 1));
const columns = Object.fromEntries(plan.axes.map((axis, k) => [axis.name, spread(k, axis)]));

/** Return the least processor time of several rounds. */
function least(step) {
  let best = Infinity;
  for (let round = 0; round < Number(rounds); round++) {
    const before = process.cpuUsage();
    step();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / 1e6);
  }
  return best;
}

const drawn = draws([longs]);
console.log(JSON.stringify({
  longs: least(() => plan.decide(columns, draws([longs]), setting)),
  numbers: least(() => plan.decide(columns, draws([numbers]), setting)),
  texts: least(() => plan.decide(columns, draws([texts]), setting)),
  drawn: least(() => plan.decide(columns, drawn, setting)),
  settings: least(() => { for (let k = 0; k < 1000; k++) plan.at(k / 1000); }) / 1000,
}));
