import { useSyncExternalStore } from "react";
import type { HealthStatus } from "../api/types";
import { Button } from "./Button";
import { HealthIcon } from "./Health";

interface Toast {
  id: number;
  status: HealthStatus;
  text: string;
}

const SHOWN_MS = 6_000;
let toasts: readonly Toast[] = [];
let nextId = 1;
const listeners = new Set<() => void>();

function publish(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

function dismiss(id: number): void {
  publish(toasts.filter((toast) => toast.id !== id));
}

/** Shows a toast in the corner and announces it to screen readers. A failure stays until dismissed. */
export function notify(status: HealthStatus, text: string): void {
  const id = nextId++;
  publish([...toasts.slice(-3), { id, status, text }]);
  if (status !== "failing") {
    window.setTimeout(() => {
      dismiss(id);
    }, SHOWN_MS);
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Corner region that contains the toasts. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} className="toast">
          <HealthIcon status={toast.status} />
          <p className="grow">{toast.text}</p>
          <Button small variant="quiet" icon="close" aria-label="Dismiss" onClick={() => { dismiss(toast.id); }} />
        </div>
      ))}
    </div>
  );
}
