/**
 * Plans of Headgate in JavaScript: verified, decoded and applied as Python does it.
 *
 * No dependencies; browsers and Node 18 or newer. docs/artifacts.md describes what is read here.
 */

import { AttributesPlan } from "./attributes.mjs";
import { AttributesShedder } from "./attributes_shedder.mjs";
import { FitPlan, Unanswered } from "./fit.mjs";
import { LiraPlan, LiraShedder } from "./lira.mjs";
import { SifterPlan } from "./sifter.mjs";
import { Damaged, Reader, crc32, is, must, parsed } from "./reading.mjs";

export { draw, draws, dropStep, keyHash } from "./keys.mjs";
export { readManifest, readPayload } from "./manifests.mjs";
export { AttributesPlan, AttributesShedder, Damaged, FitPlan, LiraPlan, LiraShedder, SifterPlan, Unanswered };

const FORMAT_VERSION = 1;
const HEADER = 8;
const FAMILIES = { 1: "sifter", 2: "lira", 3: "attributes", 4: "joins", 5: "fit" };
const PLANS = { sifter: SifterPlan, lira: LiraPlan, attributes: AttributesPlan, fit: FitPlan };

/** Return the plan in a payload: the bytes of a `.json` or a `.bin` file. */
export function decode(bytes, encoding) {
  return encoding === "binary" ? decodeBinary(bytes) : decodeJson(bytes);
}

export function decodeJson(bytes) {
  const envelope = parsed(bytes);
  const isEnvelope = is.object({ headgate: is.integer, family: is.text, plan: is.map(() => true) });
  must(isEnvelope(envelope), "have the fields headgate, family and plan");
  return known(envelope.family, envelope.headgate, (kind) => kind.fromDocument(envelope.plan));
}

export function decodeBinary(bytes) {
  must(bytes.length >= HEADER, `have a header of ${HEADER} bytes`);
  const reader = new Reader(bytes);
  reader.magic("HG");
  const version = reader.u8(), family = FAMILIES[reader.u8()], checksum = reader.u32();
  const payload = reader.rest();
  must(crc32(payload, crc32(bytes.subarray(0, 4))) === checksum, "fit its checksum");
  return known(family, version, (kind) => kind.fromBytes(payload));
}

function known(family, version, read) {
  must(version === FORMAT_VERSION, `have format version ${FORMAT_VERSION}`);
  must(Object.hasOwn(PLANS, family ?? ""), `be of ${Object.keys(PLANS).join(", ")}`);
  try {
    return read(PLANS[family]);
  } catch (error) {
    if (error instanceof Damaged) throw error;
    throw new Damaged(`a ${family} plan must fit together, got: ${error.message}; fetch it again`);
  }
}
