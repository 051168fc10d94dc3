import { call } from "./client";
import { isServerLost, onConnectionChange } from "./connection";

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 15_000;

let running: Promise<void> | undefined;

/** Asks the server for a small answer, so that the page knows whether it answers and knows the session. */
export function probe(): Promise<void> {
  running ??= call("/v1/me")
    .then(
      () => undefined,
      () => undefined,
    )
    .finally(() => {
      running = undefined;
    });
  return running;
}

/** Asks again while the server does not answer, and calls `onBack` when it does. */
export function watchConnection(onBack: () => void): void {
  let timer: number | undefined;
  let delay = FIRST_DELAY_MS;
  const again = (): void => {
    timer = window.setTimeout(() => {
      void probe().then(() => {
        if (isServerLost()) again();
      });
    }, delay);
    delay = Math.min(delay * 2, LONGEST_DELAY_MS);
  };
  onConnectionChange(() => {
    window.clearTimeout(timer);
    delay = FIRST_DELAY_MS;
    if (isServerLost()) again();
    else onBack();
  });
  // A server on this machine answers without a network: the browser's word alone decides nothing.
  for (const event of ["online", "offline"]) window.addEventListener(event, () => void probe());
}
