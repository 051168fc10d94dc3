import { useSyncExternalStore } from "react";
import { age } from "../lib/text";

const TICK_MS = 1_000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: number | undefined;

// One clock shared by all ages on a page, stopped while none is shown.
function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    window.clearInterval(timer);
    timer = undefined;
  };
}

/** Time elapsed since `at`, updated live. */
export function Age({ at, suffix = "" }: { at: string | null | undefined; suffix?: string }) {
  const text = useSyncExternalStore(subscribe, () => age(at, now));
  if (!at) return null;
  return (
    <time className="tabular" dateTime={at} title={new Date(at).toLocaleString()}>
      {text}
      {suffix}
    </time>
  );
}
