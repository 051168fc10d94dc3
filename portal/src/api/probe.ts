import { api } from "./client";
import { isServerLost, onConnectionChange } from "./connection";

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 15_000;

let running: Promise<void> | undefined;

/** Sends a small request to learn whether the server responds and the session is valid. */
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

/** Probes while the server does not respond or the browser is offline, and calls `onBack` when it responds again. */
export function watchConnection(onBack: () => void): void {
  let timer: number | undefined;
  let delay = FIRST_DELAY_MS;
  // A response in flight when the network dropped does not prove that the server is still reachable, so an offline browser
  // keeps probing. `navigator.onLine` alone is not conclusive: a server on this machine responds without a network.
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
