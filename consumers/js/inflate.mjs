/**
 * Decompression of a zlib stream (RFC 1950, 1951) to exactly as many bytes as are expected.
 *
 * Written out because what browsers offer is asynchronous and neither bounds its result nor says
 * what follows the stream.
 */

import { must } from "./reading.mjs";

const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const LENGTHS = steps(29, 3, 4, 8); // the last length is 258, without more bits
const DISTANCES = steps(30, 1, 2, 4);

/** Return the base and the number of further bits of each length or distance code. */
function steps(codes, first, group, plain) {
  const made = [];
  let base = first;
  for (let code = 0; code < codes; code++) {
    const more = code < plain ? 0 : Math.floor((code - plain) / group) + 1;
    made.push([base, more]);
    base += 1 << more;
  }
  return made;
}
LENGTHS[28] = [258, 0];

class Bits {
  constructor(bytes) {
    this.bytes = bytes;
    this.place = 0;
    this.held = 0;
    this.count = 0;
  }

  take(count) {
    while (this.count < count) {
      must(this.place < this.bytes.length, "hold whole tables");
      this.held |= this.bytes[this.place++] << this.count;
      this.count += 8;
    }
    const value = this.held & ((1 << count) - 1);
    this.held >>>= count;
    this.count -= count;
    return value;
  }
}

/** A Huffman code: how many codes there are of each length, and the symbols in their order. */
function codeOf(lengths) {
  const counts = new Uint16Array(16);
  for (const length of lengths) counts[length]++;
  counts[0] = 0;
  const next = new Uint16Array(17);
  let left = 1;
  for (let size = 1; size < 16; size++) {
    left = 2 * left - counts[size];
    must(left >= 0, "hold sound tables");
    next[size + 1] = next[size] + counts[size];
  }
  const symbols = new Uint16Array(lengths.length);
  lengths.forEach((size, symbol) => {
    if (size) symbols[next[size]++] = symbol;
  });
  return { counts, symbols };
}

function symbolOf(bits, { counts, symbols }) {
  let code = 0, first = 0, index = 0;
  for (let size = 1; size < 16; size++) {
    code |= bits.take(1);
    const count = counts[size];
    if (code - count < first) return symbols[index + code - first];
    index += count;
    first = (first + count) << 1;
    code <<= 1;
  }
  must(false, "hold sound tables");
}

const fixedLengths = Array.from({ length: 288 }, (_, k) => (k < 144 ? 8 : k < 256 ? 9 : k < 280 ? 7 : 8));
const FIXED = [codeOf(fixedLengths), codeOf(Array(30).fill(5))];

function readCodes(bits) {
  const sizes = [bits.take(5) + 257, bits.take(5) + 1];
  const given = Array(19).fill(0);
  const count = bits.take(4) + 4;
  must(sizes[0] <= 286 && sizes[1] <= 30, "hold sound tables");
  for (let k = 0; k < count; k++) given[ORDER[k]] = bits.take(3);
  const code = codeOf(given);
  const lengths = [];
  const total = sizes[0] + sizes[1];
  while (lengths.length < total) {
    const symbol = symbolOf(bits, code);
    if (symbol < 16) lengths.push(symbol);
    else {
      must(symbol > 16 || lengths.length, "hold sound tables");
      const value = symbol === 16 ? lengths.at(-1) : 0;
      const times = symbol === 16 ? 3 + bits.take(2) : symbol === 17 ? 3 + bits.take(3) : 11 + bits.take(7);
      must(lengths.length + times <= total, "hold sound tables");
      for (let k = 0; k < times; k++) lengths.push(value);
    }
  }
  must(lengths[256] > 0, "hold sound tables");
  return [codeOf(lengths.slice(0, sizes[0])), codeOf(lengths.slice(sizes[0]))];
}

/** Return the `size` bytes that a zlib stream holds; refuse one that holds more, or less. */
export function inflated(bytes, size) {
  must(bytes.length >= 6 && (bytes[0] & 15) === 8 && bytes[0] >> 4 < 8, "hold a zlib stream");
  must(((bytes[0] << 8) | bytes[1]) % 31 === 0 && !(bytes[1] & 32), "hold a zlib stream");
  must(size <= 1100 * bytes.length, "hold whole tables"); // no stream expands further
  const out = new Uint8Array(size);
  const bits = new Bits(bytes);
  bits.place = 2;
  let used = 0, last = 0;
  while (!last) {
    last = bits.take(1);
    const kind = bits.take(2);
    must(kind < 3, "hold sound tables");
    if (kind === 0) {
      bits.take(bits.count & 7);
      const length = bits.take(16);
      must((length ^ 0xffff) === bits.take(16) && used + length <= size, "hold whole tables");
      for (let k = 0; k < length; k++) out[used++] = bits.take(8);
      continue;
    }
    const [literal, distance] = kind === 1 ? FIXED : readCodes(bits);
    for (let symbol; (symbol = symbolOf(bits, literal)) !== 256; ) {
      if (symbol < 256) {
        must(used < size, "hold tables of their size");
        out[used++] = symbol;
        continue;
      }
      must(symbol < 286, "hold sound tables");
      const [base, more] = LENGTHS[symbol - 257];
      const length = base + bits.take(more);
      const code = symbolOf(bits, distance);
      must(code < 30, "hold sound tables");
      const back = DISTANCES[code][0] + bits.take(DISTANCES[code][1]);
      must(back <= used && used + length <= size, "hold tables of their size");
      for (let k = 0; k < length; k++, used++) out[used] = out[used - back];
    }
  }
  bits.take(bits.count & 7);
  let a = 1, b = 0;
  for (const byte of out) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  const stored = [0, 0, 0, 0].reduce((sum) => sum * 256 + bits.take(8), 0);
  must(used === size && stored === b * 65536 + a, "hold tables of their size");
  must(bits.place === bytes.length && bits.count === 0, "end after its tables");
  return out;
}
