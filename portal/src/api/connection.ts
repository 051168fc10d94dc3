import { useSyncExternalStore } from "react";

/** Server state shared by the whole page: whether the server responds, and whether the session is valid. */
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

/** Records whether the last request or stream reached the server. */
export function reportConnection(server: Connection["server"]): void {
  update({ server });
}

/** Records that the session has ended, or is valid again. */
export function reportSession(session: Connection["session"]): void {
  update({ session });
}

/** Returns whether the last request failed to reach the server. */
export function isServerLost(): boolean {
  return state.server === "lost";
}

/** Calls `listener` when the server stops responding, and when it responds again. */
export function onConnectionChange(listener: () => void): void {
  serverListeners.add(listener);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Subscribes to the connection and session state. */
export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => state);
}
