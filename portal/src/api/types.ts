// The bodies of the REST API, as docs/rest.md describes them.

/** Any JSON value, as objects of the cluster carry it. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json | undefined };

/** A JSON object. */
export type JsonObject = { [key: string]: Json | undefined };

/** Health as the gateway derives it from an object. */
export type HealthStatus = "ready" | "progressing" | "failing" | "paused" | "unknown";

export interface Health {
  status: HealthStatus;
  reason: string;
  message: string;
  since: string | null;
}

export interface Ref {
  kind: string | null;
  apiVersion?: string;
  kindName: string;
  namespace?: string | null;
  name: string;
  uid?: string;
}

export interface Me {
  username: string;
  groups: string[];
  via: "session" | "bearer";
  csrfToken?: string;
  expiresAt?: string;
  cluster: { name: string; version: string };
}

export interface Column {
  name: string;
  type: string;
  format: string;
  jsonPath: string;
  priority: number;
  description: string;
}

export interface Action {
  name: string;
  title: string;
  description: string;
  input: JsonObject | null;
  value: string | null;
  confirm: string | null;
}

export interface Kind {
  name: string;
  group: string;
  version: string;
  versions: string[];
  kind: string;
  plural: string;
  singular: string;
  namespaced: boolean;
  custom: boolean;
  description: string;
  columns: Column[];
  actions: Action[];
  schema?: JsonObject;
  sample?: K8sObject | null;
}

export interface KindSummary {
  name: string;
  kind: string;
  total: number | null;
  health: Record<HealthStatus, number>;
  denied: string | null;
}

export interface Change {
  path: string;
  op: "add" | "remove" | "replace";
  before?: Json;
  after?: Json;
}

export interface AuditEntry {
  id: number;
  at: string;
  user: string;
  action: string;
  ref: Ref | null;
  status: number;
  reason: string;
  changes?: Change[];
}

export interface Overview {
  kinds: KindSummary[];
  failing: { ref: Ref; health: Health }[];
  changes: AuditEntry[];
}

export interface Allowed {
  allowed: boolean;
  reason: string;
}

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "history" | "logs";

export type Access = Partial<Record<Verb, Allowed>> & { actions?: Record<string, Allowed> };

export interface Metadata {
  [key: string]: Json | undefined;
  name?: string;
  namespace?: string;
  resourceVersion?: string;
  uid?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

export type K8sObject = JsonObject & { apiVersion?: string; kind?: string; metadata: Metadata };

export interface Item {
  object: K8sObject;
  health: Health;
  cells: Json[];
}

export interface InstanceList {
  items: Item[];
  continue: string | null;
  remaining: number | null;
  resourceVersion: string;
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface StatusView {
  health: Health;
  generation: number | null;
  observedGeneration: number | null;
  conditions: Condition[];
  status?: Json;
}

export interface ClusterEvent {
  type: string;
  reason: string;
  message: string;
  count: number;
  firstSeen: string | null;
  lastSeen: string | null;
  source: string;
  ref: Ref;
}

export interface TreeNode {
  ref: Ref;
  health: Health;
  summary: string;
  createdAt: string | null;
  children: TreeNode[];
}

export interface Tree {
  root: TreeNode;
  denied: string[];
}

export interface Revision {
  revision: number;
  name: string;
  at: string;
  by: string;
  current: boolean;
  changes: Change[];
}

export interface Comparison {
  from: number;
  to: number | null;
  changes: Change[];
  yaml: string;
}

export interface Diff {
  dryRun: true;
  object: K8sObject | null;
  changes: Change[];
  yaml: string;
  follow?: Ref[];
}

export interface Problem {
  title: string;
  status: number;
  reason: string;
  detail: string;
  causes?: { field: string; reason: string; message: string }[];
  requestId?: string;
  current?: K8sObject;
}

export interface OperatorView {
  operators: {
    name: string;
    kinds: string[];
    leader: boolean | null;
    queue: { depth: number } | null;
    reconciles: { success: number; error: number; perMinute: number | null } | null;
    latency: { p50: number; p99: number } | null;
    startedAt: string | null;
    /** Why its metrics cannot be read. */
    problem: string | null;
  }[];
  log: { at: string; level: string; message: string; fields?: Record<string, Json> }[];
}
