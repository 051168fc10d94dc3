import { useQueries, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useRef, useState } from "react";
import { api, body, INSTANCES, instancesAt } from "../api/client";
import { kindsQuery, overviewQuery } from "../api/queries";
import type { HealthStatus } from "../api/types";
import { instanceParams } from "../lib/links";
import { HealthIcon } from "./Health";
import { Icon, type IconName } from "./Icon";

interface Hit {
  key: string;
  title: string;
  detail: string;
  icon?: IconName;
  health?: HealthStatus;
  go: () => void;
}

const PER_KIND = 8;
const SHOWN = 30;

/** Finds kinds, instances and actions by a few letters. */
export function SearchPalette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const text = useDeferredValue(typed.trim());
  const dialog = useRef<HTMLDialogElement>(null);
  const navigate = useNavigate();
  const kinds = useQuery(kindsQuery).data ?? [];
  const summaries = useQuery(overviewQuery).data?.kinds ?? [];
  const listed = kinds.filter((kind) => summaries.find((summary) => summary.name === kind.name)?.denied === null);

  useEffect(() => {
    if (dialog.current && !dialog.current.open) dialog.current.showModal();
  }, []);

  const found = useQueries({
    queries: listed.map((kind) => ({
      queryKey: ["search", kind.name, text],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        body(
          api.GET(INSTANCES, {
            params: { path: instancesAt(kind.name), query: { filter: [text], limit: PER_KIND, fields: "metadata.name,metadata.namespace" } },
            signal,
          }),
        ),
      staleTime: 5_000,
      retry: false,
    })),
  });

  const go = (run: () => void) => () => {
    onClose();
    run();
  };
  const matches = (words: string): boolean => words.toLowerCase().includes(text.toLowerCase());

  const hits: Hit[] = [];
  for (const [i, kind] of listed.entries()) {
    for (const item of found[i]?.data?.items ?? []) {
      const { name = "", namespace } = item.object.metadata;
      hits.push({
        key: `${kind.name}/${namespace ?? ""}/${name}`,
        title: name,
        detail: [kind.kind, namespace].filter(Boolean).join(" · "),
        health: item.health.status,
        go: go(() => void navigate({ to: "/kinds/$kind/$namespace/$name", params: instanceParams({ kind: kind.name, namespace, name }) })),
      });
    }
  }
  for (const kind of kinds.filter((each) => matches(`${each.kind} ${each.name}`))) {
    hits.push({ key: kind.name, title: kind.kind, detail: kind.name, icon: "overview", go: go(() => void navigate({ to: "/kinds/$kind", params: { kind: kind.name } })) });
  }
  for (const kind of kinds.filter((each) => matches(`new ${each.kind} create`))) {
    hits.push({ key: `new ${kind.name}`, title: `New ${kind.kind}`, detail: "Create an instance", icon: "plus", go: go(() => void navigate({ to: "/kinds/$kind/new", params: { kind: kind.name } })) });
  }
  if (matches("operator queue log")) {
    hits.push({ key: "operator", title: "Operator", detail: "Queue, reconciles, logs", icon: "operator", go: go(() => void navigate({ to: "/operator" })) });
  }
  const shown = hits.slice(0, SHOWN);
  const active = Math.min(at, shown.length - 1);

  const onKeyDown = (press: React.KeyboardEvent): void => {
    if (press.key === "ArrowDown") setAt(Math.min(active + 1, shown.length - 1));
    else if (press.key === "ArrowUp") setAt(Math.max(active - 1, 0));
    else if (press.key === "Enter") shown[active]?.go();
    else return;
    press.preventDefault();
  };

  return (
    <dialog
      ref={dialog}
      className="dialog palette"
      aria-label="Search"
      onCancel={(cancel) => {
        cancel.preventDefault();
        onClose();
      }}
      onPointerDown={(press) => {
        if (press.target === dialog.current) onClose();
      }}
    >
      <div className="palette-input">
        <Icon name="search" />
        <input
          // The palette is opened to type into it.
          // eslint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-hits"
          aria-activedescendant={shown[active] ? `hit-${active}` : undefined}
          aria-label="Search kinds, instances and actions"
          placeholder="Search kinds, instances, actions"
          value={typed}
          onChange={(change) => {
            setTyped(change.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
        <span className="kbd">Esc</span>
      </div>
      <div id="palette-hits" role="listbox" aria-label="Results" className="palette-hits">
        {shown.map((hit, i) => (
          // Keys are handled by the input, which keeps the focus.
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events
          <div key={hit.key} id={`hit-${i}`} role="option" tabIndex={-1} aria-selected={i === active} className="palette-hit" onClick={hit.go} onPointerMove={() => { setAt(i); }}>
            {hit.health ? <HealthIcon status={hit.health} label /> : <Icon name={hit.icon ?? "right"} size={14} />}
            <span className="truncate">{hit.title}</span>
            <span className="muted small truncate grow">{hit.detail}</span>
          </div>
        ))}
        {shown.length === 0 && <p className="muted palette-none">No results for “{text}”.</p>}
      </div>
    </dialog>
  );
}
