import { useSyncExternalStore } from "react";

/** What the whole page needs to know about the server: whether it answers, and whether it knows the user. */
export interface Connection {
  server: "ok" | "lost";
  session: "open" | "ended";
}

let state: Connection = { server: "ok", session: "open" };
const listeners = new Set<() => void>();
const serverListeners = new Set<() => void>();

function update(next: Partial<Connection>): void {
  const merged = { ...state, ...next };
  if (merged.server === state.server && merged.session === state.session) return;
  const serverChanged = merged.server !== state.server;
  state = merged;
  for (const listener of listeners) listener();
  if (serverChanged) for (const listener of serverListeners) listener();
}

/** Notes whether the last request or stream reached the server. */
export function reportConnection(server: Connection["server"]): void {
  update({ server });
}

/** Notes that the server no longer knows the session, or knows it again. */
export function reportSession(session: Connection["session"]): void {
  update({ session });
}

/** Whether the last request did not reach the server. */
export function isServerLost(): boolean {
  return state.server === "lost";
}

/** Calls `listener` when the server stops to answer, and when it answers again. */
export function onConnectionChange(listener: () => void): void {
  serverListeners.add(listener);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The state of connection and session, kept current. */
export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => state);
}
