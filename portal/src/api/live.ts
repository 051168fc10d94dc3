import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { address, INSTANCE, instanceAt, INSTANCES, instancesAt, type InstanceKey } from "./client";
import { queryClient, treeQuery } from "./queries";
import { openStream } from "./stream";
import type { Item, Problem, Tree } from "./types";

/** A live set of instances: `synced` once the state is complete, `problem` if the stream was refused. */
export interface LiveInstances {
  items: readonly Item[];
  synced: boolean;
  state: "connecting" | "live" | "lost";
  problem: Problem | undefined;
}

/** Time to batch changes before the table re-renders. */
const BATCH_MS = 80;

/** The key of an item within its kind. */
export function itemKey(item: Item): string {
  return `${item.object.metadata.namespace ?? ""}/${item.object.metadata.name ?? ""}`;
}

class InstanceStore {
  private items = new Map<string, Item>();
  private snapshot: LiveInstances = { items: [], synced: false, state: "connecting", problem: undefined };
  private listeners = new Set<() => void>();
  private timer: number | undefined;
  private synced = false;
  private state: LiveInstances["state"] = "connecting";
  private problem: Problem | undefined;

  open(kind: string, namespace: string | undefined, query: Record<string, string>): () => void {
    const close = openStream((lastEventId) => address(INSTANCES, instancesAt(kind, namespace), { ...query, lastEventId }), {
      onState: (state) => {
        this.state = state;
        this.schedule();
      },
      events: {
        change: (data) => {
          const change = data as { type: string; item: Item };
          const key = itemKey(change.item);
          if (change.type === "DELETED") this.items.delete(key);
          else this.items.set(key, change.item);
          this.schedule();
        },
        sync: () => {
          this.synced = true;
          this.publish();
        },
        reset: () => {
          this.items.clear();
          this.synced = false;
          this.schedule();
        },
        problem: (data) => {
          this.problem = data as Problem;
          this.publish();
        },
      },
    });
    return () => {
      window.clearTimeout(this.timer);
      close();
    };
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  read = (): LiveInstances => this.snapshot;

  private schedule(): void {
    this.timer ??= window.setTimeout(() => {
      this.publish();
    }, BATCH_MS);
  }

  private publish(): void {
    window.clearTimeout(this.timer);
    this.timer = undefined;
    this.snapshot = { items: [...this.items.values()], synced: this.synced, state: this.state, problem: this.problem };
    for (const listener of this.listeners) listener();
  }
}

/** Live instances of a kind, updated by server-sent events. */
export function useLiveInstances(kind: string, namespace: string | undefined, fields: string): LiveInstances {
  const store = useMemo(
    () => ({ key: `${kind}/${namespace ?? ""}/${fields}`, instances: new InstanceStore() }),
    [kind, namespace, fields],
  );
  useEffect(() => store.instances.open(kind, namespace, { fields }), [store, kind, namespace, fields]);
  return useSyncExternalStore(store.instances.subscribe, store.instances.read);
}

/** Live state of one instance; `gone` once it is deleted while watched. */
export function useLiveInstance(key: InstanceKey): { item: Item | undefined; gone: boolean; state: LiveInstances["state"] } {
  const { kind, namespace, name } = key;
  const id = `${kind}/${namespace ?? ""}/${name}`;
  const [live, setLive] = useState<{ id: string; item?: Item; gone: boolean; state: LiveInstances["state"] }>({
    id,
    gone: false,
    state: "connecting",
  });
  useEffect(() => {
    setLive({ id, gone: false, state: "connecting" });
    return openStream((lastEventId) => address(INSTANCE, instanceAt({ kind, namespace, name }), { lastEventId }), {
      onState: (state) => {
        setLive((before) => ({ ...before, state }));
      },
      events: {
        change: (data) => {
          const change = data as { type: string; item: Item };
          setLive((before) => ({ ...before, item: change.item, gone: change.type === "DELETED" }));
        },
      },
    });
  }, [id, kind, namespace, name]);
  return live.id === id ? { item: live.item, gone: live.gone, state: live.state } : { item: undefined, gone: false, state: "connecting" };
}

/** Keeps the cached tree of an instance up to date. */
export function useLiveTree(key: InstanceKey): void {
  const { kind, namespace, name } = key;
  useEffect(() => {
    const place = { kind, namespace, name };
    return openStream((lastEventId) => address(`${INSTANCE}/tree`, instanceAt(place), { lastEventId }), {
      events: {
        tree: (data) => {
          queryClient.setQueryData(treeQuery(place).queryKey, data as Tree);
        },
      },
    });
  }, [kind, namespace, name]);
}
