import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, INSTANCE, instanceAt, writeHeaders, written, type InstanceKey } from "../api/client";
import { actionPreviewQuery, queryClient } from "../api/queries";
import type { Action, Json, K8sObject } from "../api/types";
import { writeIfUnchanged } from "../api/write";
import { Button } from "./Button";
import { Changes, UnifiedDiff } from "./Changes";
import { Dialog } from "./Dialog";
import { ProblemNote, Skeleton } from "./States";
import { inline } from "../lib/text";

interface Props {
  target: InstanceKey;
  action: Action;
  value?: Json;
  /** The object that the user has seen. */
  seen: K8sObject | undefined;
  onClose: () => void;
  onDone: (object: K8sObject) => void;
}

/** Previews the changes of an action, asks for confirmation, then runs it. */
export function ActionDialog({ target, action, value, seen, onClose, onDone }: Props) {
  const [typed, setTyped] = useState<string>();
  const [failed, setFailed] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const version = seen?.metadata.resourceVersion;
  const generation = seen?.metadata.generation;
  const asksValue = action.input !== null && value === undefined;
  const given = asksValue ? readValue(typed, action) : value;
  const body = action.input === null ? {} : { value: given ?? null };
  const preview = useQuery({ ...actionPreviewQuery(target, action.name, body, String(generation)), enabled: !asksValue || given !== undefined });

  const run = async (): Promise<void> => {
    setBusy(true);
    setFailed(undefined);
    try {
      const object = await writeIfUnchanged(
        version,
        (current) => current.metadata.generation === generation,
        (ifMatch) =>
          written(
            api.POST(`${INSTANCE}/actions/{action}`, {
              params: { path: { ...instanceAt(target), action: action.name }, header: writeHeaders(ifMatch, crypto.randomUUID()) },
              body,
            }),
          ),
      );
      await queryClient.invalidateQueries({ predicate: (query) => query.queryKey.includes(target.name) || query.queryKey[0] === "overview" });
      onDone(object);
    } catch (error) {
      setFailed(error);
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={`${action.title} ${target.name}${value !== undefined && typeof value !== "object" ? ` to ${action.name === "rollback" ? "revision " : ""}${inline(value)}` : ""}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" disabled={busy || preview.isPending || preview.error !== null} onClick={() => void run()}>
            {action.title}
          </Button>
        </>
      }
    >
      {action.description && <p className="muted">{action.description}</p>}
      {action.confirm && <p>{action.confirm}</p>}
      {asksValue && (
        <div className="field">
          <label htmlFor="action-value">{action.value ?? "Value"}</label>
          <input id="action-value" className="input" value={typed ?? ""} onChange={(change) => { setTyped(change.target.value); }} />
        </div>
      )}
      {preview.error && <ProblemNote error={preview.error} />}
      {preview.isFetching && !preview.data && <Skeleton lines={3} />}
      {preview.data && (
        <>
          <Changes changes={preview.data.changes.filter((change) => !change.path.startsWith("metadata.generation"))} />
          {preview.data.changes.length > 1 && preview.data.yaml && <UnifiedDiff text={preview.data.yaml} label="Changes as YAML" />}
        </>
      )}
      {failed !== undefined && <ProblemNote error={failed} />}
    </Dialog>
  );
}

function readValue(typed: string | undefined, action: Action): Json | undefined {
  if (typed === undefined || typed === "") return undefined;
  const type = action.input?.type;
  if (type === "integer" || type === "number") return Number.isNaN(Number(typed)) ? undefined : Number(typed);
  if (type === "boolean") return typed === "true";
  return typed;
}
