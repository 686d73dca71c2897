/** LIRA plans: rectangles of a grid with levels, and for every load a throttler per level. */

import { inflated } from "./inflate.mjs";
import { Throttlers } from "./lira_path.mjs";
import { fraction, numberOf } from "./numbers.mjs";
import { Reader, finite, guarantee, is, must } from "./reading.mjs";

const LEAF = 0, ACROSS = 1, UPRIGHT = 2;
const SYMBOLS = "LXY";
const NOWHERE = 2;
const MOST_SIDE = 8192, MOST_SEGMENTS = 4096;
const HIGHEST_SPEED = 100; // metres per second; a faster move is a jump
const numbers = is.list(is.number);
const isGuaranteed = is.object({
  guarantees: is.list(guarantee), looks: is.list(is.list(is.integer)), loads: numbers,
  places: is.list(numbers), error: is.number,
});
const isDocument = is.object({
  format: is.integer, bounds: numbers, side: is.integer, lowest_threshold: is.number,
  highest_threshold: is.number, segments: is.integer, tree: is.text, level: is.list(is.integer),
  ratio: numbers, weight: numbers, inside: numbers, reduction: numbers, errors: numbers,
  departure: is.number, fairness_threshold: is.number, throttle_fraction: is.number,
  reports_per_position: is.number,
  guaranteed: is.optional((value) => value === null || isGuaranteed(value)),
});

export class LiraPlan {
  family = "lira";

  constructor(fields) {
    Object.assign(this, fields);
    const { bounds, side, low, high, segments } = this.frame;
    const thresholds = Array.from({ length: segments + 1 }, (_, k) => low + ((high - low) * k) / segments);
    this.path = new Throttlers({ ...fields, thresholds });
    this.perX = 1 / ((bounds[2] - bounds[0]) / side);
    this.perY = 1 / ((bounds[3] - bounds[1]) / side);
    this.raster = new Uint8Array(side * side);
    this.rectangles.forEach(([x, y, w, h], region) => {
      for (let row = y; row < y + h; row++) this.raster.fill(this.level[region], row * side + x, row * side + x + w);
    });
  }

  /** Return the plan of a JSON document; throw `Damaged` if its parts do not fit together. */
  static fromDocument(document) {
    must(isDocument(document) && document.format === 1, "be a lira document of format 1");
    const { bounds, side, lowest_threshold: low, highest_threshold: high, segments, tree } = document;
    must(/^[LXY]*$/.test(tree), `have a tree of ${SYMBOLS}`);
    const frame = frameOf({ bounds, side, low, high, segments });
    const { guaranteed = null } = document;
    return checked({
      ...document, frame, fairness: document.fairness_threshold,
      rectangles: rectanglesOf(side, Array.from(tree, (symbol) => SYMBOLS.indexOf(symbol))),
      guaranteed: guaranteed && guaranteedOf(guaranteed, document.ratio.length),
    });
  }

  /** Return the plan of the compact bytes. */
  static fromBytes(bytes) {
    const reader = new Reader(bytes);
    const promised = bytes[3] === 0x32;
    reader.magic(promised ? "HLP2" : "HLP1");
    const levels = reader.u16(), nodes = reader.u32();
    const [departure, fairness, throttle, reports] = [reader.f64(), reader.f64(), reader.f64(), reader.f64()];
    const wide = reader.u8() === 1, side = reader.u16(), segments = reader.u16();
    const [a, b, c, d, low, high] = reader.floats(wide ? 8 : 4, 6);
    const frame = frameOf({ bounds: [a, b, c, d], side, low, high, segments });
    const list = (count) => [...reader.floats(4, count)];
    const fields = {
      frame, departure, fairness, throttle_fraction: throttle, reports_per_position: reports,
      ratio: list(levels), weight: list(levels), inside: list(levels),
      reduction: list(segments + 1), errors: list(segments + 1),
      guaranteed: promised ? readGuaranteed(reader, levels) : null,
    };
    const { symbols, values } = readTree(reader.rest(), side);
    must(symbols.length === nodes, `hold ${nodes} rectangles`);
    return checked({ ...fields, level: values, rectangles: rectanglesOf(side, symbols) });
  }

  /** Return the throttlers in metres at a throttle fraction: of levels, in single precision. */
  at(load) {
    const z = fraction("load", load);
    return { load: z, byLevel: Float64Array.from(this.path.at(z), Math.fround) };
  }

  /** Return the level at a position; outside the space, that of the nearest cell. */
  levelAt(x, y) {
    const { bounds, side } = this.frame;
    const column = (x - bounds[0]) * this.perX, row = (y - bounds[1]) * this.perY;
    const place = (at) => (at > 0 ? Math.trunc(Math.min(at, side - 1)) : 0); // NaN too
    return this.raster[place(row) * side + place(column)];
  }

  /** Return the throttler at a position. */
  throttlerAt(x, y, setting) {
    return setting.byLevel[this.levelAt(x, y)];
  }
}

/** The keyed shedder: every object reports when it is off its prediction by its throttler. */
export class LiraShedder {
  constructor(plan, load = 1, { highestSpeed = HIGHEST_SPEED } = {}) {
    this.plan = plan;
    this.highestSpeed = highestSpeed;
    this.objects = new Map(); // id -> last position and last report
    this.setLoad(load);
  }

  setLoad(load) {
    this.setting = this.plan.at(load);
  }

  /** Return 1 for every position that is reported; columns object_id, time, x and y. */
  decide({ object_id: ids, time, x, y }) {
    return Uint8Array.from(ids, (id, i) =>
      this.decideOne(id, numberOf(time[i]), numberOf(x[i]), numberOf(y[i])) ? 1 : 0);
  }

  /** Return whether a position is reported; ids are compared as text. */
  decideOne(id, t, x, y) {
    if (id === null || id === undefined || id !== id || !finite([t, x, y])) return false;
    const object = this.objects.get(String(id));
    if (!object) {
      this.objects.set(String(id), { x, y, t, report: { x, y, vx: 0, vy: 0, t } });
      return true;
    }
    if (!(t > object.t)) return false;
    let vx = (x - object.x) / (t - object.t), vy = (y - object.y) / (t - object.t);
    if (vx * vx + vy * vy > this.highestSpeed * this.highestSpeed) vx = vy = 0;
    Object.assign(object, { x, y, t });
    const { report } = object;
    const age = t - report.t;
    const px = report.x + report.vx * age, py = report.y + report.vy * age;
    const off = (x - px) * (x - px) + (y - py) * (y - py);
    const { plan, setting } = this;
    const least = Math.min(plan.throttlerAt(x, y, setting), plan.throttlerAt(px, py, setting));
    if (!(off > least * least)) return false;
    Object.assign(report, { x, y, vx, vy, t });
    return true;
  }

  /** Forget the objects that were last heard of before a time. */
  forget(before) {
    for (const [id, { t }] of this.objects) if (t < before) this.objects.delete(id);
  }
}

function frameOf(frame) {
  const { bounds, side, low, high, segments } = frame;
  must(bounds.length === 4 && finite(bounds), "have four bounds");
  must(bounds[0] < bounds[2] && bounds[1] < bounds[3], "span a space");
  must(low >= 0 && low < high && high < Infinity, "have rising thresholds");
  must(segments >= 1 && segments <= MOST_SEGMENTS, `have 1 to ${MOST_SEGMENTS} segments`);
  must(side >= 1 && side <= MOST_SIDE, `have 1 to ${MOST_SIDE} cells a side`);
  return frame;
}

const padded = (side) => 2 ** Math.ceil(Math.log2(side));

/** Return both halves of a rectangle, the lower one first. */
function halves({ x, y, w, h, depth }, symbol) {
  const way = { depth: depth + 1, way: symbol };
  if (symbol === ACROSS) return [{ x, y, w: w / 2, h, ...way }, { x: x + w / 2, y, w: w / 2, h, ...way }];
  return [{ x, y, w, h: h / 2, ...way }, { x, y: y + h / 2, w, h: h / 2, ...way }];
}

/** Return [x, y, width, height] of the regions in cells: the leaves that lie in the grid. */
function rectanglesOf(side, symbols) {
  const size = padded(side);
  const stack = [{ x: 0, y: 0, w: size, h: size, depth: 0, way: 0 }];
  const found = [];
  for (const symbol of symbols) {
    must(stack.length > 0, "hold one tree of halvings");
    const here = stack.pop();
    const { x, y, w, h } = here;
    if (symbol === LEAF) {
      if (x < side && y < side) found.push([x, y, Math.min(w, side - x), Math.min(h, side - y)]);
      continue;
    }
    must(symbol === ACROSS ? w > 1 : h > 1, "halve no cell");
    stack.push(...halves(here, symbol).reverse());
  }
  must(stack.length === 0, "hold one tree of halvings");
  return found;
}

function guaranteedOf({ guarantees, looks, loads, places, error }, levels) {
  must(loads.length >= 2 && places.length === loads.length, "have places at two or more loads");
  must(places.every((row) => row.length === levels), "have a place per level");
  must(looks.length === guarantees.length, "say what its guarantees are about");
  must(looks.flat().every((level) => level >= 0 && level < levels), "guarantee its own levels");
  must(loads.every((z, k) => (k ? z > loads[k - 1] : z >= 0)) && loads.at(-1) <= 1, "have rising loads");
  const falls = (row, k) => row.every((a, i) => a >= 0 && Number.isFinite(a) && (!k || a <= places[k - 1][i]));
  must(places.every(falls), "have places that do not rise with the load");
  must(guarantees.every(({ value, holds_from: from }) =>
    value > 0 && value < Infinity && from >= 0 && from <= NOWHERE), "guarantee positive numbers");
  must(error >= 0 && error < Infinity, "have an error of 0 or more");
  return { guarantees, looks, loads, places, error };
}

function readGuaranteed(reader, levels) {
  const count = reader.u16(), kept = reader.u32(), size = reader.u32(), error = reader.f64();
  const guarantees = reader.message(kept);
  must(is.list(guarantee)(guarantees), "list its guarantees");
  const loads = [...reader.floats(8, count)];
  const cells = guarantees.length * levels;
  const tables = new Reader(inflated(reader.take(size), 8 * count * levels + Math.ceil(cells / 8)));
  const places = loads.map(() => [...tables.floats(8, levels)]);
  const flags = tables.bits(cells);
  const looks = guarantees.map((_, g) => [...flags.subarray(g * levels, (g + 1) * levels)]
    .flatMap((flag, level) => (flag ? [level] : [])));
  return guaranteedOf({ guarantees, looks, loads, places, error }, levels);
}

function checked(fields) {
  const { frame, rectangles, level, ratio, weight, inside, reduction, errors } = fields;
  must(weight.length === ratio.length && inside.length === ratio.length, "have one number per level");
  must([reduction, errors].every((curve) => curve.length === frame.segments + 1), "have whole curves");
  must(fields.reports_per_position >= 0 && fields.reports_per_position <= 1, "have reports per position");
  must(level.length === rectangles.length, "have one level per region");
  must(level.every((one) => one >= 0 && one < 256 && one < ratio.length), "have known levels");
  return new LiraPlan(fields);
}

const DEPTHS = 16, SPLIT = 3 * DEPTHS, SAME = 2, BITS = 8;
const VALUES = DEPTHS + SPLIT + 9 + SAME; // the first context of a level's bits
const TOP = 2 ** 24;
const SLACK = 8; // zero bytes that may be read past the end

/** Decisions of an adaptive binary range coder. */
class Decisions {
  constructor(data) {
    this.data = data;
    this.place = 4;
    this.span = 2 ** 32 - 1;
    this.code = 0;
    for (let k = 0; k < 4; k++) this.code = this.code * 256 + (data[k] ?? 0);
    this.counts = Array.from({ length: VALUES + (1 << BITS) }, () => [0, 0]);
  }

  next(context) {
    const counts = this.counts[context];
    const share = Math.max(Math.floor(((2 * counts[0] + 1) * 65536) / (2 * (counts[0] + counts[1]) + 2)), 1);
    const bound = (this.span >>> 16) * share;
    const bit = this.code < bound ? 0 : 1;
    if (bit) {
      this.code -= bound;
      this.span -= bound;
    } else this.span = bound;
    counts[bit] += 1;
    if (counts[0] + counts[1] > 255) counts.forEach((count, k) => (counts[k] = (count + 1) >> 1));
    while (this.span < TOP) {
      this.span = (this.span << 8) >>> 0;
      this.code = ((this.code << 8) | (this.data[this.place] ?? 0)) >>> 0;
      this.place += 1;
    }
    return bit;
  }

  check() {
    must(this.place <= this.data.length + SLACK, "hold one tree of halvings");
  }
}

/** Read the tree of a grid: symbols in preorder, and the level of every region. */
function readTree(data, side) {
  const size = padded(side);
  const decisions = new Decisions(data);
  const stack = [{ x: 0, y: 0, w: size, h: size, depth: 0, way: 0 }];
  const symbols = [], values = [];
  let previous = -1;
  while (stack.length) {
    decisions.check();
    must(symbols.length < 2 * size * size, "hold one tree of halvings");
    const here = stack.pop();
    const { x, y, w, h, depth, way } = here;
    const shape = w === h ? 0 : w > h ? 1 : 2;
    let symbol = LEAF;
    if (w > 1 || h > 1) symbol = decisions.next(DEPTHS + 3 * Math.min(depth, DEPTHS - 1) + shape);
    if (symbol !== LEAF) {
      if (w > 1 && h > 1) symbol = ACROSS + decisions.next(DEPTHS + SPLIT + 3 * way + shape);
      else symbol = w > 1 ? ACROSS : UPRIGHT;
      stack.push(...halves(here, symbol).reverse());
    }
    symbols.push(symbol);
    if (symbol !== LEAF || x >= side || y >= side) continue;
    if (!decisions.next(VALUES - SAME + (previous >= 0 ? 1 : 0))) {
      let prefix = 1;
      for (let k = 0; k < BITS; k++) prefix = 2 * prefix + decisions.next(VALUES + prefix);
      previous = prefix - (1 << BITS);
    }
    values.push(Math.max(previous, 0));
  }
  decisions.check();
  return { symbols, values };
}
