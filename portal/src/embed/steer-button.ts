/**
 * `<steer-button>`: one action on one custom resource, for any web page.
 *
 *     <script type="module" src="https://steer.example.com/embed/steer-button.js"></script>
 *     <steer-button kind="minimarts.charts.samutup.com" namespace="team-a" name="shop" action="scale"
 *       value="3">Open a third till</steer-button>
 *
 * Shows the live health of the instance, previews the changes of the action and asks for confirmation, then acts with the
 * visitor's own login. `server` overrides the server that the script is loaded from; the property `token` is a bearer token
 * that replaces the session cookie.
 */

type Health = "ready" | "progressing" | "failing" | "paused" | "unknown";

interface Item {
  object: { metadata: { resourceVersion?: string; generation?: number } };
  health: { status: Health; message: string; reason: string };
}

interface Change {
  path: string;
  op: string;
  before?: unknown;
  after?: unknown;
}

const WORDS: Record<Health, string> = { ready: "Ready", progressing: "Progressing", failing: "Failing", paused: "Paused", unknown: "Unknown" };
const SIGNS: Record<Health, string> = { ready: "●", progressing: "◌", failing: "▲", paused: "‖", unknown: "○" };
const RECONNECT_MS = 3_000;

const STYLE = `
:host { display: inline-block; position: relative; font: 14px/20px system-ui, sans-serif; color-scheme: light dark }
button { font: inherit; font-weight: 600; height: 32px; padding: 0 12px; border-radius: 6px; border: 1px solid light-dark(#c6ccd6, #3d4450); background: light-dark(#fff, #171a20); color: light-dark(#171a21, #e9ebf0); cursor: pointer }
button:hover { background: light-dark(#f1f3f6, #1e222a) }
button:disabled { color: light-dark(#666e7c, #929aa8); cursor: not-allowed }
button:focus-visible { outline: 2px solid #3d4fd0; outline-offset: 2px }
.go { background: #3d4fd0; border-color: #3d4fd0; color: #fff }
.go:hover { background: #3040b4 }
.state { margin-left: 8px; font-size: 12px; white-space: nowrap }
.ready { color: light-dark(#157347, #5ccb8f) } .progressing { color: light-dark(#8a5a00, #e3b24a) } .failing { color: light-dark(#b9261b, #ff8a7e) }
.paused { color: light-dark(#5e5a86, #b3aee0) } .unknown { color: light-dark(#5d6573, #a0a8b6) }
dialog { width: min(420px, calc(100vw - 32px)); padding: 16px; border: 1px solid light-dark(#e2e5eb, #272c35); border-radius: 10px; background: light-dark(#fff, #171a20); color: light-dark(#171a21, #e9ebf0) }
h2 { margin: 0 0 8px; font-size: 15px }
code { font: 12px/18px ui-monospace, monospace; overflow-wrap: anywhere }
ul { margin: 0 0 12px; padding: 0; list-style: none }
p { margin: 0 0 12px }
.row { display: flex; justify-content: flex-end; gap: 8px }
`;

class SteerButton extends HTMLElement {
  static observedAttributes = ["kind", "namespace", "name", "action", "value", "server"];

  /** A bearer token; without it the visitor's session cookie is used. */
  token: string | undefined;

  private item: Item | undefined;
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly button = make("button");
  private readonly state = make("span");
  private readonly dialog = make("dialog");

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    const slot = make("slot");
    slot.textContent = "Run";
    this.button.append(slot);
    this.button.type = "button";
    this.button.addEventListener("click", () => void this.ask());
    this.state.className = "state unknown";
    this.state.setAttribute("role", "status");
    root.append(this.button, this.state, this.dialog);
  }

  connectedCallback(): void {
    this.watch();
  }

  disconnectedCallback(): void {
    this.stop();
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.watch();
  }

  private get server(): string {
    return (this.getAttribute("server") ?? new URL(import.meta.url).origin).replace(/\/$/, "");
  }

  private get path(): string {
    const part = (name: string): string => encodeURIComponent(this.getAttribute(name) ?? "");
    const namespace = this.getAttribute("namespace") ? `/namespaces/${part("namespace")}` : "";
    return `${this.server}/v1/kinds/${part("kind")}${namespace}/instances/${part("name")}`;
  }

  private stop(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }

  private watch(): void {
    this.stop();
    const source = new EventSource(this.path, { withCredentials: true });
    this.source = source;
    source.addEventListener("change", (event: MessageEvent<string>) => {
      const change = JSON.parse(event.data) as { type: string; item: Item };
      this.item = change.type === "DELETED" ? undefined : change.item;
      this.show(this.item?.health.status ?? "unknown", this.item ? undefined : "Deleted");
    });
    source.onerror = () => {
      source.close();
      this.show("unknown", "Not connected");
      this.timer = setTimeout(() => {
        this.watch();
      }, RECONNECT_MS);
    };
  }

  private show(health: Health, word?: string): void {
    this.state.className = `state ${health}`;
    this.state.textContent = `${SIGNS[health]} ${word ?? WORDS[health]}`;
    this.state.title = this.item?.health.message ?? "";
  }

  private async send(dryRun: boolean): Promise<{ changes?: Change[] }> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    else {
      const me = await fetch(`${this.server}/v1/me`, { credentials: "include" });
      if (me.status === 401) throw new Error(`Sign in at ${this.server} first.`);
      headers["X-CSRF-Token"] = ((await me.json()) as { csrfToken?: string }).csrfToken ?? "";
    }
    const action = encodeURIComponent(this.getAttribute("action") ?? "");
    const response = await fetch(`${this.path}/actions/${action}${dryRun ? "?dryRun=true" : ""}`, {
      method: "POST",
      credentials: this.token ? "omit" : "include",
      headers,
      body: JSON.stringify(this.value === undefined ? {} : { value: this.value }),
    });
    const body = (await response.json()) as { detail?: string; title?: string; changes?: Change[] };
    if (!response.ok) throw new Error(body.detail ?? body.title ?? `HTTP ${response.status}`);
    return body;
  }

  private get value(): unknown {
    const text = this.getAttribute("value");
    if (text === null) return undefined;
    try {
      return JSON.parse(text) as unknown;
    } catch {
      return text;
    }
  }

  private async ask(): Promise<void> {
    this.button.disabled = true;
    try {
      const { changes = [] } = await this.send(true);
      this.confirm(changes);
    } catch (error) {
      this.tell(error);
    } finally {
      this.button.disabled = false;
    }
  }

  private confirm(changes: Change[]): void {
    const list = make("ul");
    for (const change of changes) {
      const line = make("li");
      const text = make("code");
      text.textContent = `${change.path}: ${change.op === "add" ? "" : `${JSON.stringify(change.before)} → `}${change.op === "remove" ? "removed" : JSON.stringify(change.after)}`;
      line.append(text);
      list.append(line);
    }
    if (changes.length === 0) list.append("No changes.");
    this.open(list, [
      ["Cancel", "", () => undefined],
      ["Continue", "go", () => this.send(false)],
    ]);
  }

  private tell(error: unknown): void {
    const text = make("p");
    text.textContent = error instanceof Error ? error.message : String(error);
    this.open(text, [["Close", "", () => undefined]]);
  }

  private open(content: HTMLElement, buttons: [string, string, () => unknown][]): void {
    const title = make("h2");
    title.textContent = `${this.getAttribute("action") ?? ""} ${this.getAttribute("name") ?? ""}`;
    const row = make("div");
    row.className = "row";
    for (const [label, kind, run] of buttons) {
      const button = make("button");
      button.textContent = label;
      button.className = kind;
      button.addEventListener("click", () => {
        this.dialog.close();
        Promise.resolve(run()).catch((error: unknown) => {
          this.tell(error);
        });
      });
      row.append(button);
    }
    this.dialog.replaceChildren(title, content, row);
    this.dialog.setAttribute("aria-label", title.textContent);
    if (!this.dialog.open) this.dialog.showModal();
  }
}

function make<K extends keyof HTMLElementTagNameMap>(name: K): HTMLElementTagNameMap[K] {
  return document.createElement(name);
}

if (!customElements.get("steer-button")) customElements.define("steer-button", SteerButton);
