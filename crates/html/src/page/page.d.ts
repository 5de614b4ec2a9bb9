// The types of the page's scripts, for the type checker alone: they are plain scripts that run one after another.

interface PageData {
  title: string;
  facts: [string, string][];
  lost: number;
  cut: number | null;
  events: PageEvent[];
  missing: [string, string][];
  threads: [number | null, string][];
  cpus: (number | null)[];
  time: PageTime | null;
  functions: { names: string; objects: string; kinds: string; hues: string; lights: string };
  nodes: { count: number; parents: string; functions: string };
  rows: { count: number; events: string; nodes: string; threads: string; cpus: string; lines: string; cells: string };
  cells: { count: number; steps: string; samples: string; weights: string };
  lines: { count: number; left: number; functions: string; files: string; numbers: string };
  sources: [string, [number, string][]][];
  strings: string[];
}
interface PageEvent { name: string; unit: string; samples: number; weight: number; unresolved: number; usual: number }
interface PageTime { start: number; end: number; step: number; steps: number }

interface Cells {
  count: number; event: Int32Array; node: Int32Array; thread: Int32Array; cpu: Int32Array; line: Int32Array; step: Int32Array;
  samples: Float64Array; weight: Float64Array;
}
interface Lines {
  count: number; functions: Float64Array; files: Float64Array; numbers: Float64Array; texts: Map<number, string>[]; paths: string[];
}
interface Model {
  data: PageData; events: PageEvent[]; time: PageTime | null; threads: [number | null, string][]; cpus: (number | null)[];
  names: string[]; objects: string[]; kinds: string; lower: string[]; hues: Float64Array; lights: Float64Array;
  of: Int32Array; parent: Int32Array; first: Int32Array; next: Int32Array;
  /** Whether no caller is the same function: sums with all that a function calls count it there only. */
  isOuter: Uint8Array;
  roots: number[]; cells: Cells; lines: Lines;
}

/** What is chosen: -1 is all threads or cpus, or no span; the last step of a span is not in it. */
interface Choice { event: number; thread: number; cpu: number; from: number; to: number; baseFrom: number; baseTo: number }

/** Sums of what is chosen, and of a second span to compare it with. */
interface View {
  model: Model; base: View | null; weight: number; count: number;
  own: Float64Array; ownSamples: Float64Array; total: Float64Array; samples: Float64Array;
  functionOwn: Float64Array; functionTotal: Float64Array; functionOwnSamples: Float64Array; functionSamples: Float64Array;
  lineWeight: Float64Array; lineSamples: Float64Array;
}

/** Nodes of the same function that are reached in the same way. */
interface Item {
  of: number; up: boolean; above: Item | null; weight: number; samples: number; base: number;
  nodes: number[]; weights: number[]; counts: number[]; bases: number[];
  below: Item[] | null; named: Item[] | null;
}
interface Box { item: Item; x: number; width: number; depth: number; isAbove: boolean }
interface Track { key: number; weight: number; samples: number; columns: Float64Array }
interface Heat { columns: number; rows: number; perColumn: number; perCell: number; weights: Float64Array; samples: Float64Array; most: number }
interface Stack { node: number; weight: number }

/** A line of a tree. */
interface TreeLine extends HTMLElement { level: number; item?: Item; act?: () => void }

interface Place { pen: CanvasRenderingContext2D; width: number; letter: number }

/** A part of the page, which draws itself of what is chosen. */
interface Part { draw(): void }

/** All that the parts of the page share. */
interface Page {
  model: Model; choice: Choice; v: View; hit: Uint8Array | null; shown: string; chosen: number; colours: string;
  ways: { [view: string]: number[] };
  byCpu: boolean; sort: { by: string; descending: boolean }; column: number; isExpression: boolean; isSecond: boolean;
  looks: Looks;
  top(which: string): Item;
  select(): void;
  choose(of: number): void;
  show(which: string): void;
  search(): void;
  remember(replaces?: boolean): void;
  span(from: number, to: number): void;
}

interface Looks {
  $(id: string): any;
  make(tag: string, className?: string, text?: string): any;
  button(text: string, title: string, act: () => void): HTMLButtonElement;
  more(place: HTMLElement, left: number, things: string, act: () => void): void;
  number(n: number): string;
  share(of: number): string;
  change(part: number, base: number): string;
  changeOf(part: number, base: number): number;
  whole(v: View): number;
  seconds(ns: number): string;
  amount(weight: number): string;
  nameOf(of: number): string;
  threadName(at: number): string;
  cpuName(at: number): string;
  time(step: number): string;
  spanText(from: number, to: number): string;
  colourOf(name: string): string;
  colourOfItem(item: Item): string;
  isDark(): boolean;
  prepare(canvas: HTMLCanvasElement, height: number): Place;
  shortened(name: string, width: number, letter: number): string;
}
