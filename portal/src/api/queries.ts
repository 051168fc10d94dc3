import { keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";
import { call, ProblemError, setCsrfToken } from "./client";
import { reportSession } from "./connection";
import type {
  Access,
  AuditEntry,
  ClusterEvent,
  Comparison,
  Diff,
  InstanceList,
  K8sObject,
  Kind,
  Me,
  OperatorView,
  Overview,
  Revision,
  StatusView,
  Tree,
} from "./types";

/** One instance's place: the namespace is undefined for cluster-scoped kinds. */
export interface InstanceKey {
  kind: string;
  namespace: string | undefined;
  name: string;
}

/** The API path of a kind. */
export function kindPath(kind: string): string {
  return `/v1/kinds/${encodeURIComponent(kind)}`;
}

/** The API path of a kind's instances, of one namespace or of all. */
export function instancesPath(kind: string, namespace?: string): string {
  return namespace ? `${kindPath(kind)}/namespaces/${encodeURIComponent(namespace)}/instances` : `${kindPath(kind)}/instances`;
}

/** The API path of one instance. */
export function instancePath(key: InstanceKey): string {
  return `${instancesPath(key.kind, key.namespace)}/${encodeURIComponent(key.name)}`;
}

/** The cache of answers; problems that a retry cannot mend are not retried. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (count, error) => !(error instanceof ProblemError && error.status >= 400 && error.status < 500) && count < 2,
      refetchOnWindowFocus: true,
    },
  },
});

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => {
    const me = await call<Me>("/v1/me", { signal });
    setCsrfToken(me.csrfToken);
    reportSession("open");
    return me;
  },
  staleTime: 60_000,
});

export const overviewQuery = queryOptions({
  queryKey: ["overview"],
  queryFn: ({ signal }) => call<Overview>("/v1/overview", { signal }),
  refetchInterval: 5_000,
});

export const kindsQuery = queryOptions({
  queryKey: ["kinds"],
  queryFn: async ({ signal }) => (await call<{ items: Kind[] }>("/v1/kinds", { signal })).items,
  refetchInterval: 15_000,
});

export const kindQuery = (kind: string) =>
  queryOptions({
    queryKey: ["kind", kind],
    queryFn: ({ signal }) => call<Kind>(kindPath(kind), { signal }),
    staleTime: 30_000,
  });

export const accessQuery = (kind: string, namespace?: string, name?: string) =>
  queryOptions({
    queryKey: ["access", kind, namespace, name],
    queryFn: ({ signal }) => call<Access>(`${kindPath(kind)}/access`, { query: { namespace, name }, signal }),
    staleTime: 30_000,
  });

export const namespacesQuery = queryOptions({
  queryKey: ["namespaces"],
  queryFn: async ({ signal }) => {
    const list = await call<InstanceList>(instancesPath("namespaces"), { query: { fields: "metadata.name", limit: 5000 }, signal });
    return list.items.map((item) => item.object.metadata.name ?? "").sort();
  },
  retry: false,
  staleTime: 30_000,
});

export const instanceQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["instance", key.kind, key.namespace, key.name],
    queryFn: ({ signal }) => call<K8sObject>(instancePath(key), { signal }),
  });

export const statusQuery = (key: InstanceKey, version: string | undefined) =>
  queryOptions({
    queryKey: ["status", key.kind, key.namespace, key.name, version],
    queryFn: ({ signal }) => call<StatusView>(`${instancePath(key)}/status`, { signal }),
    placeholderData: keepPreviousData,
  });

export const eventsQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["events", key.kind, key.namespace, key.name],
    queryFn: async ({ signal }) =>
      (await call<{ items: ClusterEvent[] }>(`${instancePath(key)}/events`, { query: { tree: true }, signal })).items,
    refetchInterval: 5_000,
  });

export const treeQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["tree", key.kind, key.namespace, key.name],
    queryFn: ({ signal }) => call<Tree>(`${instancePath(key)}/tree`, { signal }),
  });

export const historyQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["history", key.kind, key.namespace, key.name],
    queryFn: async ({ signal }) => (await call<{ items: Revision[] }>(`${instancePath(key)}/history`, { signal })).items,
  });

export const compareQuery = (key: InstanceKey, from: number, to: number | undefined) =>
  queryOptions({
    queryKey: ["compare", key.kind, key.namespace, key.name, from, to],
    queryFn: ({ signal }) => call<Comparison>(`${instancePath(key)}/history/compare`, { query: { from, to }, signal }),
  });

export const auditQuery = (query: { kind?: string; namespace?: string; name?: string; limit?: number }) =>
  queryOptions({
    queryKey: ["audit", query],
    queryFn: async ({ signal }) => (await call<{ items: AuditEntry[] }>("/v1/audit", { query, signal })).items,
  });

export const operatorQuery = queryOptions({
  queryKey: ["operator"],
  queryFn: ({ signal }) => call<OperatorView>("/v1/operator", { signal }),
  refetchInterval: 3_000,
});

/** What deleting an instance would take with it. */
export const deletePreviewQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["delete-preview", key.kind, key.namespace, key.name],
    queryFn: ({ signal }) => call<Diff>(instancePath(key), { method: "DELETE", query: { dryRun: true }, signal }),
    staleTime: 0,
    gcTime: 0,
  });

/** What an action would change. */
export const actionPreviewQuery = (key: InstanceKey, action: string, body: object, version: string | undefined) =>
  queryOptions({
    queryKey: ["action-preview", key.kind, key.namespace, key.name, action, body, version],
    queryFn: ({ signal }) =>
      call<Diff>(`${instancePath(key)}/actions/${encodeURIComponent(action)}`, { method: "POST", query: { dryRun: true }, body, signal }),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
