import { reportConnection } from "./connection";
import { probe } from "./probe";

/** Callbacks of a stream: one per event name, and one for the connection state. */
export interface StreamHandlers {
  events: Record<string, (data: unknown) => void>;
  onState?: (state: "connecting" | "live" | "lost") => void;
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;

/**
 * Opens a stream of server-sent events; after a break, reconnects and resumes from the last event seen.
 * Returns the function that closes the stream.
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
      // An EventSource error has no reason: server unreachable, request refused or session ended.
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
