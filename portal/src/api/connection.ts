import { useSyncExternalStore } from "react";

/** What the whole page needs to know about the server: whether it answers, and whether it knows the user. */
export interface Connection {
  server: "ok" | "lost";
  session: "open" | "ended";
}

let state: Connection = { server: "ok", session: "open" };
const listeners = new Set<() => void>();

function update(next: Partial<Connection>): void {
  const merged = { ...state, ...next };
  if (merged.server === state.server && merged.session === state.session) return;
  state = merged;
  for (const listener of listeners) listener();
}

/** Notes whether the last request or stream reached the server. */
export function reportConnection(server: Connection["server"]): void {
  update({ server });
}

/** Notes that the server no longer knows the session, or knows it again. */
export function reportSession(session: Connection["session"]): void {
  update({ session });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The state of connection and session, kept current. */
export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => state);
}
