/** Numbers as Python's NumPy has them, and items as columns of numbers. */

const BLOCK = 128;

/** Return a sum in NumPy's order of additions: pairs of blocks, and eight sums within a block. */
export function pairwiseSum(values, begin = 0, count = values.length - begin) {
  if (count < 8) {
    let sum = 0;
    for (let k = 0; k < count; k++) sum += values[begin + k];
    return sum;
  }
  if (count > BLOCK) {
    let half = count >> 1;
    half -= half % 8;
    return pairwiseSum(values, begin, half) + pairwiseSum(values, begin + half, count - half);
  }
  const sums = Array.from({ length: 8 }, (_, k) => values[begin + k]);
  let k = 8;
  for (; k < count - (count % 8); k += 8) {
    for (let lane = 0; lane < 8; lane++) sums[lane] += values[begin + k + lane];
  }
  const [a, b, c, d, e, f, g, h] = sums;
  let sum = a + b + (c + d) + (e + f + (g + h));
  for (; k < count; k++) sum += values[begin + k];
  return sum;
}

/** Return a load if it is in [0, 1]. */
export function fraction(name, value) {
  if (typeof value === "number" && value >= 0 && value <= 1) return value;
  throw new RangeError(`${name} must lie in [0, 1], got ${value}; pass a fraction, not a percentage`);
}

/** Return a value as a number, times in seconds since 1970 UTC; NaN where it is none. */
export function numberOf(value) {
  if (typeof value === "number") return value;
  if (typeof value === "boolean" || typeof value === "bigint") return Number(value);
  if (value instanceof Date) return value.getTime() / 1000;
  return NaN;
}

/** Return the named columns as arrays of numbers; typed arrays are taken as they are. */
export function columnsOf(columns, names, read) {
  const taken = names.map((name, k) => {
    const column = columns[name];
    if (column === undefined) throw new RangeError(`columns must hold ${names.join(", ")}, got no ${name}`);
    if (column instanceof Float64Array) return column;
    return Float64Array.from(column, (value) => read(k, value));
  });
  if (taken.some((column) => column.length !== taken[0].length)) {
    throw new RangeError("columns must have one length");
  }
  return taken;
}

/** Compare numbers; NaN comes last. */
export function compared(a, b) {
  if (a < b || (a === a && b !== b)) return -1;
  return a > b || (a !== a && b === b) ? 1 : 0;
}

/** Return y at x on the line through points, as NumPy's `interp` does; beyond them, their ends. */
export function interpolated(x, xs, ys) {
  const last = xs.length - 1;
  if (x <= xs[0]) return ys[0];
  if (x >= xs[last]) return ys[last];
  let low = 0, high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x >= xs[middle]) low = middle;
    else high = middle;
  }
  if (x === xs[low]) return ys[low];
  return ((ys[low + 1] - ys[low]) / (xs[low + 1] - xs[low])) * (x - xs[low]) + ys[low];
}
