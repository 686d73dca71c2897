/**
 * Sifter plans: a tree of cuts, and for every load the fraction to drop in each region.
 *
 * Sums and products are in the order in which Python computes them, so that thresholds are equal
 * bit by bit (docs/artifacts.md).
 */

import { inflated } from "./inflate.mjs";
import { columnsOf, compared, fraction, numberOf, pairwiseSum } from "./numbers.mjs";
import { Reader, finite, guarantee, is, must } from "./reading.mjs";

const LEAF = -1;
const GROUP = -1;
const ONE = 2 ** 32;
const TINY = 1e-6;
const NOWHERE = 2; // a guarantee that holds at no load holds from here
const WIDE_CUTS = 1, MIN_KEEP = 2, TOLERANCE = 4, TRACED = 8; // flags of the compact form
const MOST_THRESHOLDS = 1 << 24;
const axisFields = { name: is.text, kind: is.text, low: is.number, high: is.number };
const rows = is.list(is.list(is.number));
const tracedFields = {
  guarantees: is.list(guarantee), error: is.number, loads: is.list(is.number),
  quality: is.list(is.number), kept: rows,
  drop_thresholds: is.optional(is.list(is.number)),
};
const isDocument = is.object({
  format: is.integer,
  axes: is.list(is.object({ ...axisFields, values: is.optional(is.list(is.text)) })),
  partition: is.object({
    dimension: is.list(is.integer), cut: is.list(is.number),
    orders: is.optional(is.list(is.list(is.integer))),
  }),
  frequency: is.list(is.number),
  region_qos: is.list(is.number),
  queried: is.list(is.flag),
  base_qos: is.number,
  fairness_threshold: is.number,
  throttle_fraction: is.number,
  pinned_fraction: is.optional(is.number),
  pins: is.optional(is.object({ low: is.optional(rows), high: is.optional(rows) })),
  min_keep: is.optional(is.number),
  budget_tolerance: is.optional(is.number),
  traced: is.optional((value) => value === null || is.object(tracedFields)(value)),
});

export class SifterPlan {
  family = "sifter";

  constructor(fields) {
    Object.assign(this, fields);
    this.regions = this.frequency.length;
    this.codes = this.axes.map((axis) => new Map((axis.values ?? []).map((name, code) => [name, code])));
    this.path = pathOf(this);
  }

  /** Return the plan of a JSON document; throw `Damaged` if its parts do not fit together. */
  static fromDocument(document) {
    must(isDocument(document) && document.format === 1, "be a sifter document of format 1");
    const { axes, partition, traced = null, pins = {} } = document;
    const tree = treeOf(partition.dimension, partition.cut, partition.orders ?? [], axes.length);
    const { low = [], high = [] } = pins;
    const corners = { low: Float64Array.from(low.flat()), high: Float64Array.from(high.flat()) };
    const fits = (list) => list.length === tree.regions;
    must(fits(document.frequency) && fits(document.region_qos) && fits(document.queried),
      "have one number of each kind per region");
    must(corners.low.length === low.length * axes.length, "have corners of pins per axis");
    must(corners.high.length === corners.low.length, "have two corners per pin");
    return checked({
      axes, tree,
      pins: corners,
      frequency: Float64Array.from(document.frequency),
      regionQos: Float64Array.from(document.region_qos),
      queried: Uint8Array.from(document.queried),
      baseQos: document.base_qos,
      fairnessThreshold: document.fairness_threshold,
      throttleFraction: document.throttle_fraction,
      pinnedFraction: document.pinned_fraction ?? 0,
      minKeep: document.min_keep ?? 0,
      budgetTolerance: document.budget_tolerance ?? 0.01,
      traced: traced && tracedOf(traced, tree.regions),
    });
  }

  /** Return the plan of the compact bytes. */
  static fromBytes(bytes) {
    const reader = new Reader(bytes);
    reader.magic("HSP1");
    const dimensions = reader.u8(), flags = reader.u8();
    const axesLength = reader.u16(), regions = reader.u32();
    must(dimensions > 0 && regions > 0, "have axes and regions");
    const numbers = [reader.f64(), reader.f64(), reader.f64(), reader.f64()];
    const [baseQos, fairnessThreshold, throttleFraction, pinnedFraction] = numbers;
    const boxes = reader.u16();
    const packed = reader.message(axesLength);
    must(isAxes(packed) && packed.length === dimensions, `have ${dimensions} axes`);
    const axes = packed.map(([name, kind, low, high, values]) => ({ name, kind, low, high, values }));
    const orders = packed.some((axis) => axis[5].length) ? packed.map((axis) => axis[5]) : [];
    const fields = {
      axes, baseQos, fairnessThreshold, throttleFraction, pinnedFraction,
      tree: readTree(reader, regions, dimensions, flags, orders),
      frequency: reader.floats(4, regions),
      regionQos: reader.floats(4, regions),
      queried: reader.bits(regions),
      pins: { low: reader.floats(8, boxes * dimensions), high: reader.floats(8, boxes * dimensions) },
      minKeep: flags & MIN_KEEP ? reader.f64() : 0,
      budgetTolerance: flags & TOLERANCE ? reader.f64() : 0.01,
      traced: null,
    };
    if (flags & TRACED) {
      const head = reader.message(reader.u32());
      must(is.object(tracedFields)(head), "say what was traced");
      const size = head.loads.length * regions;
      must(size <= MOST_THRESHOLDS, `have at most ${MOST_THRESHOLDS} traced thresholds`);
      const stored = new Reader(inflated(reader.rest(), 4 * size));
      fields.traced = tracedOf({ ...head, drop_thresholds: [...stored.floats(4, size)] }, regions);
    }
    reader.finish();
    return checked(fields);
  }

  /** Return thresholds and steps of every region at a throttle fraction; last: of no region. */
  at(load) {
    const z = fraction("load", load);
    const thresholds = this.traced ? mixed(this.traced, z) : thresholdsOf(this, z);
    const steps = new Float64Array(this.regions + 1);
    for (let i = 0; i < this.regions; i++) steps[i] = Math.ceil(thresholds[i] * ONE);
    steps[this.regions] = Math.ceil((1 - z) * ONE);
    return { load: z, thresholds, steps };
  }

  /** Return a value of an axis as its coordinate; NaN where it has none. */
  coordinate(axis, value) {
    if (this.axes[axis].kind === "category" && typeof value === "string") {
      return this.codes[axis].get(value) ?? NaN;
    }
    return numberOf(value);
  }

  /** Return one coordinate array per axis of columns by name, or of one item's values. */
  points(columns) {
    return columnsOf(columns, this.axes.map((axis) => axis.name), (k, v) => this.coordinate(k, v));
  }

  /** Return the region of every item; `regions` for those in none. */
  places(columns) {
    return placed(this, this.points(columns));
  }

  /** Return 1 for every item that is kept: the keyed rule. */
  decide(columns, draws, setting) {
    const points = this.points(columns);
    const keep = placed(this, points);
    const { steps } = setting;
    if (draws.length !== keep.length) {
      throw new RangeError(`draws must be ${keep.length}, one per item, got ${draws.length}`);
    }
    const kept = new Uint8Array(keep.length);
    for (let j = 0; j < kept.length; j++) kept[j] = draws[j] >= steps[keep[j]] ? 1 : 0;
    markPinned(this, points, kept);
    return kept;
  }

  /** Return whether one item, its values by name, is kept. */
  decideOne(item, draw, setting) {
    const columns = Object.fromEntries(this.axes.map(({ name }) => [name, [item[name]]]));
    return this.decide(columns, [draw], setting)[0] === 1;
  }
}

const isAxes = is.list((axis) =>
  Array.isArray(axis) && axis.length === 6 && is.text(axis[0]) && is.text(axis[1]) &&
  is.number(axis[2]) && is.number(axis[3]) && is.list(is.text)(axis[4]) && is.list(is.integer)(axis[5]));

/** Return a cut tree in preorder with the right child, and the region, of every node. */
function treeOf(dimension, cuts, orders, axes) {
  const nodes = dimension.length;
  const right = new Int32Array(nodes), leaf = new Int32Array(nodes), cut = new Float64Array(nodes);
  const waiting = [];
  let open = 1, regions = 0, inner = 0;
  dimension.forEach((axis, node) => {
    must(axis >= LEAF && axis < axes && open > 0, "hold the preorder of a whole cut tree");
    open += axis === LEAF ? -1 : 1;
    if (axis !== LEAF) {
      waiting.push(node);
      cut[node] = cuts[inner++];
      return;
    }
    leaf[node] = regions++;
    if (waiting.length) right[waiting.pop()] = node + 1;
  });
  must(open === 0 && nodes > 0, "hold the preorder of a whole cut tree");
  must(inner === cuts.length && finite(cuts), `hold ${inner} finite cuts`);
  must(orders.length === 0 || orders.length === axes, "have one order per axis");
  return { dimension: Int32Array.from(dimension), cut, right, leaf, orders, regions };
}

function readTree(reader, regions, dimensions, flags, orders) {
  const inner = reader.bits(2 * regions - 1);
  const width = 32 - Math.clz32(dimensions - 1);
  const named = reader.bits((regions - 1) * width);
  must(inner.reduce((sum, bit) => sum + bit, 0) === regions - 1, `have ${regions} regions`);
  let place = 0;
  const axis = () => {
    let number = 0;
    for (let k = 0; k < width; k++) number = 2 * number + named[place++];
    return number;
  };
  const dimension = Array.from(inner, (bit) => (bit ? axis() : LEAF));
  const cuts = reader.floats(flags & WIDE_CUTS ? 8 : 4, regions - 1);
  return treeOf(dimension, cuts, orders, dimensions);
}

function tracedOf(read, regions) {
  const { loads, quality, kept, guarantees, error, drop_thresholds: thresholds = [] } = read;
  const count = loads.length;
  const even = new Set(kept.map((row) => row.length)).size < 2;
  must(count > 1 && thresholds.length === count * regions && quality.length === count, "fit its loads");
  must(even && kept.flat().length === count * guarantees.length, "say what its guarantees keep");
  must([loads, thresholds, quality, kept.flat()].every(finite), "be finite");
  must(loads.every((z, k) => k === 0 || z > loads[k - 1]), "have rising loads");
  must(loads[0] === 0 && loads.at(-1) === 1, "have loads from 0 to 1");
  must(thresholds.every((d) => d >= 0 && d <= 1), "drop shares");
  must(thresholds.slice(-regions).every((d) => d === 0), "drop nothing at load 1");
  must(kept.flat().every((share) => Math.abs(share - 0.5) <= 0.5 + TINY), "keep shares");
  must(error >= 0 && error < Infinity, "have an error of 0 or more");
  const sound = ({ value, holds_from: from }) => value >= 0 && value <= 1 && from >= 0 && from <= NOWHERE;
  must(guarantees.every(sound), "guarantee shares");
  return { loads, thresholds: Float64Array.from(thresholds), quality, kept, guarantees, error };
}

function checked(fields) {
  const { frequency, minKeep, budgetTolerance } = fields;
  must(Number.isFinite(pairwiseSum(frequency)), "have finite frequencies");
  must(frequency.every((f) => f >= 0), "have frequencies of at least 0");
  must([minKeep, budgetTolerance].every((share) => share >= 0 && share <= 1), "have shares in [0, 1]");
  return new SifterPlan(fields);
}

/** Sort the queried regions by A/f, and the group item among them. */
function pathOf({ frequency, regionQos, queried, minKeep }) {
  const members = [], others = [];
  queried.forEach((flag, i) => (flag ? members : others).push(i));
  const held = pairwiseSum(members.map((i) => frequency[i]));
  const worth = pairwiseSum(members.map((i) => regionQos[i]));
  const ratio = members.map((i) => (frequency[i] > 0 ? regionQos[i] / frequency[i] : Infinity));
  ratio.push(held > 0 ? worth / held : Infinity);
  members.push(GROUP);
  const places = members.map((_, k) => k).sort((a, b) => compared(ratio[a], ratio[b]) || a - b);
  return {
    order: places.map((k) => members[k]),
    held,
    free: pairwiseSum(others.map((i) => frequency[i])),
    ceiling: 1 - minKeep,
  };
}

/** Return the optimal thresholds at a load: fill the items of the order with what must be shed. */
function thresholdsOf({ path, frequency, queried, fairnessThreshold }, z) {
  const { order, held, free, ceiling } = path;
  const thresholds = new Float64Array(frequency.length);
  let need = 1 - z;
  let delta = fairnessThreshold;
  if (need <= 0) return thresholds;
  if (z <= 0) return thresholds.fill(1);
  if (ceiling < 1) {
    const total = free + held;
    if (need >= ceiling * total) {
      return thresholds.fill(total > 0 ? Math.max(ceiling, Math.min(1, need / total)) : 1);
    }
    need /= ceiling;
    delta = ceiling > 0 ? Math.min(1, delta / ceiling) : 1;
  }
  const fromFree = free > 0 ? Math.min(1, need / free) : 1;
  const weight = (i) => (i === GROUP ? (1 - delta) * held : delta * frequency[i]);
  const whole = Math.max(0, need - free);
  let before = 0, floor = 0;
  const filled = order.map((i) => {
    const w = weight(i);
    const y = w > 0 ? Math.min(1, Math.max(0, (whole - before) / w)) : 0;
    before += w;
    if (i === GROUP) floor = (1 - delta) * y;
    return y;
  });
  order.forEach((i, k) => {
    if (i !== GROUP) thresholds[i] = Math.min(1, floor + delta * filled[k]);
  });
  for (let i = 0; i < thresholds.length; i++) {
    thresholds[i] = ceiling * (queried[i] ? thresholds[i] : fromFree);
  }
  return thresholds;
}

/** Return the mixture of the thresholds at the two loads around one. */
function mixed({ loads, thresholds }, z) {
  const regions = thresholds.length / loads.length;
  let right = 1;
  while (right < loads.length - 1 && loads[right] < z) right++;
  const part = (z - loads[right - 1]) / (loads[right] - loads[right - 1]);
  return Float64Array.from({ length: regions }, (_, i) => {
    const below = thresholds[(right - 1) * regions + i], above = thresholds[right * regions + i];
    const value = below + part * (above - below);
    return Math.min(Math.max(value, Math.min(below, above)), Math.max(below, above));
  });
}

function placed({ tree, axes, regions }, points) {
  const { dimension, cut, right, leaf, orders } = tree;
  const arranged = orders.length ? points.map((column, k) => arrangedBy(orders[k], column)) : points;
  const rows = axes.length ? points[0].length : 0;
  const place = new Int32Array(rows);
  for (let j = 0; j < rows; j++) {
    let node = 0;
    for (let axis; (axis = dimension[node]) >= 0; ) {
      node = arranged[axis][j] < cut[node] ? node + 1 : right[node];
    }
    place[j] = leaf[node];
  }
  for (const column of arranged) {
    for (let j = 0; j < rows; j++) if (column[j] !== column[j]) place[j] = regions;
  }
  return place;
}

/** Return category codes as their positions; a code of no category becomes NaN. */
function arrangedBy(order, column) {
  if (!order.length) return column;
  return Float64Array.from(column, (code) => (code >= 0 && code < order.length ? order[Math.trunc(code)] : NaN));
}

/** Keep the items that lie in a pinned box, whatever their draw. */
function markPinned({ pins, axes }, points, kept) {
  for (let corner = 0; corner < pins.low.length; corner += axes.length) {
    for (let j = 0; j < kept.length; j++) {
      let inside = true;
      for (let k = 0; k < axes.length && inside; k++) {
        inside = pins.low[corner + k] <= points[k][j] && points[k][j] < pins.high[corner + k];
      }
      if (inside) kept[j] = 1;
    }
  }
}
