/**
 * The exact update throttlers of a LIRA plan at any throttle fraction.
 *
 * Operations are in Python's order. The budget's sum is not: what counts are throttlers in single
 * precision, and these are equal.
 */

import { compared, interpolated, pairwiseSum } from "./numbers.mjs";
import { finite, must } from "./reading.mjs";

const LARGEST_PRICE = 1e60, SMALLEST_PRICE = 1e-60;
const EXACT = 1e-12; // how near a setting comes to the measured budget, and to its load

/** A measured curve scaled to 1 at its first threshold, and its lower convex hull. */
export function curveOf(thresholds, values) {
  const rises = thresholds.every((d, k) => (k === 0 ? d >= 0 : d > thresholds[k - 1]));
  must(finite(thresholds) && rises, "have rising thresholds");
  must(finite(values) && values.every((f) => f >= 0) && values[0] > 0, "have a measured curve");
  const raw = values.map((f) => f / values[0]);
  const corners = [];
  raw.forEach((y, k) => {
    while (corners.length > 1) {
      const [i, j] = corners.slice(-2);
      const turn = (raw[j] - raw[i]) * (thresholds[k] - thresholds[j]);
      if (turn < (y - raw[j]) * (thresholds[j] - thresholds[i])) break;
      corners.pop();
    }
    corners.push(k);
  });
  const at = (list) => corners.map((k) => list[k]);
  const hull = running(thresholds.map((x) => interpolated(x, at(thresholds), at(raw))), Math.min);
  must(hull.at(-1) < 1, "have a curve that falls");
  return { thresholds, raw, hull };
}

/** Return the least, or the greatest, of each number and all before it. */
function running(numbers, choose) {
  let best = numbers[0];
  return numbers.map((x) => (best = choose(best, x)));
}

/** The path of a plan: `byLevel(load)` gives the throttler of every level. */
export class Throttlers {
  constructor({ thresholds, reduction, departure, weight, ratio, fairness, guaranteed }) {
    this.curve = curveOf(thresholds, reduction);
    const shifted = thresholds.map((d, k) => (k ? d + departure : d));
    this.axis = curveOf(shifted, this.curve.raw);
    this.weight = weight;
    this.total = pairwiseSum(weight);
    this.guaranteed = guaranteed;
    this.falling = running([...this.curve.raw].reverse(), Math.max).reverse();
    const used = weight.flatMap((w, k) => (w > 0 ? [k] : []));
    const before = (k) => used[Math.max(used.filter((u) => u <= k).length - 1, 0)];
    this.follows = weight.map((_, k) => (guaranteed || !used.length ? k : before(k)));
    this.problem = guaranteed ? null : problemOf(weight.map((w, k) => w * ratio[k]), weight, this.axis, fairness);
  }

  /** Return the throttlers at the highest load that spends at most z by the measured curve. */
  at(z) {
    return this.byLevel(this.affordable(z));
  }

  byLevel(z) {
    const places = this.guaranteed ? mixed(this.guaranteed, z) : solved(this.problem, z);
    const thresholds = places.map((a) => interpolated(a, this.axis.thresholds, this.curve.thresholds));
    return this.follows.map((k) => thresholds[k]);
  }

  over(load, z) {
    let spent = 0;
    this.byLevel(load).forEach((d, k) => {
      spent += this.weight[k] * interpolated(d, this.curve.thresholds, this.falling);
    });
    return (this.total > 0 ? spent / this.total : 0) - z;
  }

  affordable(z) {
    let high = z, above = this.over(z, z);
    if (above <= EXACT) return z;
    let low = z, below = above;
    while (below > 0 && low > 0) {
      [high, above] = [low, below];
      low = Math.max(z - 2 * (z - high + above), 0);
      below = this.over(low, z);
    }
    let halve = false;
    while (below < -EXACT && high - low > EXACT) {
      const middle = low + (halve ? 0.5 : below / (below - above)) * (high - low);
      const here = this.over(middle, z);
      halve = !halve && Math.max(middle - low, high - middle) > 0.5 * (high - low);
      if (here <= 0) [low, below] = [middle, here];
      else [high, above] = [middle, here];
    }
    return low;
  }
}

function mixed({ loads, places }, z) {
  let right = 1;
  while (right < loads.length - 1 && loads[right] < z) right++;
  const low = loads[right - 1], high = loads[right];
  const part = Math.min(Math.max((z - low) / (high - low), 0), 1);
  return places[right - 1].map((here, k) => here + part * (places[right][k] - here));
}

function problemOf(importance, weight, { thresholds: d, hull: f }, fairness) {
  const sums = [importance, weight].map((list) => pairwiseSum(list));
  must(finite(sums) && [...importance, ...weight].every((x) => x >= 0), "have weights of at least 0");
  must(fairness >= 0 && fairness < Infinity, "have a fairness threshold of at least 0");
  const [m, w] = [importance, weight].map((list, k) => (sums[k] > 0 ? list.map((x) => x / sums[k]) : list));
  const ratio = m.map((x, k) => (x > 0 ? (w[k] > 0 ? x / w[k] : Infinity) : 0));
  const order = ratio.map((_, k) => k).sort((a, b) => compared(ratio[a], ratio[b]) || a - b);
  const prefix = (list) => {
    let sum = 0;
    return [0, ...order.map((k) => (sum += list[k]))];
  };
  const falls = f.slice(1).map((y, k) => Math.max((f[k] - y) / (d[k + 1] - d[k]), 0));
  const sorted = order.map((k) => ratio[k]);
  const rates = running(falls, Math.min);
  const zeros = sorted.filter((x) => x <= 0).length;
  const known = sorted.filter((x) => x <= 1.7e308).length;
  return {
    order, ratio: sorted, belowW: prefix(w), belowM: prefix(m), d, f, rates, fairness,
    ...windowsOf(d, fairness), zeros, known,
    lower: rates.map((rate) => (rate > 0 ? zeros : 0)), upper: rates.map((rate) => (rate > 0 ? known : 0)),
  };
}

/** Every t at which an end of the fairness window meets a breakpoint, with the segments there. */
function windowsOf(d, fairness) {
  const top = d.at(-1);
  const last = Math.max(d[0], top - fairness);
  const ends = [...d.filter((x) => x <= last), ...d.filter((x) => x - fairness >= d[0]).map((x) => x - fairness), last];
  const unique = [...new Set(ends)].sort((a, b) => a - b).filter((t) => t >= d[0] && t <= last);
  const windows = unique.filter((t, k) => k === 0 || t - unique[k - 1] > 1e-12 * top);
  windows[windows.length - 1] = last;
  const slack = 1e-12 * top;
  const segment = (x) => Math.min(Math.max(d.filter((y) => y <= x).length - 1, 0), d.length - 2);
  return {
    windows,
    lowSegment: windows.map((t) => segment(t + slack)),
    highSegment: windows.map((t) => segment(t + fairness + slack)),
  };
}

function solved(p, z) {
  const { order, d, belowW, belowM, zeros } = p;
  const out = order.map(() => d[0]);
  if (belowW.at(-1) === 0 || z >= 1) return out;
  if (belowM.at(-1) === 0) return out.fill(even(p, z, order.length, d.at(-1)));
  const { before, after, share, price, lower, upper } = between(p, z);
  if (price > 0) {
    const here = vertex(p, before, lower), there = vertex(p, after, upper);
    order.forEach((region, k) => {
      out[region] = share < 1 ? here[k] + share * (there[k] - here[k]) : there[k];
    });
    return out;
  }
  // Regions without queries rise as far as fairness allows; everything else stays.
  const level = even(p, z, zeros, Math.min(d.at(-1), p.windows[0] + p.fairness));
  for (const region of order.slice(0, zeros)) out[region] = level;
  return out;
}

function vertex({ order, d, windows, fairness }, window, counts) {
  const t = windows[window], top = Math.min(d.at(-1), t + fairness);
  return order.map((_, k) => {
    const crossed = counts.findIndex((count) => count <= k);
    return Math.min(Math.max(d[crossed < 0 ? counts.length : crossed], t), top);
  });
}

/** Spend the budget on the first `zeros` regions of the order alike. */
function even({ d, f, belowW }, z, zeros, top) {
  const rest = belowW.at(-1) - belowW[zeros];
  const wanted = belowW[zeros] > 0 ? (z * belowW.at(-1) - rest) / belowW[zeros] : 1;
  const k = f.slice(1).findIndex((y) => y <= wanted);
  if (k < 0) return top;
  const span = f[k] - f[k + 1];
  const share = span > 0 ? (f[k] - wanted) / span : 0;
  return Math.min(d[k] + Math.min(Math.max(share, 0), 1) * (d[k + 1] - d[k]), top);
}

function between(p, z) {
  const { belowW, rates, highSegment, windows, known } = p;
  const total = belowW.at(-1);
  const lower = [...p.lower], upper = [...p.upper];
  let spentLow = expenditure(p, 0, lower);
  if (z * total >= spentLow) return { price: 0 };
  let last = windows.length - 1;
  while (last > 0 && rates[highSegment[last - 1]] === 0) last -= 1;
  if (belowW[known] === 0) last = 0;
  let spentHigh = expenditure(p, last, upper);
  const target = Math.max(z * total, spentHigh);
  let before = 0, after = last, priceLow = SMALLEST_PRICE, price = LARGEST_PRICE;
  const counts = Array(lower.length).fill(0);
  for (;;) {
    let moved = 0;
    for (let k = 0; k < lower.length; k++) {
      if (lower[k] < upper[k]) moved += p.ratio[lower[k]] === p.ratio[upper[k] - 1] ? 1 : 2;
    }
    if ((moved <= 1 && before === after) || (moved === 0 && after - before <= 1)) break;
    const middle = price / priceLow > 4 ? Math.sqrt(priceLow) * Math.sqrt(price) : 0.5 * (priceLow + price);
    if (middle <= priceLow || middle >= price) break;
    for (let k = 0; k < counts.length; k++) counts[k] = crossing(p.ratio, middle * rates[k], lower[k], upper[k]);
    const here = Math.min(Math.max(bestWindow(p, middle, counts), before), after);
    const spent = expenditure(p, here, counts);
    if (spent > target) [priceLow, before, spentLow] = [middle, here, spent];
    else [price, after, spentHigh] = [middle, here, spent];
    const nearer = spent > target ? lower : upper;
    counts.forEach((count, k) => (nearer[k] = count));
  }
  const share = spentLow > spentHigh ? (spentLow - target) / (spentLow - spentHigh) : 1;
  return { before, after, share: Math.min(Math.max(share, 0), 1), price, lower, upper };
}

function crossing(ratio, limit, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ratio[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function bestWindow({ belowW, belowM, rates, lowSegment, highSegment }, price, counts) {
  const totalW = belowW.at(-1), totalM = belowM.at(-1);
  let first = 0, last = lowSegment.length - 1;
  while (first < last) {
    const middle = (first + last) >> 1;
    let k = lowSegment[middle], q = counts[k];
    const heldUp = totalM - belowM[q] - price * rates[k] * (totalW - belowW[q]);
    k = highSegment[middle];
    q = counts[k];
    const heldDown = price * rates[k] * belowW[q] - belowM[q];
    if (heldUp >= heldDown) last = middle;
    else first = middle + 1;
  }
  return first;
}

function expenditure({ d, f, windows, fairness, lowSegment, highSegment, rates, belowW }, window, counts) {
  const t = windows[window], top = Math.min(d.at(-1), t + fairness);
  const low = lowSegment[window], high = highSegment[window];
  const share = (t - d[low]) / (d[low + 1] - d[low]);
  let total = belowW.at(-1) * (f[low] + share * (f[low + 1] - f[low]));
  for (let k = low; k <= high; k++) {
    const start = Math.max(d[k], t), end = Math.min(d[k + 1], top);
    if (end > start) total -= (end - start) * rates[k] * belowW[counts[k]];
  }
  return total;
}
