import { api } from "./client";
import { isServerLost, onConnectionChange } from "./connection";

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 15_000;

let running: Promise<void> | undefined;

/** Asks the server for a small answer, so that the page knows whether it answers and knows the session. */
export function probe(): Promise<void> {
  running ??= api.GET("/v1/me")
    .then(
      () => undefined,
      () => undefined,
    )
    .finally(() => {
      running = undefined;
    });
  return running;
}

/** Asks again while the server does not answer or the browser is offline, and calls `onBack` when it answers again. */
export function watchConnection(onBack: () => void): void {
  let timer: number | undefined;
  let delay = FIRST_DELAY_MS;
  // An answer that was under way when the network went says nothing of now: one that is offline keeps asking. A server on
  // this machine answers without a network, so that the browser's word alone decides nothing.
  const schedule = (): void => {
    window.clearTimeout(timer);
    if (!isServerLost() && navigator.onLine) return;
    timer = window.setTimeout(() => void probe().then(schedule), delay);
    delay = Math.min(delay * 2, LONGEST_DELAY_MS);
  };
  onConnectionChange(() => {
    delay = FIRST_DELAY_MS;
    schedule();
    if (!isServerLost()) onBack();
  });
  for (const event of ["online", "offline"]) window.addEventListener(event, () => void probe().then(schedule));
}
