/** Manifests: whose signature, of which version, and which payload belongs to it. */

import { Damaged, is, must, parsed } from "./reading.mjs";

// Node 18 has it, but not under the name that browsers use.
const { subtle } = globalThis.crypto ?? (await import("node:crypto")).webcrypto;
const MARK = new TextEncoder().encode('"signature":"');
const QUOTE = 0x22;
const isPayload = is.object({ digest: (d) => /^[0-9a-f]{64}$/.test(d), bytes: is.integer });
const isPayloads = is.object({ json: isPayload, binary: isPayload });
const isValidity = is.object({
  not_after: (time) => time === null || (is.text(time) && !Number.isNaN(Date.parse(time))),
  fallback: (what) => ["keep", "pass", "uniform"].includes(what),
});

/**
 * Return a manifest whose signature a trusted key made.
 *
 * @param {Uint8Array} bytes the file `versions/<number>.json`
 * @param {string[]} trusted public keys in PEM form
 * @param {{stream: string, version: number}} expected what the file's path says
 */
export async function readManifest(bytes, trusted, { stream, version }) {
  const manifest = parsed(bytes);
  must(manifest?.schema_version === 1 || manifest?.schema_version === 2, "have schema version 1 or 2");
  must(isPayloads(manifest.payloads) && isValidity(manifest.validity), "name its payloads and validity");
  must(manifest.stream === stream && manifest.version === version, `be ${stream}, version ${version}`);
  const begin = lastPlace(bytes, MARK) + MARK.length;
  const end = bytes.indexOf(QUOTE, begin);
  must(begin >= MARK.length && end > begin, "be signed");
  const value = String.fromCharCode(...bytes.subarray(begin, end));
  must(value === manifest.signature && /^[A-Za-z0-9+/]{86}==$/.test(value), "have one signature");
  const message = new Uint8Array(bytes.length - value.length);
  message.set(bytes.subarray(0, begin));
  message.set(bytes.subarray(end), begin);
  for (const pem of trusted) {
    const key = await publicKey(pem);
    if (key.id !== manifest.key_id) continue;
    const good = await subtle.verify("Ed25519", key.key, base64(value), message);
    must(good, "have the signature of its content");
    return manifest;
  }
  throw new Damaged(`a manifest must be signed by a trusted key, got one of ${manifest.key_id}`);
}

/** Return a payload's bytes if they are those that a verified manifest names. */
export async function readPayload(bytes, manifest, encoding) {
  const { digest, bytes: size } = manifest.payloads[encoding];
  must(bytes.length === size && (await sha256(bytes)) === digest, "match the digest in its manifest");
  return bytes;
}

async function publicKey(pem) {
  const der = base64(pem.replace(/-----[A-Z ]+-----|\s/g, ""));
  const key = await subtle.importKey("spki", der, "Ed25519", true, ["verify"]);
  const raw = new Uint8Array(await subtle.exportKey("raw", key));
  return { key, id: (await sha256(raw)).slice(0, 16) };
}

async function sha256(bytes) {
  const digest = new Uint8Array(await subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const base64 = (value) => Uint8Array.from(atob(value), (character) => character.charCodeAt(0));

function lastPlace(bytes, mark) {
  for (let at = bytes.length - mark.length; at >= 0; at--) {
    if (mark.every((byte, k) => bytes[at + k] === byte)) return at;
  }
  return -mark.length - 1;
}
