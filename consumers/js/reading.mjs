/**
 * Bounded reading of plans: bytes, MessagePack, zlib and JSON documents.
 *
 * Sizes are checked against the bytes that are left before memory is taken. Whatever is wrong with
 * a plan becomes one error, `Damaged`.
 */

export class Damaged extends Error {
  name = "Damaged";
}

/** Throw unless `fits`. */
export function must(fits, what) {
  if (!fits) throw new Damaged(`a plan must ${what}; fetch it again`);
}

/** Reads bytes from front to back, little-endian, and never past their end. */
export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.place = 0;
  }

  get left() {
    return this.bytes.length - this.place;
  }

  /** Skip `size` bytes and return where they begin. */
  skip(size) {
    must(size >= 0 && size <= this.left, "be whole");
    this.place += size;
    return this.place - size;
  }

  take(size) {
    const at = this.skip(size);
    return this.bytes.subarray(at, at + size);
  }

  rest() {
    return this.take(this.left);
  }

  magic(text) {
    must(latin(this.take(Math.min(text.length, this.left))) === text, `start with ${text}`);
  }

  u8() {
    return this.view.getUint8(this.skip(1));
  }

  u16() {
    return this.view.getUint16(this.skip(2), true);
  }

  u32() {
    return this.view.getUint32(this.skip(4), true);
  }

  f64() {
    return this.view.getFloat64(this.skip(8), true);
  }

  /** Return `count` numbers of `width` bytes as doubles. */
  floats(width, count) {
    const at = this.skip(width * count);
    const get = width === 4 ? "getFloat32" : "getFloat64";
    return Float64Array.from({ length: count }, (_, k) => this.view[get](at + width * k, true));
  }

  /** Return flags that are bits, the first one in the highest bit of the first byte. */
  bits(count) {
    const at = this.skip(Math.ceil(count / 8));
    const flag = (_, k) => (this.bytes[at + (k >> 3)] >> (7 - (k & 7))) & 1;
    return Uint8Array.from({ length: count }, flag);
  }

  /** Return the next `size` bytes of MessagePack as a value. */
  message(size = this.left) {
    return unpacked(this.take(size));
  }

  finish() {
    must(this.left === 0, `end after ${this.place} bytes`);
  }
}

const latin = (bytes) => String.fromCharCode(...bytes);

/** Return bytes as text; refuse what is not UTF-8. */
export function text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Damaged("text in a plan must be UTF-8; fetch it again");
  }
}

/** Return a JSON document. */
export function parsed(bytes) {
  try {
    return JSON.parse(text(bytes));
  } catch (error) {
    throw new Damaged(`a plan must be JSON, got: ${error.message}; fetch it again`);
  }
}

const DEEPEST = 64;

/** Return the one value in `bytes`: MessagePack without extensions. */
export function unpacked(bytes) {
  const reader = new Reader(bytes);
  const value = packedValue(reader, 0);
  reader.finish();
  return value;
}

function packedValue(reader, depth) {
  must(depth < DEEPEST, `nest at most ${DEEPEST} deep`);
  const { view } = reader;
  const head = reader.u8();
  const number = (size, get) => view[get](reader.skip(size));
  const size = (width) => number(width, `getUint${8 * width}`);
  if (head < 0x80) return head;
  if (head < 0x90) return packedMap(reader, head & 15, depth);
  if (head < 0xa0) return packedList(reader, head & 15, depth);
  if (head < 0xc0) return text(reader.take(head & 31));
  if (head >= 0xe0) return head - 256;
  switch (head) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xc4: case 0xc5: case 0xc6: return reader.take(size(1 << (head - 0xc4)));
    case 0xca: return number(4, "getFloat32");
    case 0xcb: return number(8, "getFloat64");
    case 0xcc: case 0xcd: case 0xce: return size(1 << (head - 0xcc));
    case 0xcf: return Number(number(8, "getBigUint64"));
    case 0xd0: return number(1, "getInt8");
    case 0xd1: return number(2, "getInt16");
    case 0xd2: return number(4, "getInt32");
    case 0xd3: return Number(number(8, "getBigInt64"));
    case 0xd9: case 0xda: case 0xdb: return text(reader.take(size(1 << (head - 0xd9))));
    case 0xdc: case 0xdd: return packedList(reader, size(head === 0xdc ? 2 : 4), depth);
    case 0xde: case 0xdf: return packedMap(reader, size(head === 0xde ? 2 : 4), depth);
    default: throw new Damaged("a plan must hold plain MessagePack; fetch it again");
  }
}

function packedList(reader, length, depth) {
  must(length <= reader.left, "be whole");
  const list = [];
  for (let k = 0; k < length; k++) list.push(packedValue(reader, depth + 1));
  return list;
}

function packedMap(reader, length, depth) {
  must(2 * length <= reader.left, "be whole");
  const map = Object.create(null);
  for (let k = 0; k < length; k++) {
    const name = packedValue(reader, depth + 1);
    must(typeof name === "string", "have names for keys");
    map[name] = packedValue(reader, depth + 1);
  }
  return map;
}

/** What values of a document may be: functions that tell whether one is. */
export const is = {
  text: (value) => typeof value === "string",
  flag: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isSafeInteger(value),
  list: (item) => (value) => Array.isArray(value) && value.every(item),
  map: (item) => (value) => plain(value) && Object.values(value).every(item),
  optional: (kind) => Object.assign((value) => value === undefined || kind(value), { absent: true }),
  /** Return what tells objects with exactly these fields; those that are optional may be absent. */
  object: (fields) => (value) =>
    plain(value) &&
    Object.keys(value).every((name) => Object.hasOwn(fields, name)) &&
    Object.entries(fields).every(([name, kind]) =>
      Object.hasOwn(value, name) ? kind(value[name]) : kind.absent === true),
};

const plain = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);

/** A guarantee, as plans of several families have them. */
export const guarantee = is.object({
  name: is.text, limit: is.text, value: is.number, priority: is.integer, holds_from: is.number,
});

/** Return whether all numbers are finite. */
export const finite = (numbers) => numbers.every(Number.isFinite);

const CRC = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let k = 0; k < 8; k++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** Return the CRC-32 of some bytes after others. */
export function crc32(bytes, before = 0) {
  let crc = ~before;
  for (let k = 0; k < bytes.length; k++) crc = (crc >>> 8) ^ CRC[(crc ^ bytes[k]) & 255];
  return ~crc >>> 0;
}
