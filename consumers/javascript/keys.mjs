/**
 * The key hash of Headgate: the same as in Python and in Spark SQL (docs/keys.md).
 *
 * XXH64 with seed 42 over the values in canonical form; each value's hash is the seed of the next,
 * and null leaves the seed as it is. No dependencies; browsers and Node 16 or newer.
 */

const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;
const P5 = 0x27d4eb2f165667c5n;
const SEED = 42n;
const LONGS = 2n ** 63n; // a long is in [-LONGS, LONGS)
const encoder = new TextEncoder();

const u64 = (bits) => BigInt.asUintN(64, bits);
const rotated = (bits, by) => u64(bits << by) | (bits >> (64n - by));
const round = (state, word) => u64(rotated(u64(state + word * P2), 31n) * P1);

/** Return XXH64 of a Uint8Array as a BigInt in [0, 2**64). */
export function xxh64(bytes, seed) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const word = (place) => view.getBigUint64(place, true);
  const size = bytes.length;
  let place = 0;
  let state = u64(seed + P5);
  if (size >= 32) {
    const lanes = [u64(seed + P1 + P2), u64(seed + P2), seed, u64(seed - P1)];
    for (; place + 32 <= size; place += 32) {
      for (let k = 0; k < 4; k++) lanes[k] = round(lanes[k], word(place + 8 * k));
    }
    const [a, b, c, d] = lanes;
    state = u64(rotated(a, 1n) + rotated(b, 7n) + rotated(c, 12n) + rotated(d, 18n));
    for (const lane of lanes) state = u64((state ^ round(0n, lane)) * P1 + P4);
  }
  state = u64(state + BigInt(size));
  for (; place + 8 <= size; place += 8) {
    state = u64(rotated(state ^ round(0n, word(place)), 27n) * P1 + P4);
  }
  if (place + 4 <= size) {
    const half = u64(BigInt(view.getUint32(place, true)) * P1);
    state = u64(rotated(state ^ half, 23n) * P2 + P3);
    place += 4;
  }
  for (; place < size; place++) {
    state = u64(rotated(state ^ u64(BigInt(bytes[place]) * P5), 11n) * P1);
  }
  state = u64((state ^ (state >> 33n)) * P2);
  state = u64((state ^ (state >> 29n)) * P3);
  return state ^ (state >> 32n);
}

function long(value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigInt64(0, value, true);
  return bytes;
}

function double(value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, value, true);
  return bytes;
}

/** Return the bytes that are hashed for a value, or null for null. */
function canonical(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return null;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : long(BigInt(value.getTime()) * 1000n);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (typeof value === "boolean") return long(value ? 1n : 0n);
  if (typeof value === "number") {
    const whole = Number.isInteger(value) && value >= -(2 ** 63) && value < 2 ** 63;
    return whole ? long(BigInt(value)) : double(value);
  }
  // Unsigned 64-bit numbers keep their bits, longer ones become digits.
  if (typeof value === "bigint" && value >= -LONGS && value < 2n * LONGS) return long(value);
  return encoder.encode(String(value));
}

/**
 * Return the hash of one item's key as a BigInt in [0, 2**64).
 *
 * @param {Array} values the key's values, in its order
 * @param {{salt?: number | bigint}} [options] a long that is hashed before the values
 */
export function keyHash(values, { salt } = {}) {
  let hash = salt === undefined || salt === null ? SEED : xxh64(long(BigInt(salt)), SEED);
  for (const value of values) {
    const bytes = canonical(value);
    if (bytes !== null) hash = xxh64(bytes, hash);
  }
  return hash;
}

/** Return the draw of a hash, a number in [0, 2**32): an item is dropped iff it is below the step. */
export function draw(hash) {
  return Number(hash >> 32n);
}

/** Return the step of a drop fraction: ceil(fraction * 2**32). */
export function dropStep(fraction) {
  return Math.ceil(fraction * 2 ** 32);
}
