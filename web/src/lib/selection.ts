/**
 * What is selected in a list, as a value: each operation answers a new one. Items are named by their ids, so sorting and
 * filtering keep a selection; `order` is what is shown, top to bottom.
 */

export interface Selection {
  readonly ids: ReadonlySet<string>;
  /** Where a range begins. */
  readonly anchor: string | null;
  /** Where the keyboard is. */
  readonly active: string | null;
}

export const NOTHING: Selection = { ids: new Set(), anchor: null, active: null };

/** A plain click: this one and no other. */
export function only(id: string): Selection {
  return { ids: new Set([id]), anchor: id, active: id };
}

/** Moves the keyboard without selecting. */
export function activate(selection: Selection, id: string | null): Selection {
  return { ...selection, active: id };
}

/** Ctrl and click, or a tick: in or out. */
export function toggle(selection: Selection, id: string): Selection {
  const ids = new Set(selection.ids);
  if (!ids.delete(id)) ids.add(id);
  return { ids, anchor: id, active: id };
}

/** Shift and click: from the anchor to here; `add` keeps what was selected. */
export function extend(selection: Selection, id: string, order: readonly string[], add = false): Selection {
  const from = selection.anchor === null ? -1 : order.indexOf(selection.anchor);
  const to = order.indexOf(id);
  if (to < 0) return selection;
  if (from < 0) return only(id);
  const range = order.slice(Math.min(from, to), Math.max(from, to) + 1);
  return { ids: new Set(add ? [...selection.ids, ...range] : range), anchor: selection.anchor, active: id };
}

export function all(selection: Selection, order: readonly string[]): Selection {
  return { ...selection, ids: new Set(order) };
}

export function clear(selection: Selection): Selection {
  return { ids: new Set(), anchor: null, active: selection.active };
}

/** Forgets what is no longer there; the keyboard goes to what took the place of what it was on. */
export function keep(selection: Selection, exists: (id: string) => boolean, fallback: string | null = null): Selection {
  const ids = new Set([...selection.ids].filter(exists));
  const stay = (id: string | null) => (id !== null && exists(id) ? id : null);
  return { ids, anchor: stay(selection.anchor), active: stay(selection.active) ?? fallback };
}

/** The item `by` places further, staying within the list. */
export function step(selection: Selection, order: readonly string[], by: number): string | null {
  if (order.length === 0) return null;
  const at = selection.active === null ? -1 : order.indexOf(selection.active);
  const next = at < 0 ? (by > 0 ? 0 : order.length - 1) : Math.min(order.length - 1, Math.max(0, at + by));
  return order[next] ?? null;
}
