import { reportSession, reportConnection } from "./connection";
import type { Problem } from "./types";

/** An answer of the API that is not a success, or none at all (status 0). */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail || problem.title);
    this.name = "ProblemError";
    this.problem = problem;
  }

  get status(): number {
    return this.problem.status;
  }
}

/** The parts of a request that callers choose. */
export interface RequestOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  contentType?: string;
  accept?: string;
  ifMatch?: string;
  idempotencyKey?: string;
  signal?: AbortSignal;
}

let csrfToken: string | undefined;

/** Keeps the token that `/v1/me` gives; every request but GET carries it. */
export function setCsrfToken(token: string | undefined): void {
  csrfToken = token;
}

/** The address of an API path with its query; undefined and empty values are left out. */
export function address(path: string, query: RequestOptions["query"] = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** Sends a request and returns the JSON body; throws `ProblemError` for everything that is not a success. */
export async function call<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(path, options);
  if (response.status === 204) return undefined as T;
  const type = response.headers.get("content-type") ?? "";
  return (type.includes("json") ? await response.json() : await response.text()) as T;
}

async function send(path: string, options: RequestOptions): Promise<Response> {
  const method = options.method ?? "GET";
  const headers = new Headers({ Accept: options.accept ?? "application/json" });
  if (method !== "GET" && csrfToken) headers.set("X-CSRF-Token", csrfToken);
  if (options.ifMatch) headers.set("If-Match", `"${options.ifMatch}"`);
  if (options.idempotencyKey) headers.set("Idempotency-Key", options.idempotencyKey);
  let body: string | undefined;
  if (options.body !== undefined) {
    headers.set("Content-Type", options.contentType ?? "application/json");
    body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query), {
      method,
      headers,
      body,
      signal: options.signal ?? null,
      credentials: "same-origin",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reportConnection("lost");
    throw new ProblemError({
      title: "No connection",
      status: 0,
      reason: "Offline",
      detail: "The server does not answer. Nothing was changed.",
    });
  }
  reportConnection("ok");
  if (response.ok) return response;
  const problem = await readProblem(response);
  if (response.status === 401) reportSession("ended");
  throw new ProblemError(problem);
}

async function readProblem(response: Response): Promise<Problem> {
  const fallback: Problem = {
    title: response.statusText || `HTTP ${response.status}`,
    status: response.status,
    reason: "",
    detail: "",
  };
  try {
    return { ...fallback, ...((await response.json()) as Partial<Problem>) };
  } catch {
    return fallback;
  }
}
