import type { Change, HealthStatus, Json, Ref } from "../api/types";

/** Label of each health status, next to its icon and colour. */
export const HEALTH_WORDS: Record<HealthStatus, string> = {
  ready: "Ready",
  progressing: "Progressing",
  failing: "Failing",
  paused: "Paused",
  unknown: "Unknown",
};

/** Health statuses in order of urgency. */
export const HEALTH_ORDER: readonly HealthStatus[] = ["failing", "progressing", "unknown", "paused", "ready"];

/** Formats the time since `from` in its largest unit, as kubectl prints ages. */
export function age(from: string | null | undefined, now: number = Date.now()): string {
  if (!from) return "";
  const seconds = Math.max(0, Math.floor((now - Date.parse(from)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** Formats a value on one line, as a person would write it. */
export function inline(value: Json | undefined): string {
  if (value === undefined) return "not set";
  if (typeof value === "string") return value === "" ? '""' : value;
  return JSON.stringify(value);
}

/** Formats a count with its noun in singular or plural: `1 instance`, `2 instances`. */
export function count(n: number, noun: string): string {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

/** Formats an object reference as kubectl does: `Minimart/shop`. */
export function refName(ref: Ref): string {
  return `${ref.kindName}/${ref.name}`;
}

/** Formats a change in a few words: `replicaCount 2 → 3`. */
export function changeWords(change: Change): string {
  const field = change.path.replace(/^spec\./, "");
  if (change.op === "remove") return `${field} removed`;
  if (change.op === "add") return `${field} = ${short(change.after)}`;
  return `${field} ${short(change.before)} → ${short(change.after)}`;
}

function short(value: Json | undefined): string {
  const text = inline(value);
  return text.length > 32 ? `${text.slice(0, 31)}…` : text;
}

const VERBS: Record<string, { base: string; past: string }> = {
  create: { base: "create", past: "created" },
  update: { base: "update", past: "updated" },
  patch: { base: "change", past: "changed" },
  delete: { base: "delete", past: "deleted" },
  scale: { base: "scale", past: "scaled" },
  pause: { base: "pause", past: "paused" },
  resume: { base: "resume", past: "resumed" },
  rollback: { base: "roll back", past: "rolled back" },
  reconcile: { base: "reconcile", past: "requested a reconcile of" },
  restart: { base: "restart", past: "restarted" },
  reveal: { base: "reveal secrets of", past: "revealed secrets of" },
  login: { base: "sign in", past: "signed in" },
  logout: { base: "sign out", past: "signed out" },
};

/** Returns the base form of an action's verb: `scale`. */
export function baseForm(action: string): string {
  return VERBS[action]?.base ?? `run ${action} on`;
}

/** Returns the past tense of an action's verb: `scaled`. */
export function pastTense(action: string): string {
  return VERBS[action]?.past ?? `ran ${action} on`;
}
