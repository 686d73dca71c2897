/**
 * The keyed attribute shedder: which attributes of which tuples are sent.
 *
 * A tuple is thinned by its draw; what is sent of it follows from its entity's history and from
 * the bytes of the last window. Decisions are those of Python's shedder that saw the same tuples.
 */

import { numberOf } from "./numbers.mjs";

const ONE = 2 ** 32;
const ABSENT = 0, SHEDDABLE = 1, KEPT = 2, FOLLOWED = 3, CONSTANT = 4; // roles of an attribute
const UNSENT = 1e12; // scores: nothing has reached the receiver yet
const OVERDUE = 1e6; // times age: the refresh that was promised
const PROMISED = 1e13; // times rank: what is guaranteed
const MIN_BAND = 0.01;
const MAX_ENTITIES = 65_536;
const encoder = new TextEncoder();

export class AttributesShedder {
  constructor(plan, load = 1, { maxEntities = MAX_ENTITIES } = {}) {
    this.plan = plan;
    this.maxEntities = Math.max(1, maxEntities);
    this.roles = rolesOf(plan);
    this.streamCodes = new Map(plan.streams.map(({ name }, s) => [name, s]));
    this.cids = new Set(plan.streams.map(({ cid }) => JSON.stringify(cid))).size;
    this.longest = Math.max(...plan.streams.map(({ fullBytes }) => fullBytes));
    this.entities = new Map(); // key -> { slot, last, age, waiting }
    this.charges = new Float64Array(plan.window); // bytes of the last window's tuples
    this.keptUp = new Float64Array(plan.window); // of those that took guaranteed values along
    this.ledger = { place: 0, charged: 0, keptUp: 0, clock: 0, waiting: 0, until: 0, credit: 0 };
    this.setLoad(load);
  }

  /** Follow a new capacity ratio; what the receiver has is remembered. */
  setLoad(load) {
    const { plan } = this;
    const setting = plan.at(load);
    const promises = plan.promises(setting);
    const capacity = setting.capacityBytes;
    const pace = Math.max(capacity / plan.window, 1e-9);
    const one = Math.trunc(this.longest) + Math.max(...setting.header);
    this.followed = {
      ...setting, ...promises, capacity, pace,
      reserve: Math.min(promises.windowBytes, Math.max(capacity, 0)),
      depth: Math.max(pace * plan.window, one),
    };
  }

  /** Return rows of one flag per attribute of the plan: 1 where it is sent. */
  decide(columns, draws) {
    const { plan } = this;
    const read = plan.attributes.map((name, j) => columnOf(columns[name], plan.kinds[j]));
    const keep = new Uint8Array(draws.length * plan.attributes.length);
    for (let i = 0; i < draws.length; i++) {
      const stream = this.streamOf(read, i);
      const entity = this.entityOf(read, i, stream);
      if (stream >= 0) this.decideOne(read, i, draws[i], stream, entity, keep);
    }
    return keep;
  }

  streamOf(read, i) {
    const { plan } = this;
    if (!plan.stream_attribute) return 0;
    const column = read[plan.attributes.indexOf(plan.stream_attribute)];
    if (!column) return -1;
    const value = column.values[i];
    if (!column.numeric) return this.streamCodes.get(value) ?? -1;
    return plan.streams.findIndex(({ name }) => name.trim() !== "" && Number(name) === value);
  }

  entityOf(read, i, stream) {
    const { plan, entities } = this;
    let key = "";
    if (stream >= 0 || this.cids === 1) {
      const { cid } = plan.streams[Math.max(stream, 0)];
      const parts = cid.map((name) => read[plan.attributes.indexOf(name)]?.values[i] ?? null);
      key = JSON.stringify([stream, ...parts.map((part) => (Object.is(part, -0) ? 0 : part))]);
    }
    const known = entities.get(key);
    if (known || entities.size >= this.maxEntities) return known ?? null;
    const empty = plan.attributes.map(() => null);
    const entity = { slot: entities.size, last: empty, age: empty.map(() => -1), waiting: false };
    entities.set(key, entity);
    return entity;
  }

  decideOne(read, i, draw, s, entity, keep) {
    const { plan, followed: at, ledger } = this;
    const stream = plan.streams[s];
    const attributes = plan.attributes.length;
    const limited = at.capacity >= 0;
    const clocked = at.cycle[s] > 0 && entity !== null;
    const rate = at.tupleRate[s];
    let lap = 0, apart = 1;
    if (clocked) {
      lap = Math.floor((ledger.clock - entity.slot) / at.cycle[s] + 0.5) - entity.slot;
      if (rate > 0 && rate < 1) apart = rounded(1 / rate);
    }
    const cost = Array(attributes).fill(0), score = Array(attributes).fill(0);
    const roles = this.roles[s].map((role, j) => (read[j] ? role : ABSENT));
    const due = [];
    let need = at.header[s], wanted = 0, must = 0;
    let still = limited && entity !== null; // the receiver has what is never shed
    for (let j = 0; j < attributes; j++) {
      if (roles[j] === ABSENT) continue;
      cost[j] = read[j].sizes ? read[j].sizes[i] : stream.sizes[j];
      const value = read[j].values[i];
      if (roles[j] >= KEPT) {
        need += cost[j];
        if (still && (roles[j] !== KEPT || entity.age[j] < 0)) {
          const moved = deviation(value, entity.last[j], read[j].numeric, 1);
          still = roles[j] === FOLLOWED && entity.age[j] >= 0 && moved === 0;
        }
        continue;
      }
      let worth = 0;
      if (limited && entity !== null) {
        worth = -1;
        const reports = entity.age[j] + 1;
        const slot = at.slot[s][j], rank = at.rank[s][j];
        let promised = rank > 0;
        if (reports === 0) worth = UNSENT;
        else {
          let moved = 0;
          const banded = at.band[s][j] >= 0;
          let turn = slot > 0 && clocked && reports > apart;
          turn = turn && modulo(Math.floor(lap / apart) + (banded ? 0 : j), slot) === 0;
          if ((at.period[s][j] > 0 && at.period[s][j] <= reports) || turn) {
            worth = reports * (stream.score[j] * plan.weight[j]);
            if (plan.refresh > 0 && plan.refresh <= reports) worth += OVERDUE * reports;
          }
          if (banded && (worth < 0 || rank > 0)) {
            moved = deviation(value, entity.last[j], read[j].numeric, stream.scale[j]);
            const band = Math.max(at.band[s][j], MIN_BAND);
            if (worth < 0 && moved > Math.min(band, at.limit[s][j])) {
              worth = (plan.weight[j] * moved * moved) / (cost[j] > 0 ? cost[j] : 1);
            }
          }
          promised = moved > at.limit[s][j] || (slot > 0 && worth >= 0);
        }
        if (promised) {
          worth = PROMISED * rank + reports;
          must += cost[j];
        }
      }
      if (worth >= 0) {
        score[j] = worth;
        due.push(j);
        wanted += cost[j];
      }
    }
    const charged = ledger.charged - this.charges[ledger.place];
    const keptUp = ledger.keptUp - this.keptUp[ledger.place];
    let room = at.capacity - charged;
    let credit = ledger.credit;
    let dropped = false, waited = false, short = must;
    const behind = Math.max(at.reserve - keptUp, ledger.clock < ledger.until ? ledger.waiting : 0);
    if (limited) {
      credit = Math.min(credit + at.pace, at.depth);
      waited = entity !== null && entity.waiting;
      dropped = rate < 1 && draw < Math.ceil((1 - rate) * ONE);
      if (waited && !dropped) entity.waiting = false;
      short = dropped ? 0 : must;
      dropped = dropped || (still && due.length === 0);
      if (!dropped) {
        if (must === 0) room = Math.min(room, at.capacity - charged - behind);
        if (need > room || at.capacity === 0) {
          dropped = true;
          if (entity) entity.waiting = true;
        }
      }
    }
    let spent = 0, guaranteed = 0;
    const row = keep.subarray(i * attributes, (i + 1) * attributes);
    if (!dropped) {
      spent = need;
      let budget = wanted;
      if (limited) {
        budget = Math.max(credit, need);
        if (must > 0) {
          const others = room - Math.max(behind - need - must, 0);
          budget = Math.max(Math.min(budget, others), need + must);
        }
        budget = Math.min(budget, room) - need;
      }
      for (let j = 0; j < attributes; j++) row[j] = roles[j] >= KEPT ? 1 : 0;
      if (wanted > budget) due.sort((a, b) => score[b] - score[a]); // stable: ties by attribute
      for (const j of due) {
        if (cost[j] > budget) continue;
        row[j] = 1;
        spent += cost[j];
        budget -= cost[j];
        if (score[j] >= PROMISED) {
          guaranteed += guaranteed ? cost[j] : cost[j] + need;
          short -= cost[j];
        }
        still = false;
      }
      if (still) { // nothing of it fits, so it waits
        row.fill(0);
        spent = 0;
        entity.waiting = true;
      }
    }
    if (limited && short > 0) {
      ledger.waiting = need + must;
      ledger.until = ledger.clock + 2 * plan.window;
      entity.waiting = true;
    } else if (limited && waited && guaranteed > 0) ledger.waiting = 0;
    if (entity) this.remember(read, i, draw, at, s, entity, row);
    if (limited) ledger.credit = credit - spent;
    this.charges[ledger.place] = spent;
    this.keptUp[ledger.place] = guaranteed;
    ledger.charged = charged + spent;
    ledger.keptUp = keptUp + guaranteed;
    ledger.clock += 1;
    ledger.place = ledger.place + 1 < plan.window ? ledger.place + 1 : 0;
  }

  /** Note what the receiver has now; at first, entities start at different ages by their draw. */
  remember(read, i, draw, at, s, entity, row) {
    for (let j = 0; j < row.length; j++) {
      if (row[j]) {
        const every = at.period[s][j];
        const first = at.band[s][j] < 0 ? draw + j : draw;
        entity.age[j] = entity.age[j] < 0 && every > 1 ? first % every : 0;
        entity.last[j] = read[j].values[i];
      } else if (entity.age[j] >= 0) entity.age[j] += 1;
    }
  }
}

function rolesOf(plan) {
  return plan.streams.map(({ cid, sizes, present, kept }) => plan.attributes.map((name, j) => {
    if (!present[j]) return ABSENT;
    if (!kept[j]) return SHEDDABLE;
    if (plan.method === "paper") return CONSTANT;
    return sizes[j] > 0 && !cid.includes(name) && name !== plan.stream_attribute ? FOLLOWED : KEPT;
  }));
}

/** Return a column's values: numbers, or texts; null where there is none; bytes of free text. */
function columnOf(column, kind) {
  if (column === undefined) return null;
  const present = (value) => value !== null && value !== undefined && value === value;
  const list = Array.from(column, (value) => (present(value) ? value : null));
  const numeric = list.every((value) => value === null || typeof value !== "string");
  const values = list.map((value) => (value === null ? null : numeric ? numberOf(value) : String(value)));
  const bytes = (value) => (value === null ? 0 : encoder.encode(value).length);
  return { values, numeric: numeric && kind === "number", sizes: kind === "text" && !numeric ? values.map(bytes) : null };
}

/** Return how far a value is from the last sent one, free of units; null against a value is 1. */
function deviation(now, last, numeric, scale) {
  if (now === null || last === null) return now === last ? 0 : 1;
  if (numeric && scale > 0) return Math.abs(now - last) / scale;
  return now === last ? 0 : 1;
}

const modulo = (a, b) => a - b * Math.floor(a / b);

/** Round to the nearest whole number, halves to the even one. */
function rounded(value) {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}
