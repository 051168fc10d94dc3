import type { ReactNode } from "react";
import { ProblemError } from "../api/client";
import { HealthIcon } from "./Health";
import { Icon, type IconName } from "./Icon";
import { Button } from "./Button";

/** Grey bars in place of text that is still loading. */
export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div className="stack-s" aria-hidden="true">
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} className="skeleton" style={{ width: `${90 - ((i * 23) % 50)}%`, marginBlock: 4 }} />
      ))}
    </div>
  );
}

/** Empty state of a page or panel, with what to do about it. */
export function Empty({ icon, title, children }: { icon?: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      {icon && <Icon name={icon} size={24} />}
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Error message in one sentence, with a next step if one exists. */
export function ProblemNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { title, detail, hint } = explain(error);
  return (
    <div className="note h-failing" role="alert">
      <HealthIcon status="failing" />
      <div className="stack-s grow">
        <p>
          <b>{title}</b>
        </p>
        {detail && <p>{detail}</p>}
        {hint && <p className="muted">{hint}</p>}
        {onRetry && (
          <div>
            <Button small icon="refresh" onClick={onRetry}>
              Try again
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}

function explain(error: unknown): { title: string; detail: string; hint?: string } {
  if (!(error instanceof ProblemError)) return { title: "Something went wrong", detail: error instanceof Error ? error.message : String(error) };
  const { problem } = error;
  const detail = problem.detail;
  switch (problem.reason) {
    case "Offline":
      return { title: "No connection", detail };
    case "Forbidden":
      return { title: "Not allowed", detail, hint: "A cluster administrator can grant access with a Role and RoleBinding." };
    case "NotFound":
      return { title: "Not found", detail, hint: "It may have been deleted." };
    case "PreconditionFailed":
    case "Conflict":
      return { title: "Changed by another user", detail, hint: "Nothing was changed. Review the current state, then try again." };
    case "TooManyRequests":
      return { title: "Too many requests", detail, hint: "Wait a few seconds and try again." };
    case "AlreadyExists":
      return { title: "Already exists", detail, hint: "Choose another name." };
    default:
      return { title: problem.title || "Request failed", detail, ...(problem.requestId ? { hint: `Request ID: ${problem.requestId}` } : {}) };
  }
}

/** Full-page error for an instance or kind that cannot be shown. */
export function ProblemPage({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const forbidden = error instanceof ProblemError && error.status === 403;
  const missing = error instanceof ProblemError && error.status === 404;
  if (!forbidden && !missing) {
    return <ProblemNote error={error} {...(onRetry ? { onRetry } : {})} />;
  }
  return (
    <div className="panel">
      <Empty icon={forbidden ? "lock" : "search"} title={forbidden ? "Not allowed" : "Not found"}>
        <p>{error.message}</p>
        {forbidden && <p className="muted">A cluster administrator can grant access with a Role and RoleBinding.</p>}
        {missing && <p className="muted">It may have been deleted.</p>}
      </Empty>
    </div>
  );
}
