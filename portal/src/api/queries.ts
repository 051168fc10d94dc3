import { keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";
import { api, body, INSTANCE, instanceAt, INSTANCES, instancesAt, preview, ProblemError, setCsrfToken, type InstanceKey } from "./client";
import { reportSession } from "./connection";
import type { Json } from "./types";

export type { InstanceKey } from "./client";

/** Query cache; errors that a retry cannot fix are not retried. */
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
    const me = await body(api.GET("/v1/me", { signal }));
    setCsrfToken(me.csrfToken);
    reportSession("open");
    return me;
  },
  staleTime: 60_000,
});

/** Sign-in methods other than a token. */
export const signInWaysQuery = queryOptions({
  queryKey: ["sign-in-ways"],
  queryFn: ({ signal }) => body(api.GET("/v1/session", { signal })),
  staleTime: 60_000,
});

export const overviewQuery = queryOptions({
  queryKey: ["overview"],
  queryFn: ({ signal }) => body(api.GET("/v1/overview", { signal })),
  refetchInterval: 5_000,
});

export const kindsQuery = queryOptions({
  queryKey: ["kinds"],
  queryFn: async ({ signal }) => (await body(api.GET("/v1/kinds", { signal }))).items,
  refetchInterval: 15_000,
});

export const kindQuery = (kind: string) =>
  queryOptions({
    queryKey: ["kind", kind],
    queryFn: ({ signal }) => body(api.GET("/v1/kinds/{kind}", { params: { path: { kind } }, signal })),
    staleTime: 30_000,
  });

export const accessQuery = (kind: string, namespace?: string, name?: string) =>
  queryOptions({
    queryKey: ["access", kind, namespace, name],
    queryFn: ({ signal }) => body(api.GET("/v1/kinds/{kind}/access", { params: { path: { kind }, query: { namespace, name } }, signal })),
    staleTime: 30_000,
  });

export const namespacesQuery = queryOptions({
  queryKey: ["namespaces"],
  queryFn: async ({ signal }) => {
    const params = { path: instancesAt("namespaces"), query: { fields: "metadata.name", limit: 5000 } };
    const list = await body(api.GET(INSTANCES, { params, signal }));
    return list.items.map((item) => item.object.metadata.name ?? "").sort();
  },
  retry: false,
  staleTime: 30_000,
});

export const instanceQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["instance", key.kind, key.namespace, key.name],
    queryFn: ({ signal }) => body(api.GET(INSTANCE, { params: { path: instanceAt(key) }, signal })),
  });

export const statusQuery = (key: InstanceKey, version: string | undefined) =>
  queryOptions({
    queryKey: ["status", key.kind, key.namespace, key.name, version],
    queryFn: ({ signal }) => body(api.GET(`${INSTANCE}/status`, { params: { path: instanceAt(key) }, signal })),
    placeholderData: keepPreviousData,
  });

export const eventsQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["events", key.kind, key.namespace, key.name],
    queryFn: async ({ signal }) =>
      (await body(api.GET(`${INSTANCE}/events`, { params: { path: instanceAt(key), query: { tree: true } }, signal }))).items,
    refetchInterval: 5_000,
  });

export const treeQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["tree", key.kind, key.namespace, key.name],
    queryFn: ({ signal }) => body(api.GET(`${INSTANCE}/tree`, { params: { path: instanceAt(key) }, signal })),
  });

export const historyQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["history", key.kind, key.namespace, key.name],
    queryFn: async ({ signal }) => (await body(api.GET(`${INSTANCE}/history`, { params: { path: instanceAt(key) }, signal }))).items,
  });

export const compareQuery = (key: InstanceKey, from: number, to: number | undefined) =>
  queryOptions({
    queryKey: ["compare", key.kind, key.namespace, key.name, from, to],
    queryFn: ({ signal }) => body(api.GET(`${INSTANCE}/history/compare`, { params: { path: instanceAt(key), query: { from, to } }, signal })),
  });

export const auditQuery = (query: { kind?: string; namespace?: string; name?: string; limit?: number }) =>
  queryOptions({
    queryKey: ["audit", query],
    queryFn: async ({ signal }) => (await body(api.GET("/v1/audit", { params: { query }, signal }))).items,
  });

export const operatorQuery = queryOptions({
  queryKey: ["operator"],
  queryFn: ({ signal }) => body(api.GET("/v1/operator", { signal })),
  refetchInterval: 3_000,
});

/** Preview of the objects that deleting an instance would also delete. */
export const deletePreviewQuery = (key: InstanceKey) =>
  queryOptions({
    queryKey: ["delete-preview", key.kind, key.namespace, key.name],
    queryFn: ({ signal }) => preview(api.DELETE(INSTANCE, { params: { path: instanceAt(key), query: { dryRun: true } }, signal })),
    staleTime: 0,
    gcTime: 0,
  });

/** Preview of the changes that an action would make. */
export const actionPreviewQuery = (key: InstanceKey, action: string, input: { value?: Json }, version: string | undefined) =>
  queryOptions({
    queryKey: ["action-preview", key.kind, key.namespace, key.name, action, input, version],
    queryFn: ({ signal }) =>
      preview(api.POST(`${INSTANCE}/actions/{action}`, { params: { path: { ...instanceAt(key), action }, query: { dryRun: true } }, body: input, signal })),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
