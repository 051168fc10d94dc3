import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useMemo, useRef, useState } from "react";
import { api, INSTANCE, instanceAt } from "../api/client";
import { itemKey, useLiveInstances } from "../api/live";
import { accessQuery, kindQuery, queryClient } from "../api/queries";
import type { Column, HealthStatus, Item, Json, Kind } from "../api/types";
import { Age } from "../components/Age";
import { Button } from "../components/Button";
import { Dialog } from "../components/Dialog";
import { HealthIcon, HealthLabel } from "../components/Health";
import { Icon } from "../components/Icon";
import { Empty, ProblemNote, ProblemPage, Skeleton } from "../components/States";
import { notify } from "../components/Toasts";
import { instanceParams } from "../lib/links";
import { HEALTH_ORDER, HEALTH_WORDS, count, inline } from "../lib/text";

const FIELDS = "metadata.name,metadata.namespace,metadata.creationTimestamp,metadata.deletionTimestamp,metadata.uid,metadata.resourceVersion";
const ROW_HEIGHT = 40;
const ROW_WITH_REASON = 60;

interface TableColumn {
  id: string;
  title: string;
  width: string;
  /** Hidden on narrow screens. */
  secondary: boolean;
  value: (item: Item) => Json | undefined;
  render?: (item: Item) => React.ReactNode;
}

/** Table of the instances of a kind: live, filtered and sorted in the browser. */
export function InstancesPage() {
  const { kind: kindName } = useParams({ from: "/kinds/$kind" });
  const search = useSearch({ from: "/kinds/$kind" });
  const navigate = useNavigate({ from: "/kinds/$kind" });
  const kind = useQuery(kindQuery(kindName));
  const access = useQuery(accessQuery(kindName, search.namespace));
  const live = useLiveInstances(kindName, undefined, FIELDS);
  const query = useDeferredValue(search.q ?? "");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());

  const columns = useMemo(() => (kind.data ? tableColumns(kind.data) : []), [kind.data]);
  const namespaces = useMemo(() => [...new Set(live.items.map((item) => item.object.metadata.namespace ?? ""))].filter(Boolean).sort(), [live.items]);
  const rows = useMemo(
    () => sortItems(filterItems(live.items, query, search.namespace, search.health), columns, search.sort ?? "name"),
    [live.items, query, search.namespace, search.health, search.sort, columns],
  );
  const counts = useMemo(() => {
    const byHealth: Partial<Record<HealthStatus, number>> = {};
    for (const item of live.items) byHealth[item.health.status] = (byHealth[item.health.status] ?? 0) + 1;
    return byHealth;
  }, [live.items]);

  if (kind.error) return <ProblemPage error={kind.error} onRetry={() => void kind.refetch()} />;
  const listDenied = access.data?.list && !access.data.list.allowed ? access.data.list : undefined;
  const createDenied = access.data?.create && !access.data.create.allowed ? access.data.create.reason || "You do not have permission to create instances." : undefined;
  const setSearch = (next: Partial<typeof search>): void => void navigate({ search: (before) => ({ ...before, ...next }), replace: true });
  const chosen = rows.filter((item) => selected.has(itemKey(item)));

  return (
    <div className="page fill">
      <header className="page-header">
        <div className="grow">
          <h1>{kind.data ? titleOf(kind.data) : " "}</h1>
          <p className="muted truncate">{kind.data?.description || kindName}</p>
        </div>
        {createDenied === undefined ? (
          <Link to="/kinds/$kind/new" params={{ kind: kindName }} search={{ namespace: search.namespace }} className="btn primary">
            <Icon name="plus" />
            New {kind.data?.kind ?? ""}
          </Link>
        ) : (
          <Button variant="primary" icon="plus" disabledReason={createDenied}>
            New {kind.data?.kind ?? ""}
          </Button>
        )}
      </header>
      <div className="toolbar">
        <div className="input-icon">
          <Icon name="search" />
          <input
            className="input"
            type="search"
            aria-label="Filter by name, namespace or column"
            placeholder="Filter"
            value={search.q ?? ""}
            onChange={(change) => { setSearch({ q: change.target.value || undefined }); }}
          />
        </div>
        {kind.data?.namespaced !== false && (
          <select className="select auto" aria-label="Namespace" value={search.namespace ?? ""} onChange={(change) => { setSearch({ namespace: change.target.value || undefined }); }}>
            <option value="">All namespaces</option>
            {namespaces.map((namespace) => (
              <option key={namespace}>{namespace}</option>
            ))}
          </select>
        )}
        <div className="filters" role="group" aria-label="Health">
          {HEALTH_ORDER.filter((status) => (counts[status] ?? 0) > 0).map((status) => (
            <button
              key={status}
              type="button"
              className={`filter-chip h-${status}`}
              aria-pressed={search.health === status}
              onClick={() => { setSearch({ health: search.health === status ? undefined : status }); }}
            >
              <HealthIcon status={status} size={12} />
              {HEALTH_WORDS[status]} <span className="tabular">{counts[status]}</span>
            </button>
          ))}
        </div>
        <span className="grow" />
        <LiveMark state={live.state} />
      </div>
      {listDenied ? (
        <div className="panel">
          <Empty icon="lock" title="Not allowed">
            <p>{listDenied.reason || `You do not have permission to list ${kindName}.`}</p>
          </Empty>
        </div>
      ) : live.synced || live.items.length > 0 ? (
        <Table
          kind={kindName}
          columns={columns}
          rows={rows}
          total={live.items.length}
          sort={search.sort ?? "name"}
          onSort={(sort) => { setSearch({ sort }); }}
          selected={selected}
          onSelect={setSelected}
          empty={
            live.items.length === 0 ? (
              <Empty icon="overview" title={`No ${titleOf(kind.data)} yet`}>
                <p>{createDenied ?? `Create the first ${kind.data?.kind ?? "instance"} with the form, or apply YAML with kubectl.`}</p>
              </Empty>
            ) : (
              <Empty icon="search" title="No matching instances">
                <Button onClick={() => { setSearch({ q: undefined, namespace: undefined, health: undefined }); }}>Clear filters</Button>
              </Empty>
            )
          }
        />
      ) : (
        <div className="panel">
          <div className="body">
            <Skeleton lines={8} />
          </div>
        </div>
      )}
      {chosen.length > 0 && kind.data && <BulkBar kind={kind.data} items={chosen} onDone={() => { setSelected(new Set()); }} />}
      <p className="sr-only" aria-live="polite">
        {live.synced ? `${count(rows.length, "instance")} shown` : ""}
      </p>
    </div>
  );
}

/** Returns the plural of a kind for headings: `Minimarts`. */
function titleOf(kind: Kind | undefined): string {
  if (!kind) return "instances";
  const lower = kind.kind.toLowerCase();
  const suffix = kind.plural.startsWith(lower) ? kind.plural.slice(lower.length) : "s";
  return kind.plural.startsWith(lower.slice(0, -1)) && kind.plural.endsWith("ies") ? `${kind.kind.slice(0, -1)}ies` : `${kind.kind}${suffix}`;
}

function LiveMark({ state }: { state: "connecting" | "live" | "lost" }) {
  return (
    <span className={`live ${state}`} role="status">
      <span className="live-dot" aria-hidden="true" />
      {state === "live" ? "Live" : state === "lost" ? "Reconnecting…" : "Connecting…"}
    </span>
  );
}

function tableColumns(kind: Kind): TableColumn[] {
  const printed = kind.columns
    .map((column, i) => ({ column, i }))
    .filter(({ column }) => column.priority === 0 && column.jsonPath !== ".metadata.creationTimestamp" && column.name.toLowerCase() !== "name")
    .map(({ column, i }): TableColumn => ({
      id: `col-${i}`,
      title: column.name,
      width: "minmax(72px, 1fr)",
      secondary: true,
      value: (item) => item.cells[i],
      render: (item) => <Cell column={column} value={item.cells[i]} />,
    }));
  const columns: TableColumn[] = [
    { id: "name", title: "Name", width: "minmax(160px, 2fr)", secondary: false, value: (item) => item.object.metadata.name },
    { id: "namespace", title: "Namespace", width: "minmax(96px, 1fr)", secondary: true, value: (item) => item.object.metadata.namespace },
    {
      id: "health",
      title: "Health",
      width: "minmax(116px, 1fr)",
      secondary: false,
      value: (item) => HEALTH_ORDER.indexOf(item.health.status),
      render: (item) =>
        item.object.metadata.deletionTimestamp ? <HealthLabel status="progressing" word="Deleting" /> : <HealthLabel status={item.health.status} />,
    },
    ...printed,
    {
      id: "age",
      title: "Age",
      width: "64px",
      secondary: false,
      value: (item) => item.object.metadata.creationTimestamp,
      render: (item) => <Age at={item.object.metadata.creationTimestamp} />,
    },
  ];
  return kind.namespaced ? columns : columns.filter((column) => column.id !== "namespace");
}

function Cell({ column, value }: { column: Column; value: Json | undefined }) {
  if (value === null || value === undefined || value === "") return <span className="muted">–</span>;
  if (column.type === "date" && typeof value === "string") return <Age at={value} />;
  return (
    <span className={column.type === "integer" || column.type === "number" ? "tabular" : ""} title={inline(value)}>
      {inline(value)}
    </span>
  );
}

function filterItems(items: readonly Item[], query: string, namespace: string | undefined, health: HealthStatus | undefined): Item[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter((item) => {
    const { metadata } = item.object;
    if (namespace && metadata.namespace !== namespace) return false;
    if (health && item.health.status !== health) return false;
    if (words.length === 0) return true;
    const text = [metadata.name, metadata.namespace, item.health.reason, ...item.cells.map((cell) => (typeof cell === "string" ? cell : JSON.stringify(cell)))].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function sortItems(items: Item[], columns: TableColumn[], sort: string): Item[] {
  const descending = sort.startsWith("-");
  const column = columns.find((each) => each.id === (descending ? sort.slice(1) : sort));
  if (!column) return items;
  const compare = (a: Json | undefined, b: Json | undefined): number => {
    if (a === b) return 0;
    if (a === undefined || a === null) return 1;
    if (b === undefined || b === null) return -1;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return inline(a).localeCompare(inline(b), "en", { numeric: true });
  };
  const sign = descending ? -1 : 1;
  return items.sort((a, b) => sign * compare(column.value(a), column.value(b)) || itemKey(a).localeCompare(itemKey(b)));
}

/** Returns the reason that a failing instance shows on a second line. */
function reasonOf(item: Item): string {
  return item.health.status === "failing" ? item.health.message || item.health.reason : "";
}

interface TableProps {
  kind: string;
  columns: TableColumn[];
  rows: Item[];
  total: number;
  sort: string;
  onSort: (sort: string) => void;
  selected: ReadonlySet<string>;
  onSelect: (keys: ReadonlySet<string>) => void;
  empty: React.ReactNode;
}

function Table({ kind, columns, rows, total, sort, onSort, selected, onSelect, empty }: TableProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => (rows[i] && reasonOf(rows[i]) ? ROW_WITH_REASON : ROW_HEIGHT),
    getItemKey: (i) => {
      const row = rows[i];
      return row ? `${itemKey(row)} ${reasonOf(row) ? "r" : ""}` : i;
    },
    overscan: 12,
  });
  const template = `36px ${columns.map((column) => column.width).join(" ")}`;
  const toggle = (key: string): void => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect(next);
  };
  const all = rows.length > 0 && rows.every((item) => selected.has(itemKey(item)));
  return (
    <div className="panel table" role="table" aria-label="Instances" aria-rowcount={rows.length + 1} style={{ "--columns": template } as React.CSSProperties}>
      <div className="table-scroll" ref={scroller} role="presentation">
        <div className="tr head" role="row" aria-rowindex={1}>
          <span role="columnheader" className="td">
            <input
              type="checkbox"
              aria-label="Select all shown"
              checked={all}
              onChange={() => { onSelect(all ? new Set() : new Set(rows.map(itemKey))); }}
            />
          </span>
          {columns.map((column) => {
            const active = sort.replace(/^-/, "") === column.id;
            const descending = sort.startsWith("-");
            return (
              <span
                key={column.id}
                role="columnheader"
                className={`td ${column.secondary ? "secondary" : ""}`}
                aria-sort={active ? (descending ? "descending" : "ascending") : "none"}
              >
                <button type="button" onClick={() => { onSort(active && !descending ? `-${column.id}` : column.id); }}>
                  {column.title}
                  {active && <Icon name={descending ? "down" : "up"} size={10} />}
                </button>
              </span>
            );
          })}
        </div>
        {rows.length === 0 && empty}
        <div role="rowgroup" className="rows" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((row) => {
            const item = rows[row.index];
            if (!item) return null;
            const key = itemKey(item);
            const reason = reasonOf(item);
            return (
              <div
                key={row.key}
                role="row"
                aria-rowindex={row.index + 2}
                aria-selected={selected.has(key)}
                className={`tr ${reason ? "with-reason" : ""}`}
                style={{ height: row.size, transform: `translateY(${row.start}px)` }}
              >
                <span role="cell" className="td check-cell">
                  <input type="checkbox" aria-label={`Select ${item.object.metadata.name ?? ""}`} checked={selected.has(key)} onChange={() => { toggle(key); }} />
                </span>
                {columns.map((column) => (
                  <span key={column.id} role="cell" className={`td truncate ${column.secondary ? "secondary" : ""}`}>
                    {column.id === "name" ? (
                      <Link
                        className="row-link"
                        to="/kinds/$kind/$namespace/$name"
                        params={instanceParams({ kind, namespace: item.object.metadata.namespace, name: item.object.metadata.name ?? "" })}
                      >
                        {item.object.metadata.name}
                      </Link>
                    ) : column.render ? (
                      column.render(item)
                    ) : (
                      inline(column.value(item))
                    )}
                  </span>
                ))}
                {reason && (
                  <span role="cell" className="td row-reason truncate" title={reason}>
                    {reason}
                  </span>
                )}
              </div>
            );
          })}
        </div>
      </div>
      <div className="table-foot muted small" role="presentation">
        {rows.length === total ? count(total, "instance") : `${rows.length.toLocaleString("en")} of ${count(total, "instance")}`}
      </div>
    </div>
  );
}

/** Bulk actions for the selected rows; each asks for confirmation first. */
function BulkBar({ kind, items, onDone }: { kind: Kind; items: Item[]; onDone: () => void }) {
  const [asked, setAsked] = useState<string>();
  const [failed, setFailed] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const simple = kind.actions.filter((action) => action.input === null);
  const actionTitle = (name: string): string => (name === "delete" ? "Delete" : (simple.find((action) => action.name === name)?.title ?? name));
  const run = async (action: string): Promise<void> => {
    setBusy(true);
    setFailed(undefined);
    try {
      for (const item of items) {
        const path = instanceAt({ kind: kind.name, namespace: item.object.metadata.namespace, name: item.object.metadata.name ?? "" });
        if (action === "delete") await api.DELETE(INSTANCE, { params: { path } });
        else await api.POST(`${INSTANCE}/actions/{action}`, { params: { path: { ...path, action } }, body: {} });
      }
      notify("progressing", `${action === "delete" ? "Deletion" : actionTitle(action)} requested for ${count(items.length, "instance")}.`);
      await queryClient.invalidateQueries({ queryKey: ["overview"] });
      setAsked(undefined);
      onDone();
    } catch (error) {
      setFailed(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="bulk-bar" role="region" aria-label="Selected instances">
      <b>{count(items.length, "instance")} selected</b>
      {simple.map((action) => (
        <Button key={action.name} small onClick={() => { setAsked(action.name); }}>
          {action.title}
        </Button>
      ))}
      <Button small variant="danger" icon="trash" onClick={() => { setAsked("delete"); }}>
        Delete
      </Button>
      <Button small variant="quiet" onClick={onDone}>
        Clear selection
      </Button>
      {asked && (
        <Dialog
          title={`${actionTitle(asked)} ${count(items.length, "instance")}?`}
          onClose={() => { setAsked(undefined); }}
          footer={
            <>
              <Button onClick={() => { setAsked(undefined); }}>Cancel</Button>
              <Button variant={asked === "delete" ? "danger solid" : "primary"} disabled={busy} onClick={() => void run(asked)}>
                {actionTitle(asked)}
              </Button>
            </>
          }
        >
          <ul className="plain-list">
            {items.slice(0, 12).map((item) => (
              <li key={itemKey(item)}>
                {item.object.metadata.name} <span className="muted">{item.object.metadata.namespace}</span>
              </li>
            ))}
            {items.length > 12 && <li className="muted">and {items.length - 12} more</li>}
          </ul>
          {failed !== undefined && <ProblemNote error={failed} />}
        </Dialog>
      )}
    </div>
  );
}
