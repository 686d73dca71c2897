/**
 * The key hash of Headgate: the same as in Python and in Spark SQL (docs/keys.md).
 *
 * XXH64 with seed 42 over the values in canonical form; each value's hash is the seed of the next,
 * and null leaves the seed as it is. No dependencies; browsers and Node 18 or newer.
 *
 * Numbers of 64 bits are two halves of 32, as signed integers: a BigInt would take ten times as
 * long. `state` holds the hash so far, [low, high].
 */

const P1L = 0x85ebca87 | 0, P1H = 0x9e3779b1 | 0;
const P2L = 0x27d4eb4f | 0, P2H = 0xc2b2ae3d | 0;
const P3L = 0x9e3779f9 | 0, P3H = 0x165667b1 | 0;
const P4L = 0xc2b2ae63 | 0, P4H = 0x85ebca77 | 0;
const P5L = 0x165667c5 | 0, P5H = 0x27d4eb2f | 0;
const SEED = 42;
const HALF = 2 ** 32;
const LONGS = 2n ** 63n; // a long is in [-LONGS, LONGS)
const encoder = new TextEncoder();
const double = new Float64Array(1);
const doubleHalves = new Int32Array(double.buffer);
const long = new BigInt64Array(1);
const longHalves = new Int32Array(long.buffer);
const state = new Int32Array(2);
const word = new Int32Array(2);
const lanes = new Int32Array(8);
const scratch = new Uint8Array(256);
const TURNS = [1, 7, 12, 18];

/** Return the upper half of the product of two unsigned halves. */
function mulHigh(a, b) {
  const al = a & 0xffff, ah = a >>> 16, bl = b & 0xffff, bh = b >>> 16;
  const first = (Math.imul(ah, bl) + (Math.imul(al, bl) >>> 16)) | 0;
  const second = (Math.imul(al, bh) + (first & 0xffff)) | 0;
  return (Math.imul(ah, bh) + (first >>> 16) + (second >>> 16)) | 0;
}

/** Return the upper half of a sum whose lower halves gave `low` from `part`. */
const carried = (high, low, part) => (high + ((low >>> 0) < (part >>> 0) ? 1 : 0)) | 0;

/** Fold 8 bytes into the hash: XXH64 of a long, with `state` as its seed. */
function foldLong(low, high) {
  // round(0, word): rotated(word * P2, 31) * P1
  let l = Math.imul(low, P2L);
  let h = (mulHigh(low, P2L) + Math.imul(high, P2L) + Math.imul(low, P2H)) | 0;
  let rl = (l << 31) | (h >>> 1);
  let rh = (h << 31) | (l >>> 1);
  l = Math.imul(rl, P1L);
  h = (mulHigh(rl, P1L) + Math.imul(rh, P1L) + Math.imul(rl, P1H)) | 0;
  // state = seed + P5 + 8, then one word
  let sl = (state[0] + P5L) | 0;
  let sh = carried((state[1] + P5H) | 0, sl, P5L);
  const grown = (sl + 8) | 0;
  sh = carried(sh, grown, sl) ^ h;
  sl = grown ^ l;
  rl = (sl << 27) | (sh >>> 5);
  rh = (sh << 27) | (sl >>> 5);
  h = (mulHigh(rl, P1L) + Math.imul(rh, P1L) + Math.imul(rl, P1H) + P4H) | 0;
  const product = Math.imul(rl, P1L);
  l = (product + P4L) | 0;
  h = carried(h, l, P4L);
  settle(l, h);
}

/** Mix the bits of a finished hash and keep it. */
function settle(low, high) {
  let l = low ^ (high >>> 1); // >> 33
  let h = high;
  let nl = Math.imul(l, P2L);
  let nh = (mulHigh(l, P2L) + Math.imul(h, P2L) + Math.imul(l, P2H)) | 0;
  l = nl ^ ((nl >>> 29) | (nh << 3));
  h = nh ^ (nh >>> 29);
  nl = Math.imul(l, P3L);
  nh = (mulHigh(l, P3L) + Math.imul(h, P3L) + Math.imul(l, P3H)) | 0;
  state[0] = nl ^ nh;
  state[1] = nh;
}

/** In `at`, at place k: (number + addend) of two halves each. */
function add(at, k, low, high) {
  const sum = (at[k] + low) | 0;
  at[k + 1] = carried((at[k + 1] + high) | 0, sum, low);
  at[k] = sum;
}

function multiply(at, k, low, high) {
  const l = at[k];
  at[k + 1] = (mulHigh(l, low) + Math.imul(at[k + 1], low) + Math.imul(l, high)) | 0;
  at[k] = Math.imul(l, low);
}

function rotate(at, k, by) { // by less than 32
  const l = at[k], h = at[k + 1];
  at[k] = (l << by) | (h >>> (32 - by));
  at[k + 1] = (h << by) | (l >>> (32 - by));
}

/** In `at`, at place k: rotated(number + word * P2, 31) * P1. */
function round(at, k, low, high) {
  const upper = (mulHigh(low, P2L) + Math.imul(high, P2L) + Math.imul(low, P2H)) | 0;
  add(at, k, Math.imul(low, P2L), upper);
  rotate(at, k, 31);
  multiply(at, k, P1L, P1H);
}

const half = (bytes, k) =>
  bytes[k] | (bytes[k + 1] << 8) | (bytes[k + 2] << 16) | (bytes[k + 3] << 24);

/** Fold the first `size` bytes into the hash: XXH64 with `state` as its seed. */
function foldBytes(bytes, size = bytes.length) {
  let place = 0;
  if (size >= 32) place = foldStripes(bytes, size);
  else add(state, 0, P5L, P5H);
  add(state, 0, size, 0);
  for (; place + 8 <= size; place += 8) {
    word[0] = word[1] = 0;
    round(word, 0, half(bytes, place), half(bytes, place + 4));
    mix(27, P1L, P1H, P4L, P4H);
  }
  if (place + 4 <= size) {
    word[0] = half(bytes, place);
    word[1] = 0;
    multiply(word, 0, P1L, P1H);
    mix(23, P2L, P2H, P3L, P3H);
    place += 4;
  }
  for (; place < size; place++) {
    word[0] = bytes[place];
    word[1] = 0;
    multiply(word, 0, P5L, P5H);
    mix(11, P1L, P1H, 0, 0);
  }
  settle(state[0], state[1]);
}

/** Fold all whole stripes of 32 bytes; return where they end. */
function foldStripes(bytes, size) {
  let place = 0;
  for (let k = 0; k < 8; k++) lanes[k] = state[k & 1];
  add(lanes, 0, P1L, P1H);
  add(lanes, 0, P2L, P2H);
  add(lanes, 2, P2L, P2H);
  add(lanes, 6, -P1L | 0, ~P1H); // minus P1
  for (; place + 32 <= size; place += 32) {
    for (let k = 0; k < 8; k += 2) {
      round(lanes, k, half(bytes, place + 4 * k), half(bytes, place + 4 * k + 4));
    }
  }
  state[0] = state[1] = 0;
  for (let lane = 0; lane < 4; lane++) {
    word[0] = lanes[2 * lane];
    word[1] = lanes[2 * lane + 1];
    rotate(word, 0, TURNS[lane]);
    add(state, 0, word[0], word[1]);
  }
  for (let k = 0; k < 8; k += 2) {
    word[0] = word[1] = 0;
    round(word, 0, lanes[k], lanes[k + 1]);
    state[0] ^= word[0];
    state[1] ^= word[1];
    multiply(state, 0, P1L, P1H);
    add(state, 0, P4L, P4H);
  }
  return place;
}

/** state = rotated(state ^ word, by) * factor + addend */
function mix(by, factorLow, factorHigh, low, high) {
  state[0] ^= word[0];
  state[1] ^= word[1];
  rotate(state, 0, by);
  multiply(state, 0, factorLow, factorHigh);
  add(state, 0, low, high);
}

/** Fold UTF-8; plain ASCII, as most keys are, without the encoder. */
function foldText(value) {
  const size = value.length;
  if (size > scratch.length) return foldBytes(encoder.encode(value));
  for (let k = 0; k < size; k++) {
    const unit = value.charCodeAt(k);
    if (unit > 127) return foldBytes(encoder.encode(value));
    scratch[k] = unit;
  }
  return foldBytes(scratch, size);
}

function foldNumber(value) {
  if (value === Math.floor(value) && value >= -(2 ** 63) && value < 2 ** 63) {
    foldLong(value | 0, Math.floor(value / HALF) | 0);
  } else if (value === value) {
    double[0] = value;
    foldLong(doubleHalves[0], doubleHalves[1]);
  }
}

function foldBigInt(value) {
  long[0] = value;
  foldLong(longHalves[0], longHalves[1]);
}

/** Fold any value in its canonical form; null, and what counts as null, changes nothing. */
function fold(value) {
  if (typeof value === "number") foldNumber(value);
  else if (typeof value === "string") foldText(value);
  else if (value === null || value === undefined) return;
  else if (typeof value === "boolean") foldLong(value ? 1 : 0, 0);
  // Unsigned 64-bit numbers keep their bits, longer ones become digits.
  else if (typeof value === "bigint" && value >= -LONGS && value < 2n * LONGS) foldBigInt(value);
  else if (value instanceof Date) {
    if (!Number.isNaN(value.getTime())) foldBigInt(BigInt(value.getTime()) * 1000n);
  } else if (value instanceof ArrayBuffer) foldBytes(new Uint8Array(value));
  else if (ArrayBuffer.isView(value)) {
    foldBytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  } else foldBytes(encoder.encode(String(value)));
}

function seed(salt) {
  state[0] = SEED;
  state[1] = 0;
  if (salt === undefined || salt === null) return;
  if (BigInt.asIntN(64, BigInt(salt)) !== BigInt(salt)) {
    throw new RangeError(`salt must be a long, -2**63 <= salt < 2**63, got ${salt}`);
  }
  foldBigInt(BigInt(salt));
}

/**
 * Return the hash of one item's key as a BigInt in [0, 2**64).
 *
 * @param {Array} values the key's values, in its order
 * @param {{salt?: number | bigint}} [options] a long that is hashed before the values
 */
export function keyHash(values, { salt } = {}) {
  seed(salt);
  for (const value of values) fold(value);
  return (BigInt(state[1] >>> 0) << 32n) | BigInt(state[0] >>> 0);
}

/** Return the draw of a hash, a number in [0, 2**32): an item is dropped iff it is below the step. */
export function draw(hash) {
  return Number(hash >> 32n);
}

/**
 * Return the draw of every row of key columns: `draw(keyHash(row))`, many times as fast.
 *
 * @param {ArrayLike<unknown>[]} columns one or more of equal length; typed arrays are fastest
 * @param {{salt?: number | bigint}} [options]
 * @returns {Uint32Array}
 */
export function draws(columns, { salt } = {}) {
  if (!columns.length) throw new RangeError("a key must have at least one column, got none");
  const rows = columns[0].length;
  if (columns.some((column) => column.length !== rows)) {
    throw new RangeError("key columns must have one length; pad or cut them");
  }
  const drawn = new Uint32Array(rows);
  seed(salt);
  const [low, high] = state;
  if (columns.length === 1 && columns[0] instanceof BigInt64Array) {
    const halves = new Int32Array(columns[0].buffer, columns[0].byteOffset, 2 * rows);
    for (let i = 0; i < rows; i++) {
      state[0] = low;
      state[1] = high;
      foldLong(halves[2 * i], halves[2 * i + 1]);
      drawn[i] = state[1];
    }
  } else if (columns.length === 1 && ArrayBuffer.isView(columns[0]) && !isBig(columns[0])) {
    const [numbers] = columns;
    for (let i = 0; i < rows; i++) {
      state[0] = low;
      state[1] = high;
      foldNumber(numbers[i]);
      drawn[i] = state[1];
    }
  } else {
    for (let i = 0; i < rows; i++) {
      state[0] = low;
      state[1] = high;
      for (const column of columns) fold(column[i]);
      drawn[i] = state[1];
    }
  }
  return drawn;
}

const isBig = (column) => column instanceof BigInt64Array || column instanceof BigUint64Array;

/** Return the step of a drop fraction: ceil(fraction * 2**32). */
export function dropStep(fraction) {
  return Math.ceil(fraction * HALF);
}
