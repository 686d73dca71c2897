/**
 * `node check.mjs KIT` compares this consumer with the conformance kit in the folder KIT.
 *
 * Prints one line per file; the exit code is 1 if any answer differs or a damaged plan is taken.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import * as headgate from "./headgate.mjs";

const bytesOf = (base64) => new Uint8Array(Buffer.from(base64, "base64"));
const same = (a, b) => a.length === b.length && a.every((x, k) => Object.is(x, b[k]));
const digits = (flags) => Array.from(flags).join("");

/** Counts answers, and lists those that differ. */
class Tally {
  answers = 0;
  refused = 0;
  wrong = [];

  expect(right, what, count = 1) {
    this.answers += count;
    if (!right) this.wrong.push(what);
  }

  /** Expect that `read` throws what a consumer throws for damaged plans. */
  async refuses(read, what) {
    try {
      await read();
      this.wrong.push(`${what}: taken`);
    } catch (error) {
      if (!(error instanceof headgate.Damaged)) this.wrong.push(`${what}: ${error.stack}`);
      this.refused += 1;
    }
  }
}

const VALUES = {
  null: () => null,
  flag: (x) => x,
  long: BigInt,
  text: (x) => x,
  bytes: (x) => Buffer.from(x, "hex"),
  double: (x) => Buffer.from(x, "hex").readDoubleLE(),
};

function checkKeys({ keys }, tally) {
  for (const { key, salt, hash, draw } of keys) {
    const values = key.map(([kind, x]) => VALUES[kind](x));
    const made = headgate.keyHash(values, salt === null ? {} : { salt: BigInt(salt) });
    tally.expect(String(made) === hash && headgate.draw(made) === draw, `hash of ${JSON.stringify(key)}`);
  }
}

async function read(version, trusted) {
  const manifest = await headgate.readManifest(bytesOf(version.manifest), trusted, version);
  for (const encoding of ["json", "binary"]) {
    headgate.decode(await headgate.readPayload(bytesOf(version[encoding]), manifest, encoding), encoding);
  }
}

async function checkManifests({ trusted, good, refused }, tally) {
  for (const version of good) {
    await read(version, trusted);
    tally.expect(true, "");
  }
  for (const version of refused) await tally.refuses(() => read(version, trusted), version.why);
}

const FAMILIES = {
  sifter(plan, given, tally) {
    tally.expect(same(Array.from(plan.places(given.columns)), given.regions), "regions", given.regions.length);
    const draws = headgate.draws(given.keys, given.salt === null ? {} : { salt: BigInt(given.salt) });
    tally.expect(same(Array.from(draws), given.draws), "draws", draws.length);
    given.settings.forEach(({ load, thresholds, steps }, k) => {
      const setting = plan.at(load);
      tally.expect(same(Array.from(setting.thresholds), thresholds), `thresholds at ${load}`);
      tally.expect(same(Array.from(setting.steps), steps), `steps at ${load}`);
      const kept = digits(plan.decide(given.columns, draws, setting));
      tally.expect(kept === given.decisions[k], `decisions at ${load}`, kept.length);
    });
  },

  fit(plan, given, tally) {
    given.settings.forEach(({ load, steps }, k) => {
      const setting = plan.at(load);
      tally.expect(same(Array.from(setting.steps), steps), `steps at ${load}`);
      const kept = digits(plan.decide(given.labels, given.draws, setting));
      tally.expect(kept === given.decisions[k], `decisions at ${load}`, kept.length);
    });
  },

  lira(plan, given, tally) {
    const { x, y } = given.columns;
    const levels = x.map((at, i) => plan.levelAt(at ?? NaN, y[i]));
    tally.expect(same(levels, given.levels), "levels", levels.length);
    for (const { load, by_level: expected } of given.settings) {
      tally.expect(same(Array.from(plan.at(load).byLevel), expected), `throttlers at ${load}`);
    }
    given.runs.forEach((load, k) => {
      const kept = digits(new headgate.LiraShedder(plan, load).decide(given.columns));
      tally.expect(kept === given.decisions[k], `decisions at ${load}`, kept.length);
    });
  },

  attributes(plan, given, tally) {
    for (const { load, ...expected } of given.settings) {
      const made = plan.at(load);
      const names = [made.capacityBytes, made.tupleRate, made.period, made.band, made.header];
      const answer = [...names, plan.promises(made).windowBytes];
      tally.expect(JSON.stringify(answer) === JSON.stringify(Object.values(expected)), `setting at ${load}`);
    }
    let next = 0;
    for (const loads of given.runs) {
      const shedder = new headgate.AttributesShedder(plan, loads[0]);
      given.batches.forEach(({ columns, draws }, k) => {
        shedder.setLoad(loads[k]);
        const kept = digits(shedder.decide(columns, draws));
        tally.expect(kept === given.decisions[next++], `decisions at ${loads}, batch ${k}`, kept.length);
      });
    }
  },
};

async function checkFamily({ family, cases, damaged }, tally) {
  for (const given of cases) {
    for (const encoding of ["json", "binary"]) {
      const before = tally.wrong.length;
      FAMILIES[family](headgate.decode(bytesOf(given[encoding]), encoding), given, tally);
      for (let k = before; k < tally.wrong.length; k++) tally.wrong[k] = `${given.name}, ${encoding}: ${tally.wrong[k]}`;
    }
  }
  for (const { encoding, why, data } of damaged) {
    await tally.refuses(() => headgate.decode(bytesOf(data), encoding), `${family}, ${encoding}: ${why}`);
  }
}

/** Return the tally of every file of a kit. */
export async function check(folder) {
  const open = (name) => JSON.parse(readFileSync(join(folder, name), "utf-8"));
  const tallies = {};
  for (const name of Object.keys(open("kit.json").files)) {
    const content = open(name);
    const tally = (tallies[name] = new Tally());
    if (content.keys) checkKeys(content, tally);
    else if (content.trusted) await checkManifests(content, tally);
    else await checkFamily(content, tally);
  }
  return tallies;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const tallies = await check(process.argv[2]);
  for (const [name, { answers, refused, wrong }] of Object.entries(tallies)) {
    console.log(`${name}: ${answers} answers, ${refused} refused, ${wrong.length} wrong`);
    for (const what of wrong.slice(0, 20)) console.log(`  ${what}`);
  }
  process.exitCode = Object.values(tallies).some(({ wrong }) => wrong.length) ? 1 : 0;
}
