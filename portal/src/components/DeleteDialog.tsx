import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, INSTANCE, instanceAt, writeHeaders, type InstanceKey } from "../api/client";
import { deletePreviewQuery, queryClient } from "../api/queries";
import type { K8sObject } from "../api/types";
import { writeIfUnchanged } from "../api/write";
import { count, refName } from "../lib/text";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { ProblemNote, Skeleton } from "./States";

/** Lists the objects deleted along with an instance; its name must be typed to confirm. */
export function DeleteDialog({ target, kindName, seen, onClose, onDone }: { target: InstanceKey; kindName: string; seen: K8sObject | undefined; onClose: () => void; onDone: () => void }) {
  const preview = useQuery(deletePreviewQuery(target));
  const [typed, setTyped] = useState("");
  const [failed, setFailed] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const follow = preview.data?.follow ?? [];
  const run = async (): Promise<void> => {
    setBusy(true);
    setFailed(undefined);
    try {
      await writeIfUnchanged(
        seen?.metadata.resourceVersion,
        (current) => current.metadata.generation === seen?.metadata.generation,
        (ifMatch) => api.DELETE(INSTANCE, { params: { path: instanceAt(target), header: writeHeaders(ifMatch) } }),
      );
      // Not awaited: the server has responded, and the counts in the sidebar may update later.
      void queryClient.invalidateQueries({ queryKey: ["overview"] });
      onDone();
    } catch (error) {
      setFailed(error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Delete ${kindName}/${target.name}?`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="danger solid" icon="trash" disabled={busy || typed !== target.name} onClick={() => void run()}>
            Delete
          </Button>
        </>
      }
    >
      {preview.isPending && <Skeleton lines={3} />}
      {preview.error && <ProblemNote error={preview.error} />}
      {preview.data && (
        <>
          <p>{follow.length > 0 ? `${count(follow.length, "object")} will also be deleted:` : "No other objects will be deleted."}</p>
          {follow.length > 0 && (
            <ul className="plain-list scroll-area">
              {follow.map((ref) => (
                <li key={`${ref.kind ?? ref.kindName}/${ref.namespace ?? ""}/${ref.name}`}>
                  {refName(ref)} <span className="muted">{ref.namespace}</span>
                </li>
              ))}
            </ul>
          )}
        </>
      )}
      <div className="field">
        <label htmlFor="delete-name">
          Type <code>{target.name}</code> to confirm
        </label>
        <input id="delete-name" className="input" autoComplete="off" spellCheck={false} value={typed} onChange={(change) => { setTyped(change.target.value); }} />
      </div>
      {failed !== undefined && <ProblemNote error={failed} />}
    </Dialog>
  );
}
