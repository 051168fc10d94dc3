import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { ProblemPage, Empty } from "./components/States";
import { AppShell } from "./pages/AppShell";
import { InstancesPage } from "./pages/Instances";
import { OverviewPage } from "./pages/Overview";
import type { HealthStatus } from "./api/types";

/** Search parameters of a table: filter, sort order and namespace. */
export interface InstancesSearch {
  q?: string;
  namespace?: string;
  health?: HealthStatus;
  sort?: string;
}

/** Search parameters of the history: the revisions to compare. */
export interface HistorySearch {
  from?: number;
  to?: number;
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

const rootRoute = createRootRoute({
  component: AppShell,
  errorComponent: ({ error }) => <ProblemPage error={error} />,
  notFoundComponent: () => (
    <div className="panel">
      <Empty icon="search" title="Page not found">
        <p>This page does not exist.</p>
      </Empty>
    </div>
  ),
});

const overview = createRoute({ getParentRoute: () => rootRoute, path: "/", component: OverviewPage });

const instances = createRoute({
  getParentRoute: () => rootRoute,
  path: "/kinds/$kind",
  validateSearch: (search: Record<string, unknown>): InstancesSearch => ({
    q: text(search.q),
    namespace: text(search.namespace),
    health: text(search.health) as HealthStatus | undefined,
    sort: text(search.sort),
  }),
  component: InstancesPage,
});

const create = createRoute({
  getParentRoute: () => rootRoute,
  path: "/kinds/$kind/new",
  validateSearch: (search: Record<string, unknown>): { namespace?: string; copy?: string } => ({
    namespace: text(search.namespace),
    copy: text(search.copy),
  }),
  component: lazyRouteComponent(() => import("./pages/Edit"), "CreatePage"),
});

const instance = createRoute({
  getParentRoute: () => rootRoute,
  path: "/kinds/$kind/$namespace/$name",
  component: lazyRouteComponent(() => import("./pages/Instance"), "InstancePage"),
});

const edit = createRoute({
  getParentRoute: () => rootRoute,
  path: "/kinds/$kind/$namespace/$name/edit",
  component: lazyRouteComponent(() => import("./pages/Edit"), "EditPage"),
});

const history = createRoute({
  getParentRoute: () => rootRoute,
  path: "/kinds/$kind/$namespace/$name/history",
  validateSearch: (search: Record<string, unknown>): HistorySearch => ({ from: number(search.from), to: number(search.to) }),
  component: lazyRouteComponent(() => import("./pages/History"), "HistoryPage"),
});

const operator = createRoute({
  getParentRoute: () => rootRoute,
  path: "/operator",
  component: lazyRouteComponent(() => import("./pages/Operator"), "OperatorPage"),
});

/** Routes of the portal. */
export const router = createRouter({
  routeTree: rootRoute.addChildren([overview, instances, create, instance, edit, history, operator]),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
