/** Types of the JavaScript consumer of Headgate's plans. */

export type Encoding = "json" | "binary";
export type Numbers = ArrayLike<number>;
export type Columns = Record<string, ArrayLike<unknown>>;

/** What is thrown for a plan or manifest that cannot be trusted. */
export class Damaged extends Error {}

export interface Guarantee {
  name: string;
  limit: string;
  value: number;
  priority: number;
  holds_from: number;
}

export interface Manifest {
  schema_version: 1 | 2;
  family: string;
  stream: string;
  version: number;
  parent: number | null;
  created_at: string;
  payloads: Record<Encoding, { digest: string; bytes: number }>;
  validity: { not_after: string | null; fallback: "keep" | "pass" | "uniform" };
  key_id: string;
  signature: string;
  [field: string]: unknown;
}

export interface SifterSetting {
  load: number;
  /** Fraction to drop, per region. */
  thresholds: Float64Array;
  /** The same in units of 2**-32; last: of items in no region. */
  steps: Float64Array;
}

export class SifterPlan {
  readonly family: "sifter";
  readonly regions: number;
  readonly axes: { name: string; kind: string; low: number; high: number; values?: string[] }[];
  readonly traced: { loads: number[]; guarantees: Guarantee[]; error: number } | null;
  static fromDocument(document: unknown): SifterPlan;
  static fromBytes(bytes: Uint8Array): SifterPlan;
  at(load: number): SifterSetting;
  places(columns: Columns): Int32Array;
  decide(columns: Columns, draws: Numbers, setting: SifterSetting): Uint8Array;
  decideOne(item: Record<string, unknown>, draw: number, setting: SifterSetting): boolean;
}

export interface LiraSetting {
  load: number;
  /** Throttler of every level in metres, in single precision. */
  byLevel: Float64Array;
}

export class LiraPlan {
  readonly family: "lira";
  readonly frame: { bounds: number[]; side: number; low: number; high: number; segments: number };
  readonly guaranteed: { loads: number[]; guarantees: Guarantee[]; error: number } | null;
  static fromDocument(document: unknown): LiraPlan;
  static fromBytes(bytes: Uint8Array): LiraPlan;
  at(load: number): LiraSetting;
  levelAt(x: number, y: number): number;
  throttlerAt(x: number, y: number, setting: LiraSetting): number;
}

/** Remembers the last report of every object. */
export class LiraShedder {
  constructor(plan: LiraPlan, load?: number, options?: { highestSpeed?: number });
  setLoad(load: number): void;
  decide(columns: { object_id: ArrayLike<unknown>; time: Numbers; x: Numbers; y: Numbers }): Uint8Array;
  decideOne(id: unknown, time: number, x: number, y: number): boolean;
  forget(before: number): void;
}

export interface AttributesSetting {
  load: number;
  /** Bytes per window of tuples; -1: everything passes. */
  capacityBytes: number;
  tupleRate: number[];
  /** Per stream and attribute. */
  period: number[][];
  band: number[][];
  header: number[];
}

export class AttributesPlan {
  readonly family: "attributes";
  readonly attributes: string[];
  readonly window: number;
  readonly guarantees: Guarantee[];
  static fromDocument(document: unknown): AttributesPlan;
  static fromBytes(bytes: Uint8Array): AttributesPlan;
  at(load: number): AttributesSetting;
}

/** Remembers what the receiver has of every entity, and the bytes of the last window. */
export class AttributesShedder {
  constructor(plan: AttributesPlan, load?: number, options?: { maxEntities?: number });
  setLoad(load: number): void;
  /** Rows of one flag per attribute of the plan: 1 where it is sent. */
  decide(columns: Columns, draws: Numbers): Uint8Array;
}

/** What is thrown where the tables of a fit plan end, and a linear program would be needed. */
export class Unanswered extends Error {}

export interface FitSetting {
  /** Fraction to drop, per arc. */
  drops: number[];
  /** In units of 2**-32, per name of the plan; last: of unknown names. */
  steps: Float64Array;
}

export class FitPlan {
  readonly family: "fit";
  /** Arcs, then streams. */
  readonly names: string[];
  static fromDocument(document: unknown): FitPlan;
  static fromBytes(bytes: Uint8Array): FitPlan;
  /** A scalar load in [0, 1], or rates in tuples/s by input or in the inputs' order. */
  at(load: number | number[] | Record<string, number>): FitSetting;
  decide(labels: ArrayLike<string>, draws: Numbers, setting: FitSetting): Uint8Array;
}

export type Plan = SifterPlan | LiraPlan | AttributesPlan | FitPlan;

export function decode(bytes: Uint8Array, encoding: Encoding): Plan;
export function decodeJson(bytes: Uint8Array): Plan;
export function decodeBinary(bytes: Uint8Array): Plan;

export function readManifest(
  bytes: Uint8Array,
  trusted: string[],
  expected: { stream: string; version: number },
): Promise<Manifest>;
export function readPayload(bytes: Uint8Array, manifest: Manifest, encoding: Encoding): Promise<Uint8Array>;

export interface Salted {
  salt?: number | bigint | null;
}
export function keyHash(values: unknown[], options?: Salted): bigint;
export function draw(hash: bigint): number;
export function draws(columns: ArrayLike<unknown>[], options?: Salted): Uint32Array;
export function dropStep(fraction: number): number;
