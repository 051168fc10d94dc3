import createClient, { createQuerySerializer, type Middleware } from "openapi-fetch";
import { reportConnection, reportSession } from "./connection";
import type { paths } from "./schema";
import type { Diff, K8sObject, Problem } from "./types";

/** A non-2xx response of the API, or no response (status 0). */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Partial<Problem>) {
    const whole = { type: "about:blank", title: "", status: 0, reason: "", detail: "", causes: [], requestId: "", ...problem };
    super(whole.detail || whole.title);
    this.name = "ProblemError";
    this.problem = whole;
  }

  get status(): number {
    return this.problem.status;
  }
}

/** Identifies an instance; `namespace` is undefined for cluster-scoped kinds. */
export interface InstanceKey {
  kind: string;
  namespace: string | undefined;
  name: string;
}

/** Path template of a kind's instances; the `path` parameters fill it in. */
export const INSTANCES = "/v1/kinds/{kind}/namespaces/{namespace}/instances";
/** Path template of one instance. */
export const INSTANCE = `${INSTANCES}/{name}` as const;

/** Path parameters of `INSTANCES`, for one namespace or all namespaces. */
export function instancesAt(kind: string, namespace?: string): { kind: string; namespace: string } {
  return { kind, namespace: namespace ?? "" };
}

/** Path parameters of `INSTANCE`. */
export function instanceAt(key: InstanceKey): { kind: string; namespace: string; name: string } {
  return { ...instancesAt(key.kind, key.namespace), name: key.name };
}

/** Expands a path template. An empty namespace gives the path of a cluster-scoped kind, or of all namespaces. */
function fill(template: string, values: Record<string, unknown>): string {
  const path = values["namespace"] === "" ? template.replace("/namespaces/{namespace}", "") : template;
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
}

let csrfToken: string | undefined;

/** Stores the CSRF token from `/v1/me`, sent with every request except GET. */
export function setCsrfToken(token: string | undefined): void {
  csrfToken = token;
}

const middleware: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken) request.headers.set("X-CSRF-Token", csrfToken);
  },
  async onResponse({ response }) {
    reportConnection("ok");
    if (response.ok) return;
    const problem = await readProblem(response);
    if (response.status === 401) reportSession("ended");
    throw new ProblemError(problem);
  },
  onError({ error }) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    reportConnection("lost");
    return new ProblemError({ title: "No connection", reason: "Offline", detail: "The server is unreachable. Check the connection and try again." });
  },
};

/** Client of the REST API. Calls throw `ProblemError` unless they succeed. */
export const api = createClient<paths, "application/json">({ credentials: "same-origin", headers: { Accept: "application/json" }, pathSerializer: fill });
api.use(middleware);

const serializeQuery = createQuerySerializer();

/** Returns the URL of an event stream. */
export function address(path: keyof paths, values: Record<string, string>, query: Record<string, string | number | boolean | undefined>): string {
  const search = serializeQuery(query);
  return search ? `${fill(path, values)}?${search}` : fill(path, values);
}

/** Returns the body of a response. */
export async function body<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/** Returns the object written by a request. */
export async function written(answer: Promise<{ data?: K8sObject | Diff }>): Promise<K8sObject> {
  return (await body(answer)) as K8sObject;
}

/** Returns the changes that a write with `dryRun` would make. */
export async function preview(answer: Promise<{ data?: K8sObject | Diff }>): Promise<Diff> {
  return (await body(answer)) as Diff;
}

/** Headers of a write: `If-Match` with the version the user has seen, `Idempotency-Key` to apply it once. */
export function writeHeaders(version?: string, key?: string): { "If-Match"?: string; "Idempotency-Key"?: string } {
  return { ...(version ? { "If-Match": `"${version}"` } : {}), ...(key ? { "Idempotency-Key": key } : {}) };
}

async function readProblem(response: Response): Promise<Partial<Problem>> {
  const fallback = { title: response.statusText || `HTTP ${response.status}`, status: response.status };
  try {
    return { ...fallback, ...((await response.json()) as Partial<Problem>) };
  } catch {
    return fallback;
  }
}
