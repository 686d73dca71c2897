/** Attribute plans: a frontier of options, of which the capacity ratio chooses one point. */

import { inflated } from "./inflate.mjs";
import { fraction, pairwiseSum } from "./numbers.mjs";
import { Reader, finite, guarantee, is, must } from "./reading.mjs";

const SLACK = 1e-9;
const NOWHERE = 2;
const PERIODIC = -1; // a band: not sent because of a change
const MORE_TURNS = 2; // than their share of guaranteed values may fall into one window
const LONGEST_WINDOW = 10_000_000;
const MOST_POINTS = 4096;
const MOST_BYTES = 2 ** 40; // of a tuple
const KINDS = ["number", "category", "text"];
const texts = is.list(is.text), integers = is.list(is.integer), numbers = is.list(is.number);
const streamFields = {
  name: is.text, cid: texts, cycle_length: is.integer, share: is.number, header_bytes: is.integer,
  sizes: integers, present: is.list(is.flag), kept: is.list(is.flag), scale: numbers, score: numbers,
};
const headFields = {
  format: is.integer, method: is.text, attributes: texts, kinds: texts, weight: numbers,
  stream_attribute: is.text, streams: is.list(is.object(streamFields)), window: is.integer,
  tuple_bytes: is.number, refresh: is.integer, capacity_ratio: is.number, option_period: integers,
  option_band: numbers, thinning: is.list(integers), guarantees: is.optional(is.list(guarantee)),
};
const isHead = is.object(headFields);
const isDocument = is.object({ ...headFields, ratio: numbers, loss: numbers, choice: is.list(integers) });
const counts = (...lists) => lists.every((list) => finite(list) && list.every((x) => x >= 0));

export class AttributesPlan {
  family = "attributes";

  constructor(document) {
    Object.assign(this, document);
    this.guarantees = document.guarantees ?? [];
    this.streams = document.streams.map((stream) => ({
      ...stream,
      keptBytes: total(stream.sizes, (j) => stream.present[j] && stream.kept[j]),
      fullBytes: total(stream.sizes, (j) => stream.present[j]),
    }));
    /** Stream and attribute of everything that may be shed: the columns of `choice`. */
    this.places = this.streams.flatMap((stream, s) =>
      this.attributes.flatMap((_, j) => (stream.present[j] && !stream.kept[j] ? [[s, j]] : [])));
    this.protected = this.guarantees.map(({ name }) =>
      this.places.find(([s, j]) => `attribute ${this.nameOf(s, j)}` === name));
  }

  /** Return the plan of a JSON document; throw `Damaged` if its parts do not fit together. */
  static fromDocument(document) {
    must(isDocument(document) && document.format === 1, "be an attributes document of format 1");
    checkFit(document);
    const plan = new AttributesPlan(document);
    must(Math.max(...plan.streams.map((stream) => stream.fullBytes)) > 0, "have tuples of some bytes");
    must(plan.choice.every((row) => row.length === plan.places.length), "have an option for each attribute");
    must(plan.protected.every((place) => place !== undefined), "guarantee what may be shed");
    return plan;
  }

  /** Return the plan of the compact bytes. */
  static fromBytes(bytes) {
    const reader = new Reader(bytes);
    reader.magic("HGA1");
    const body = reader.message();
    must(Array.isArray(body) && body.length === 3, "hold three parts");
    const [head, points, data] = body;
    must(isHead(head) && is.integer(points) && data instanceof Uint8Array, "hold a head and tables");
    must(points >= 1 && points <= MOST_POINTS, `have 1 to ${MOST_POINTS} points`);
    const items = head.streams.reduce((sum, { present, kept }) =>
      sum + present.filter((there, j) => there && kept[j] === false).length, 0);
    const tables = new Reader(inflated(data, points * (16 + items)));
    const ratio = [...tables.floats(8, points)], loss = [...tables.floats(8, points)];
    const steps = tables.rest();
    const choice = ratio.map(() => Array(items).fill(0));
    for (let item = 0; item < items; item++) {
      let option = 0;
      for (let p = 0; p < points; p++) choice[p][item] = option = (option + steps[item * points + p]) & 255;
    }
    return AttributesPlan.fromDocument({ ...head, ratio, loss, choice });
  }

  nameOf(stream, attribute) {
    const prefix = this.stream_attribute ? `${this.streams[stream].name}.` : "";
    return prefix + this.attributes[attribute];
  }

  /** Return the bytes per window at a capacity ratio; -1 if everything passes. */
  capacityBytes(load) {
    return load >= 1 ? -1 : Math.floor(load * this.window * this.tuple_bytes + SLACK);
  }

  /** Return periods, dead bands, rates of tuples and headers at a capacity ratio. */
  at(load) {
    const ratio = fraction("load", load);
    const point = this.ratio.findLastIndex((least) => least <= ratio + SLACK);
    const grid = (value) => this.streams.map(() => Array(this.attributes.length).fill(value));
    const period = grid(1), band = grid(PERIODIC);
    const header = this.streams.map(() => 0);
    let rate = this.streams.map(() => 1);
    if (ratio < 1) {
      const options = this.choice[Math.max(point, 0)], thinning = this.thinning[Math.max(point, 0)];
      this.places.forEach(([s, j], k) => {
        // Option 0 goes with every tuple that is sent; the others count reports.
        period[s][j] = this.option_period[options[k]] * (options[k] > 0 ? thinning[s] : 1);
        band[s][j] = this.option_band[options[k]];
        if (options[k] > 0) header[s] = this.streams[s].header_bytes;
      });
      rate = thinning.map((every) => 1 / every);
      if (point < 0) rate = rate.map((share) => share * (ratio / this.ratio[0]));
      else if (rate.length === 1 && rate[0] < 1 && !options.some((option) => option > 0)) {
        // Whole tuples: as many as fit into a window, except the one it may cut.
        const fit = Math.floor(this.capacityBytes(ratio) / this.streams[0].fullBytes);
        rate = [Math.max(rate[0], Math.min(1, (fit - 1) / this.window))];
      }
    }
    return { load: ratio, capacityBytes: this.capacityBytes(ratio), tupleRate: rate, period, band, header };
  }

  /** Return what guarantees ask of a shedder at a setting. */
  promises(setting) {
    const grid = (value) => this.streams.map(() => Array(this.attributes.length).fill(value));
    const slot = grid(0), limit = grid(Infinity), rank = grid(0);
    const priorities = [...new Set(this.guarantees.map(({ priority }) => priority))].sort((a, b) => a - b);
    this.guarantees.forEach(({ limit: kind, value, priority }, k) => {
      const [s, j] = this.protected[k];
      const scale = this.streams[s].scale[j], band = setting.band[s][j];
      const rate = setting.tupleRate[s], every = setting.period[s][j];
      if (kind === "max_age" || (every === rate && rate === 1)) slot[s][j] = Math.ceil(every * rate - SLACK);
      if (kind === "max_error" && band >= 0) limit[s][j] = scale > 0 ? Math.max(band, value / scale) : 0.5;
      if (slot[s][j] || limit[s][j] < Infinity) rank[s][j] = 1 + priorities.indexOf(priority);
    });
    let taken = 0;
    const cycle = this.streams.map((stream, s) => {
      const mine = this.attributes.map((_, j) => j).filter((j) => rank[s][j] > 0);
      const rate = setting.tupleRate[s];
      const tuples = this.window * stream.share * rate + (rate < 1 ? 1 : 0);
      const turns = mine.map((j) => Math.min(tuples * (slot[s][j] > 0 ? 1 / slot[s][j] : 0) + MORE_TURNS, tuples));
      const rest = stream.keptBytes + setting.header[s];
      const bytes = mine.reduce((sum, j, k) => sum + turns[k] * stream.sizes[j], 0);
      taken += bytes + Math.min(pairwiseSum(turns), tuples) * rest;
      return slot[s].some(Boolean) && stream.cycle_length > 1 ? stream.cycle_length / stream.share : 0;
    });
    return { slot, limit, rank, cycle, windowBytes: this.guarantees.length ? Math.ceil(taken) : 0 };
  }
}

const total = (sizes, counted) => sizes.reduce((sum, size, j) => sum + (counted(j) ? size : 0), 0);

function checkFit(document) {
  const { attributes, kinds, weight, streams, window, tuple_bytes: tupleBytes, ratio, loss } = document;
  const { option_period: periods, option_band: bands, choice, thinning, guarantees = [] } = document;
  const names = new Set(attributes);
  const length = (list) => list.length === attributes.length;
  must(ratio.length > 0 && streams.length > 0, "have points and streams");
  must(window >= 1 && window <= LONGEST_WINDOW, "have a window");
  must(tupleBytes * window > 0 && tupleBytes * window < 2 ** 62, "have bytes per window");
  must(names.size === attributes.length && length(kinds) && length(weight), "have lists per attribute");
  must(kinds.every((kind) => KINDS.includes(kind)), `have kinds of ${KINDS.join(", ")}`);
  must(document.stream_attribute === "" || names.has(document.stream_attribute), "name its streams");
  must(bands.length === periods.length && loss.length === ratio.length, "have bands and losses");
  must(choice.length === ratio.length && thinning.length === ratio.length, "have a row per point");
  must(thinning.every((row) => row.length === streams.length && row.every((n) => n >= 1)), "thin by 1 or more");
  const options = choice.flat();
  must(options.every((option) => option >= 0 && option < 256), "have options below 256");
  must(Math.max(0, ...choice.map((row) => Math.max(0, ...row))) < periods.length, "choose of its options");
  must(ratio.every((r, p) => p === 0 || r >= ratio[p - 1]), "have rising ratios");
  must(counts(weight, ratio, loss, periods, [document.refresh]), "have counts of at least 0");
  must(bands.every((band) => band === band), "have bands that are numbers");
  for (const { cid, cycle_length: cycle, header_bytes: header, sizes, present, kept, scale, score } of streams) {
    must([sizes, present, kept, scale, score].every(length), "have lists per attribute in every stream");
    must(cid.every((name) => names.has(name)) && cycle >= 1, "identify its entities");
    must(counts(sizes, scale, score) && header >= 0 && header < MOST_BYTES, "have sizes of at least 0");
    must(sizes.reduce((sum, size) => sum + size, 0) < MOST_BYTES, "have tuples that fit");
  }
  must(guarantees.every(({ limit, value, holds_from: from }) =>
    ["max_age", "max_error"].includes(limit) && value > 0 && value < Infinity && from >= 0 && from <= NOWHERE),
    "guarantee ages or errors");
}
