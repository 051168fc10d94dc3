import { reportConnection } from "./connection";
import { probe } from "./probe";

/** What a stream tells: frames by the name of their event, and whether it is live. */
export interface StreamHandlers {
  events: Record<string, (data: unknown) => void>;
  onState?: (state: "connecting" | "live" | "lost") => void;
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;

/**
 * Opens server-sent events and keeps them open: after a break it resumes from the last event seen.
 * Returns the function that closes it.
 */
export function openStream(address: (lastEventId: string | undefined) => string, handlers: StreamHandlers): () => void {
  let source: EventSource | undefined;
  let timer: number | undefined;
  let delay = FIRST_DELAY_MS;
  let lastEventId = "";
  let closed = false;

  const connect = (): void => {
    handlers.onState?.("connecting");
    source = new EventSource(address(lastEventId || undefined));
    source.onopen = () => {
      delay = FIRST_DELAY_MS;
      reportConnection("ok");
      handlers.onState?.("live");
    };
    for (const [name, handle] of Object.entries(handlers.events)) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        if (event.lastEventId) lastEventId = event.lastEventId;
        handle(JSON.parse(event.data));
      });
    }
    source.onerror = () => {
      source?.close();
      if (closed) return;
      handlers.onState?.("lost");
      // An error of a stream has no reason: gone, refused or a session that ended.
      void probe();
      timer = window.setTimeout(connect, delay);
      delay = Math.min(delay * 2, LONGEST_DELAY_MS);
    };
  };

  connect();
  return () => {
    closed = true;
    window.clearTimeout(timer);
    source?.close();
  };
}
