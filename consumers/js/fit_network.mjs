/** Query networks: reading and checking them, their fragments, and flows as linear forms. */

import { is, must } from "./reading.mjs";

const TYPES = ["map", "filter", "aggregate", "union", "join"];
const FAR = 1e3; // times its capacity that a server may save by one location's highest rate
const name = (value) => is.text(value) && value !== "" && !value.includes("->") && !value.includes(":");
const amount = (value) => Number.isFinite(value) && value >= 0;
const positive = (value) => Number.isFinite(value) && value > 0;
const share = (value) => amount(value) && value <= 1;
const orNull = (kind) => is.optional((value) => value === null || kind(value));
const isWindow = is.object({ size: positive, slide: positive, batch: is.optional((b) => is.integer(b) && b >= 1) });
const isNetwork = is.object({
  name: is.text,
  nodes: is.list(is.object({ id: name, capacity: positive, parent: orNull(is.text) })),
  inputs: is.list(is.object({ id: name, max_rate: positive, size: is.optional(amount) })),
  operators: is.list(is.object({
    id: name, node: name, type: (type) => TYPES.includes(type), cost: amount, selectivity: amount,
    inputs: is.list(is.text), size: is.optional(amount),
    windows: orNull((pair) => is.list(amount)(pair) && pair.length === 2), window: orNull(isWindow),
  })),
  outputs: is.list(is.object({
    id: name, stream: name, weight: amount, priority: is.optional(is.integer), minimum: is.optional(amount),
  })),
  links: is.optional(is.list(is.object({ from: name, to: name, capacity: positive }))),
  min_keep: is.optional(share),
});
const distinct = (names) => new Set(names).size === names.length;
const ids = (list) => list.map(({ id }) => id);

/** Return a network of its document, with what follows from it; refuse what is not sound. */
export function networkOf(document) {
  must(isNetwork(document), "hold a network");
  const { nodes, inputs, operators, outputs, links = [] } = document;
  must(nodes.length && inputs.length && outputs.length, "have servers, inputs and outputs");
  operators.forEach(checkOperator);
  const servers = new Set(ids(nodes));
  const streams = [...ids(inputs), ...ids(operators)];
  const known = new Set(streams);
  must([ids(nodes), streams, ids(outputs), links.map(({ from, to }) => `${from}->${to}`)].every(distinct),
    "have distinct names");
  must(operators.every(({ node }) => servers.has(node)), "place operators on servers");
  must(operators.every((o) => o.inputs.every((s) => known.has(s))), "read known streams");
  must(outputs.every(({ stream }) => known.has(stream)), "put out known streams");
  must(links.every(({ from, to }) => servers.has(from) && servers.has(to)), "link known servers");
  checkParents(nodes);
  const network = derived({ nodes, inputs, operators, outputs, links });
  must(distinct(network.arcs.map((arc) => arc.name)), "have distinct arcs");
  return network;
}

function checkOperator({ type, inputs, selectivity, windows = null, window = null }) {
  const wanted = type === "join" ? 2 : 1;
  must(type === "union" ? inputs.length >= 1 : inputs.length === wanted, "read as many streams as operators do");
  must(type === "join" ? windows !== null : selectivity <= 1, "have selectivities");
  must((windows === null || type === "join") && (window === null || type === "aggregate"), "have windows where they belong");
}

function checkParents(nodes) {
  const parents = new Map(nodes.map(({ id, parent = null }) => [id, parent]));
  for (const { id } of nodes) {
    const seen = new Set([id]);
    for (let above = parents.get(id); above !== null; above = parents.get(above)) {
      must(parents.has(above) && !seen.has(above), "have parents without a cycle");
      seen.add(above);
    }
  }
}

function derived({ nodes, inputs, operators, outputs, links }) {
  const inputIds = ids(inputs);
  const arcs = operators.flatMap(({ id, type, inputs: read }) => read.map((stream, port) => {
    const suffix = type === "union" || type === "join" ? `:${port}` : "";
    return { stream, consumer: id, port, toOutput: false, name: `${stream}->${id}${suffix}` };
  }));
  arcs.push(...outputs.map(({ stream, id }) => ({ stream, consumer: id, toOutput: true, name: `${stream}->${id}` })));
  const arcsFrom = new Map([...inputIds, ...ids(operators)].map((stream) => [stream, []]));
  const arcsInto = new Map(ids(operators).map((id) => [id, []]));
  arcs.forEach((arc, index) => {
    arcsFrom.get(arc.stream).push(index);
    if (!arc.toOutput) arcsInto.get(arc.consumer).push(index);
  });
  const operator = new Map(operators.map((o) => [o.id, o]));
  const network = {
    nodes, inputs, operators, outputs, links, inputIds, arcs, arcsFrom, arcsInto, operator,
    order: topological(operators),
    nodeOf: (stream) => operator.get(stream)?.node ?? null,
  };
  network.overhead = overheadOf(network);
  return network;
}

function topological(operators) {
  const names = new Set(ids(operators)), done = new Set(), ordered = [];
  let waiting = operators;
  while (waiting.length) {
    const ready = waiting.filter((o) => o.inputs.every((s) => done.has(s) || !names.has(s)));
    must(ready.length, "have operators without a cycle");
    ordered.push(...ready);
    ready.forEach(({ id }) => done.add(id));
    waiting = waiting.filter(({ id }) => !done.has(id));
  }
  return ordered;
}

/** Tuples emitted per tuple that arrives on a port. */
const gain = ({ selectivity, windows = null }, port) => (windows ? selectivity * windows[1 - port] : selectivity);
const perShare = ({ size, slide, batch = 1 }) => 1 + Math.max(size / slide - 1, 0) / batch;

/** Return, per arc, the tuples per kept share of windows: 1 where no sliding window follows. */
function overheadOf({ order, arcs, arcsFrom }) {
  const entering = new Map();
  for (const o of [...order].reverse()) {
    if (o.type === "aggregate") {
      entering.set(o.id, o.window ?? null);
      continue;
    }
    const below = arcsFrom.get(o.id).filter((a) => !arcs[a].toOutput).map((a) => entering.get(arcs[a].consumer));
    const windows = below.filter((window) => window !== null);
    const most = Math.max(...o.inputs.map((_, port) => gain(o, port)));
    let widest = null;
    for (const w of windows) {
      const wider = widest === null || perShare(w) > perShare(widest) || (perShare(w) === perShare(widest) && w.size > widest.size);
      if (wider) widest = w;
    }
    entering.set(o.id, widest && most > 0 ? { ...widest, size: widest.size / most, slide: widest.slide / most } : null);
  }
  return arcs.map((arc) => {
    const window = arc.toOutput ? null : entering.get(arc.consumer);
    return window ? perShare(window) : 1;
  });
}

/** Cut a network where neither a stream nor a server connects its parts. */
export function fragmentsOf(network) {
  const group = new Map(ids(network.operators).map((id) => [id, id]));
  const root = (id) => {
    while (group.get(id) !== id) id = group.get(id);
    return id;
  };
  const onServer = new Map();
  for (const { id, node, inputs } of network.operators) {
    if (!onServer.has(node)) onServer.set(node, id);
    for (const other of [onServer.get(node), ...inputs.filter((s) => group.has(s))]) {
      const [low, high] = [root(id), root(other)].sort();
      group.set(high, low);
    }
  }
  const parts = new Map();
  for (const o of network.operators) {
    if (!parts.has(root(o.id))) parts.set(root(o.id), []);
    parts.get(root(o.id)).push(o);
  }
  return [...parts.values()].map((operators) => {
    const names = new Set(ids(operators)), servers = new Set(operators.map(({ node }) => node));
    const read = new Set(operators.flatMap((o) => o.inputs));
    return derived({
      operators,
      nodes: network.nodes.filter(({ id }) => servers.has(id)),
      inputs: network.inputs.filter(({ id }) => read.has(id)),
      outputs: network.outputs.filter(({ stream }) => names.has(stream)),
      links: network.links.filter(({ from, to }) => servers.has(from) && servers.has(to)),
    });
  });
}

/** Return the drop locations: arcs out of inputs and splits whose drop saves something. */
function locationsOf(network) {
  const { arcs, arcsFrom, operator, order, inputIds, links, nodeOf } = network;
  const limited = new Set(links.map(({ from, to }) => JSON.stringify([from, to])));
  const saves = arcs.map(() => false);
  for (const o of [...order].reverse()) {
    const below = arcsFrom.get(o.id).some((a) => saves[a]);
    network.arcsInto.get(o.id).forEach((arc, port) => {
      const link = JSON.stringify([nodeOf(arcs[arc].stream), o.node]);
      saves[arc] = o.cost > 0 || (below && gain(o, port) > 0) || limited.has(link);
    });
  }
  const locations = [];
  for (const stream of [...inputIds, ...ids(order)]) {
    const leaving = arcsFrom.get(stream), source = nodeOf(stream);
    if (source !== null && leaving.length < 2) continue;
    const targets = new Map();
    for (const arc of leaving.filter((a) => saves[a])) {
      const { node } = operator.get(arcs[arc].consumer);
      targets.set(node, [...(targets.get(node) ?? []), arc]);
    }
    for (const [target, group] of targets) {
      const port = group.length > 1 && limited.has(JSON.stringify([source, target])) ? locations.length : -1;
      if (port >= 0) locations.push({ arc: -1, stream, arcs: group, port: -1 });
      locations.push(...group.map((arc) => ({ arc, stream, arcs: [arc], port })));
    }
  }
  return locations;
}

/** Flows on arcs, and what arrives at locations, as forms: per rate, then per dropped rate. */
function propagated(network, locations) {
  const inputs = network.inputs.length, width = inputs + locations.length;
  const zeros = () => Array(width).fill(0);
  const at = new Map(locations.flatMap(({ arc }, k) => (arc >= 0 ? [[arc, k]] : [])));
  const streams = new Map(network.inputIds.map((id, k) => [id, zeros().map((_, j) => (j === k ? 1 : 0))]));
  const arcs = network.arcs.map(zeros), arrivals = locations.map(zeros);
  for (const o of network.order) {
    let out = zeros();
    network.arcsInto.get(o.id).forEach((arc, port) => {
      let flow = streams.get(network.arcs[arc].stream);
      if (at.has(arc)) {
        for (const k of [locations[at.get(arc)].port, at.get(arc)].filter((place) => place >= 0)) {
          arrivals[k] = flow;
          flow = flow.map((x, j) => (j === inputs + k ? x - 1 : x));
        }
      }
      arcs[arc] = flow;
      const each = gain(o, port);
      out = out.map((x, j) => x + each * flow[j]);
    });
    streams.set(o.id, out);
  }
  network.arcs.forEach((arc, index) => {
    if (arc.toOutput) arcs[index] = streams.get(arc.stream);
  });
  return { arcs, arrivals, width, inputs };
}

/** Return the share of each server's and each link's capacity, as forms. */
function useOf(network, { arcs, arrivals, width, inputs }, locations, overhead) {
  const servers = network.nodes.map(({ id, capacity }) => {
    const use = Array(width).fill(0);
    for (const o of network.order.filter(({ node }) => node === id)) {
      for (const arc of network.arcsInto.get(o.id)) {
        const cost = o.cost * overhead[arc];
        arcs[arc].forEach((x, j) => (use[j] += cost * x));
      }
    }
    return use.map((x) => x / capacity);
  });
  const links = network.links.map(({ from, to, capacity }) => {
    const use = Array(width).fill(0), between = new Map();
    network.arcs.forEach(({ stream, consumer, toOutput }, index) => {
      if (toOutput || network.operator.get(consumer).node !== to || network.nodeOf(stream) !== from) return;
      between.set(stream, [...(between.get(stream) ?? []), index]);
    });
    for (const [stream, group] of between) {
      const port = locations.findIndex(({ arc, arcs: all }) => arc < 0 && String(all) === String(group));
      const flow = port < 0 ? arcs[group[0]] : arrivals[port].map((x, j) => (j === inputs + port ? x - 1 : x));
      const size = (network.operator.get(stream).size ?? 1) * Math.max(...group.map((arc) => overhead[arc]));
      flow.forEach((x, j) => (use[j] += (size * x) / capacity));
    }
    return use;
  });
  return [...servers, ...links];
}

/** Return the tables by which drops of a fragment are found and checked. */
export function programOf(network) {
  const maxRates = network.inputs.map((input) => input.max_rate);
  const inputs = maxRates.length;
  const most = new Map(propagated(network, []).arcs.map((form, arc) =>
    [network.arcs[arc].stream, form.reduce((sum, x, k) => sum + x * maxRates[k], 0)]));
  const locations = locationsOf(network).filter(({ stream }) => most.get(stream) > 0);
  for (const location of locations) {
    if (location.arc < 0) continue;
    location.port = locations.findIndex(({ arc, stream, arcs }) =>
      arc < 0 && stream === location.stream && arcs.includes(location.arc));
  }
  const highest = locations.map(({ stream }) => most.get(stream));
  const forms = propagated(network, locations);
  const use = useOf(network, forms, locations, network.overhead);
  const raw = useOf(network, forms, locations, network.arcs.map(() => 1));
  const saved = highest.map((rate, k) => Math.max(0, ...use.map((row) => Math.abs(row[inputs + k] * rate))));
  const scale = highest.map((rate, k) => rate / (saved[k] > FAR ? saved[k] : 1));
  const units = [...maxRates, ...scale];
  const scaled = (rows) => rows.map((row) => row.map((x, j) => x * units[j]));
  const arrivals = scaled(forms.arrivals).map((row, k) => row.map((x) => x / scale[k]));
  const first = locations.map(({ stream }) => network.inputIds.includes(stream));
  const loads = scaled(use).filter((row) => row.slice(inputs).some((x) => x !== 0));
  return {
    maxRates,
    names: locations.map(({ arc }) => (arc >= 0 ? network.arcs[arc].name : "")),
    ports: locations.map(({ port }) => port),
    rawUse: scaled(raw).map((row) => row.slice(0, inputs)),
    perRate: arrivals.map((row) => row.slice(0, inputs)),
    perDrop: arrivals.map((row) => row.slice(inputs).map((x) => -x)),
    // What must not fall below 0: constant, per rate, per dropped rate.
    rows: [
      ...loads.map((row) => ({ constant: 1, form: row.map((x) => -x) })),
      ...arrivals.flatMap((row, k) => (first[k] ? [] : [{ constant: 0, form: row.map((x, j) => (j === inputs + k ? x - 1 : x)) }])),
    ],
    highest: first.map((of, k) => (of ? arrivals[k].slice(0, inputs) : null)),
  };
}
