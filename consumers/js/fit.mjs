/**
 * FIT plans: for a vector of input rates, the fraction that every arc of a query network drops.
 *
 * Answers come from the plan's tables. Where these end (rates above a plan's `max_rate`, plans of
 * the method simplex) a linear program would have to be solved: `at` throws `Unanswered`.
 */

import { inflated } from "./inflate.mjs";
import { fragmentsOf, networkOf, programOf } from "./fit_network.mjs";
import { fraction } from "./numbers.mjs";
import { Reader, finite, is, must, parsed, unpacked } from "./reading.mjs";

const ONE = 2 ** 32;
const MOST_BYTES = 2 ** 26;
const NOWHERE = 2;
const INNER = -2;
const MATCH = 1e-9;
const ROUNDING = 1e-12, NOTHING = 1e-15, EXACTLY = 1e-13, INSIDE = 1e-10, SOUND = 1e-9;
const METHODS = ["regions", "simplex", "solver", "solver_w", "c_fit"];
const ARRAYS = {
  simplex: {},
  regions: { value: "float", rule: "float", facets: "float", starts: "int" },
  quadtree: { valued: "bool", plan: "int", child: "int", fractions: "float", bound: "float" },
  rows: { points: "float", first: "int", following: "int", orthant: "int", drops: "float", valued: "bool" },
};
const numbers = is.list(is.number);
const isArray = is.object({ type: is.text, shape: is.list(is.integer), values: numbers });
const isDocument = is.object({
  format: is.integer, network: is.map(() => true), method: is.text, error: is.number, reference: numbers,
  parts: is.list(is.object({
    kind: is.text, arrays: is.optional(is.map(isArray)), arcs: is.optional(is.list(is.text)),
  })),
  headroom: is.optional(is.number), qualities: is.optional(numbers), holds_from: is.optional(numbers),
});

/** Thrown where a plan's tables have no answer. */
export class Unanswered extends Error {
  name = "Unanswered";
}

export class FitPlan {
  family = "fit";

  constructor(fields) {
    Object.assign(this, fields);
    const { network } = this;
    this.arcs = network.arcs.map((arc) => arc.name);
    this.names = [...this.arcs, ...network.arcsFrom.keys()];
    this.codes = new Map(this.names.map((name, code) => [name, code]));
  }

  /** Return the plan of a JSON document; throw `Damaged` if its parts do not fit together. */
  static fromDocument(document) {
    must(isDocument(document) && document.format === 1, "be a fit document of format 1");
    must(METHODS.includes(document.method), `have a method of ${METHODS.join(", ")}`);
    const { reference, parts, headroom = 1, qualities = [], holds_from: holds = [] } = document;
    const network = networkOf(document.network);
    const fragments = fragmentsOf(network);
    must(fragments.length === parts.length && reference.length === network.inputs.length, "fit its network");
    must(headroom >= 1 && headroom < Infinity && qualities.every(isShare), "have head room and qualities");
    const minimums = network.outputs.filter(({ minimum = 0 }) => minimum > 0).length;
    must(holds.length === 0 || holds.length === minimums, "say from where its minimums hold");
    must(holds.every((z) => isShare(z) || z === NOWHERE), "say from where its minimums hold");
    const made = fragments.map((fragment, k) => partOf(network, fragment, parts[k]));
    return new FitPlan({ network, method: document.method, reference, headroom, parts: made });
  }

  /** Return the plan of the compact bytes. */
  static fromBytes(bytes) {
    if (bytes[0] === 0x7a) {
      const reader = new Reader(bytes.subarray(1));
      const size = reader.u32();
      must(size <= MOST_BYTES, `hold at most ${MOST_BYTES} bytes`);
      return FitPlan.fromDocument(parsed(inflated(reader.rest(), size)));
    }
    const read = unpacked(bytes);
    must(Array.isArray(read) && read.length >= 6 && read.length <= 9, "hold a plan's fields");
    const [format, network, method, error, reference, parts, headroom = 1, qualities = [], holds = []] = read;
    must(is.list((part) => Array.isArray(part) && part.length === 3 && is.map(isPacked)(part[1]))(parts), "hold its tables");
    const documents = parts.map(([kind, arrays, arcs]) => ({
      kind, arcs, arrays: Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, unpackedArray(array)])),
    }));
    return FitPlan.fromDocument({
      format, network, method, error, reference, parts: documents, headroom, qualities, holds_from: holds,
    });
  }

  /** Return a load as rates: a scalar in [0, 1], rates by input, or in the inputs' order. */
  rates(load) {
    if (typeof load === "number") {
      const z = Math.max(fraction("load", load), 1e-6);
      return this.reference.map((rate) => rate / z);
    }
    const rates = Array.isArray(load) ? load : this.network.inputIds.map((id) => load[id]);
    if (rates.length !== this.reference.length || !rates.every((rate) => Number.isFinite(rate) && rate >= 0)) {
      throw new RangeError(`rates must be ${this.reference.length} numbers of at least 0`);
    }
    return rates.map((rate) => rate * this.headroom);
  }

  /** Return the drop fraction of every arc, and the steps of arcs, streams, and what is neither. */
  at(load) {
    const rates = this.rates(load);
    const drops = this.arcs.map(() => 0);
    for (const { inputs, program, table, places, find } of this.parts) {
      const scaled = inputs.map((k, j) => rates[k] / program.maxRates[j]);
      const found = find(program, table, scaled);
      places.forEach((arc, k) => {
        if (arc >= 0) drops[arc] = found[k];
      });
    }
    if (!drops.every(isShare)) throw new Unanswered("drops must be fractions; make the plan anew");
    const least = [...this.network.arcsFrom.values()].map((arcs) =>
      arcs.length ? Math.min(...arcs.map((arc) => drops[arc])) : 0);
    const steps = Float64Array.from([...drops, ...least, 0], (drop) => Math.ceil(drop * ONE - 1e-6) + 0);
    return { load, drops, steps };
  }

  /** Return 1 for every item that is kept; labels name arcs or streams, unknown ones pass. */
  decide(labels, draws, setting) {
    return Uint8Array.from(labels, (label, i) =>
      draws[i] >= setting.steps[this.codes.get(label) ?? this.names.length] ? 1 : 0);
  }
}

const isShare = (x) => x >= 0 && x <= 1;
const isPacked = (array) =>
  Array.isArray(array) && array.length === 3 && is.text(array[0]) && is.list(is.integer)(array[1]) &&
  array[2] instanceof Uint8Array;

function unpackedArray([type, shape, data]) {
  const reader = new Reader(data);
  const width = type === "bool" ? 1 : 8;
  must(data.length % width === 0, "hold whole numbers");
  if (type === "bool") return { type, shape, values: Array.from(data, (flag) => (flag ? 1 : 0)) };
  const count = data.length / width;
  const whole = () => Number(reader.view.getBigInt64(reader.skip(8), true));
  return { type, shape, values: type === "int" ? Array.from({ length: count }, whole) : [...reader.floats(8, count)] };
}

function partOf(network, fragment, { kind, arrays = {}, arcs = [] }) {
  must(Object.hasOwn(ARRAYS, kind), `have parts of ${Object.keys(ARRAYS).join(", ")}`);
  const wanted = ARRAYS[kind];
  must(Object.keys(arrays).length === Object.keys(wanted).length, `hold the arrays of ${kind}`);
  const table = { arcs };
  for (const [name, type] of Object.entries(wanted)) {
    must(Object.hasOwn(arrays, name) && arrays[name].type === type, `hold ${name} of ${kind}`);
    const { shape, values } = arrays[name];
    must(shape.every((n) => n >= 0) && values.length === shape.reduce((n, m) => n * m, 1), `hold all of ${name}`);
    must(type !== "int" || values.every(is.integer), `hold whole numbers in ${name}`);
    table[name] = { shape, values };
  }
  const program = programOf(fragment);
  const inputs = fragment.inputIds.map((id) => network.inputIds.indexOf(id));
  CHECKS[kind](table, inputs.length, program.names.length, fragment);
  const names = kind === "rows" ? arcs : program.names;
  const index = new Map(network.arcs.map((arc, k) => [arc.name, k]));
  const carried = names.map((arc) => fragment.inputIds.indexOf(arc.split("->")[0]));
  return {
    inputs, program, table: { ...table, carried }, find: FINDS[kind],
    places: names.map((arc) => (arc ? index.get(arc) : -1)),
  };
}

const shaped = ({ shape }, ...lengths) => shape.length === lengths.length && lengths.every((n, k) => shape[k] === n);

const CHECKS = {
  simplex() {},
  regions({ value, rule, facets, starts }, inputs, count) {
    const regions = starts.values.length - 1;
    must(shaped(starts, regions + 1) && regions > 0 && shaped(value, 1 + inputs, regions), "fit its network");
    must(shaped(rule, regions, count, 1 + inputs) && facets.shape.length === 2 && facets.shape[1] === 1 + inputs, "fit its network");
    must(starts.values.every((at, k) => at >= (k ? starts.values[k - 1] : 0)), "have facets in order");
    must(starts.values.at(-1) <= facets.shape[0], "have all facets");
    must([value, rule, facets].every((array) => finite(array.values)), "be finite");
  },
  quadtree({ valued, plan, child, fractions, bound }, inputs, count) {
    const cells = plan.values.length, plans = bound.values.length;
    const corners = 2 ** valued.values.filter(Boolean).length;
    must(shaped(plan, cells) && shaped(child, cells) && cells > 0 && shaped(bound, plans), "fit its network");
    must(shaped(fractions, plans, count) && shaped(valued, inputs), "fit its network");
    must(plan.values.every((p) => p >= INNER && p < plans), "have known plans");
    must(plan.values.every((p, k) => p !== INNER || (child.values[k] > k && child.values[k] <= cells - corners)), "have known cells");
    must(fractions.values.every(isShare), "drop shares");
  },
  rows({ points, first, following, orthant, drops, valued, arcs }, inputs, count, fragment) {
    const rows = first.values.length;
    must([first, following, orthant].every((array) => shaped(array, rows)) && shaped(points, rows, inputs), "fit its network");
    must(shaped(drops, rows, arcs.length) && shaped(valued, inputs), "fit its network");
    must(arcs.every((name) => fragment.arcs.some((arc) => arc.name === name)), "drop on its arcs");
    const links = [...first.values, ...following.values].filter((link) => link !== -1);
    must(links.every((link) => link > 0 && link < rows) && new Set(links).size === links.length, "link its rows once");
    must(drops.values.every(isShare), "drop shares");
  },
};

const fits = (use, rates) => use.every((row) => !(row.reduce((sum, x, k) => sum + x * rates[k], 0) > 1 + ROUNDING));

/** Return the value of form `row` at rates: its constant, then its coefficients. */
function affine(values, row, rates) {
  const width = rates.length + 1;
  let value = values[row * width];
  for (let k = 0; k < rates.length; k++) value += values[row * width + k + 1] * rates[k];
  return value;
}

function holds({ facets, starts }, region, rates) {
  for (let f = starts.values[region]; f < starts.values[region + 1]; f++) {
    if (affine(facets.values, f, rates) < -EXACTLY) return false;
  }
  return true;
}

function regionOf(table, rates) {
  if (holds(table, 0, rates)) return 0;
  const [, regions] = table.value.shape;
  const loss = table.value.values.slice(0, regions);
  rates.forEach((rate, i) => {
    for (let k = 0; k < regions; k++) loss[k] += table.value.values[(i + 1) * regions + k] * rate;
  });
  let largest = 0;
  for (let k = 1; k < regions; k++) if (loss[k] > loss[largest]) largest = k;
  if (holds(table, largest, rates)) return largest;
  for (let k = 0; k < regions; k++) if (holds(table, k, rates)) return k;
  return -1;
}

/** Return whether dropped rates overload nothing and drop no more than there is. */
function feasible({ rows, highest }, rates, dropped) {
  for (const { constant, form } of rows) {
    let rest = constant, terms = Math.abs(constant);
    rates.forEach((rate, k) => {
      rest += form[k] * rate;
      terms += Math.abs(form[k] * rate);
    });
    dropped.forEach((d, k) => (rest -= -form[rates.length + k] * d));
    if (!(rest >= -SOUND - 8 * Number.EPSILON * terms)) return false;
  }
  return highest.every((form, j) => {
    if (!form) return true;
    const most = form.reduce((sum, x, k) => sum + x * rates[k], 0);
    return dropped[j] <= most + SOUND + 8 * Number.EPSILON * most;
  });
}

/** Turn dropped rates into drop fractions; what does not arrive is kept. */
function fractionsOf({ perRate, perDrop, ports }, rates, dropped) {
  const out = dropped.map((d, a) => {
    if (d <= NOTHING) return 0;
    const full = perRate[a].reduce((sum, x, k) => sum + x * rates[k], 0);
    const arriving = perDrop[a].reduce((rest, x, b) => rest - x * dropped[b], full);
    return arriving > Math.max(NOTHING, ROUNDING * full) ? Math.min(d / arriving, 1) : 0;
  });
  ports.forEach((port, a) => {
    if (port >= 0) out[a] = 1 - (1 - out[port]) * (1 - out[a]);
  });
  return out;
}

const FINDS = {
  simplex(program, _, rates) {
    if (fits(program.rawUse, rates)) return program.names.map(() => 0);
    throw new Unanswered("a plan of the method simplex has no tables; ask a Python node");
  },

  regions(program, table, rates) {
    if (fits(program.rawUse, rates)) return program.names.map(() => 0);
    const region = rates.every((rate) => rate <= 1 + ROUNDING) ? regionOf(table, rates) : -1;
    if (region < 0) throw new Unanswered("rates must lie in the planned space, up to max_rate");
    const rules = program.names.map((_, a) => affine(table.rule.values, region * program.names.length + a, rates));
    const dropped = rules.map((value) => Math.max(value, 0));
    if (rules.some((value) => value < -INSIDE) || !feasible(program, rates, dropped)) {
      throw new Unanswered("the plan's tables have no rule for these rates");
    }
    return fractionsOf(program, rates, dropped);
  },

  quadtree(program, { valued, plan, child, fractions, carried }, rates) {
    const count = program.names.length;
    if (fits(program.rawUse, rates)) return program.names.map(() => 0);
    const low = rates.map(() => 0);
    let size = 1, cell = 0;
    while (plan.values[cell] === INNER) {
      size *= 0.5;
      let offset = 0, bit = 1;
      rates.forEach((rate, k) => {
        if (!valued.values[k]) return;
        if (rate >= low[k] + size) {
          offset += bit;
          low[k] += size;
        }
        bit *= 2;
      });
      cell = child.values[cell] + offset;
    }
    const chosen = plan.values[cell];
    return carried.map((k, a) => {
      let kept = 1 - (chosen >= 0 ? fractions.values[chosen * count + a] : 0);
      if (k >= 0) {
        let target = valued.values[k] ? (chosen >= 0 ? low[k] : Math.min(rates[k], 1)) : 0;
        kept *= rates[k] > 0 ? target / rates[k] : 1;
      }
      return Math.min(Math.max(1 - kept, 0), 1);
    });
  },

  rows(program, { points, drops, valued, arcs, carried, ...index }, scaled) {
    const rates = scaled.map((rate, k) => rate * program.maxRates[k]);
    const use = program.rawUse.map((row) => row.map((x, k) => x / program.maxRates[k]));
    let scale = rates.map(() => 1), row = -1;
    if (!fits(use, rates)) {
      const limit = rates.map((rate, k) => (valued.values[k] ? rate : 0));
      scale = valued.values.map((flag) => (flag ? 1 : 0));
      if (!fits(use, limit)) {
        row = bestBelow(points, index, limit.map((rate) => rate * (1 + MATCH)));
        const at = (k) => (rates[k] > 0 ? Math.min(points.values[row * rates.length + k] / rates[k], 1) : 1);
        scale = rates.map((_, k) => (row < 0 ? 0 : at(k)));
      }
    }
    return carried.map((k, a) => {
      const drop = row < 0 ? 0 : drops.values[row * arcs.length + a];
      return k >= 0 ? 1 - (1 - drop) * scale[k] : drop;
    });
  },
};

/** Return the lowest row whose point is at most `limit`, or -1. */
function bestBelow(points, { first, following, orthant }, limit) {
  let best = -1;
  const stack = first.values.length ? [0] : [];
  while (stack.length) {
    const at = stack.pop();
    if (best >= 0 && best < at) continue;
    const above = limit.map((most, k) => points.values[at * limit.length + k] > most);
    if (!above.includes(true)) {
      best = at;
      continue;
    }
    for (let child = first.values[at]; child >= 0; child = following.values[child]) {
      const skipped = above.some((high, k) => high && Math.floor(orthant.values[child] / 2 ** k) % 2 === 1);
      if (!skipped && !(best >= 0 && best < child)) stack.push(child);
    }
  }
  return best;
}
