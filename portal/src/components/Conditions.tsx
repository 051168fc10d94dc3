import type { Condition, HealthStatus } from "../api/types";
import { Age } from "./Age";
import { HealthIcon } from "./Health";

// Abnormal-true conditions: `True` means unhealthy. For all others, `True` means healthy.
const NEGATIVE = /fail|error|degraded|stalled|pressure|irreconcilable|unavailable/i;

/** Maps a condition to a health status: `ReleaseFailed=True` is failing, `Ready=True` is ready. */
export function conditionHealth(condition: Condition): HealthStatus {
  const negative = NEGATIVE.test(condition.type);
  if (condition.status === "Unknown") return "progressing";
  if (condition.status === "True") return negative ? "failing" : /progressing|reconciling/i.test(condition.type) ? "progressing" : "ready";
  return negative ? "ready" : "unknown";
}

/** Conditions in order of their last transition. */
export function Conditions({ conditions }: { conditions: readonly Condition[] }) {
  const sorted = [...conditions].sort((a, b) => (a.lastTransitionTime ?? "").localeCompare(b.lastTransitionTime ?? ""));
  return (
    // Scrollable content must be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <ol className="timeline" tabIndex={0} aria-label="Conditions, oldest change first">
      {sorted.map((condition) => (
        <li key={condition.type} title={condition.message}>
          <span className="point">
            <HealthIcon status={conditionHealth(condition)} size={12} />
          </span>
          <p>
            <b>{condition.type}</b> <span className="muted">{condition.status}</span>
          </p>
          <p className="muted small truncate">
            <Age at={condition.lastTransitionTime} suffix=" ago" />
            {condition.reason ? ` · ${condition.reason}` : ""}
          </p>
        </li>
      ))}
    </ol>
  );
}
