import type { AuditEntry } from "../api/types";
import { RefLink } from "../lib/links";
import { baseForm, changeWords, pastTense } from "../lib/text";
import { Age } from "./Age";

/** List of who changed what, newest first. */
export function ChangeFeed({ entries, compact = false }: { entries: readonly AuditEntry[]; compact?: boolean }) {
  const shown = entries.filter((entry) => entry.ref !== null);
  if (shown.length === 0) return <p className="muted small">No changes made through this server yet.</p>;
  return (
    <ul className={compact ? "feed compact" : "feed"}>
      {shown.map((entry) => (
        <li key={entry.id}>
          <span className="grow">
            <b>{entry.user}</b> {entry.status >= 400 ? `was denied: ${baseForm(entry.action)}` : pastTense(entry.action)}{" "}
            {entry.ref && <RefLink target={entry.ref} />}
            {!compact && entry.changes.length > 0 && (
              <span className="muted"> · {entry.changes.slice(0, 2).map(changeWords).join(", ")}</span>
            )}
          </span>
          <span className="muted small">
            <Age at={entry.at} />
          </span>
        </li>
      ))}
    </ul>
  );
}
