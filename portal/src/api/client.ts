import createClient, { createQuerySerializer, type Middleware } from "openapi-fetch";
import { reportConnection, reportSession } from "./connection";
import type { paths } from "./schema";
import type { Diff, K8sObject, Problem } from "./types";

/** An answer of the API that is not a success, or none at all (status 0). */
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

/** One instance's place: the namespace is undefined for cluster-scoped kinds. */
export interface InstanceKey {
  kind: string;
  namespace: string | undefined;
  name: string;
}

/** The address of a kind's instances; `path` fills it in. */
export const INSTANCES = "/v1/kinds/{kind}/namespaces/{namespace}/instances";
/** The address of one instance. */
export const INSTANCE = `${INSTANCES}/{name}` as const;

/** The parameters of `INSTANCES`, of one namespace or of all. */
export function instancesAt(kind: string, namespace?: string): { kind: string; namespace: string } {
  return { kind, namespace: namespace ?? "" };
}

/** The parameters of `INSTANCE`. */
export function instanceAt(key: InstanceKey): { kind: string; namespace: string; name: string } {
  return { ...instancesAt(key.kind, key.namespace), name: key.name };
}

/** Fills in an address. Without a namespace it is that of a cluster-scoped kind, or of all namespaces. */
function fill(template: string, values: Record<string, unknown>): string {
  const path = values["namespace"] === "" ? template.replace("/namespaces/{namespace}", "") : template;
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
}

let csrfToken: string | undefined;

/** Keeps the token that `/v1/me` gives; every request but GET carries it. */
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
    return new ProblemError({ title: "No connection", reason: "Offline", detail: "The server does not answer. Nothing was changed." });
  },
};

/** The REST API. Its calls throw `ProblemError` for everything that is not a success. */
export const api = createClient<paths, "application/json">({ credentials: "same-origin", headers: { Accept: "application/json" }, pathSerializer: fill });
api.use(middleware);

const serializeQuery = createQuerySerializer();

/** The address of an event stream. */
export function address(path: keyof paths, values: Record<string, string>, query: Record<string, string | number | boolean | undefined>): string {
  const search = serializeQuery(query);
  return search ? `${fill(path, values)}?${search}` : fill(path, values);
}

/** The body of an answer. */
export async function body<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/** The object that was written. */
export async function written(answer: Promise<{ data?: K8sObject | Diff }>): Promise<K8sObject> {
  return (await body(answer)) as K8sObject;
}

/** What a write with `dryRun` would change. */
export async function preview(answer: Promise<{ data?: K8sObject | Diff }>): Promise<Diff> {
  return (await body(answer)) as Diff;
}

/** The headers of a write: for the version that the user has seen, and made once. */
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
