import type { HealthStatus } from "../api/types";
import { HEALTH_WORDS } from "../lib/text";

/** Icon of a health status, distinguished by shape as well as colour. */
export function HealthIcon({ status, size = 14, label = false }: { status: HealthStatus; size?: number; label?: boolean }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 14 14"
      className={`health-icon h-${status}`}
      {...(label ? { role: "img", "aria-label": HEALTH_WORDS[status] } : { "aria-hidden": true })}
    >
      {status === "ready" && (
        <>
          <circle cx="7" cy="7" r="6" fill="currentColor" />
          <path d="M4.300 7.200l1.900 1.900 3.500-4" fill="none" stroke="var(--surface)" strokeWidth="1.600" strokeLinecap="round" strokeLinejoin="round" />
        </>
      )}
      {status === "progressing" && (
        <g className="spin">
          <circle cx="7" cy="7" r="5.200" fill="none" stroke="currentColor" strokeOpacity="0.3" strokeWidth="1.800" />
          <path d="M7 1.800a5.200 5.200 0 0 1 5.200 5.200" fill="none" stroke="currentColor" strokeWidth="1.800" strokeLinecap="round" />
        </g>
      )}
      {status === "failing" && (
        <>
          <path d="M7 .9l6.300 11.600H.7z" fill="currentColor" stroke="currentColor" strokeWidth="1" strokeLinejoin="round" />
          <path d="M7 5v3.300M7 10.300h.01" stroke="var(--surface)" strokeWidth="1.500" strokeLinecap="round" />
        </>
      )}
      {status === "paused" && (
        <>
          <circle cx="7" cy="7" r="6" fill="currentColor" />
          <path d="M5.400 4.600v4.800M8.600 4.600v4.800" stroke="var(--surface)" strokeWidth="1.500" strokeLinecap="round" />
        </>
      )}
      {status === "unknown" && (
        <circle cx="7" cy="7" r="5.200" fill="none" stroke="currentColor" strokeWidth="1.600" strokeDasharray="2 2.100" />
      )}
    </svg>
  );
}

/** Icon and label of a health status. */
export function HealthLabel({ status, word }: { status: HealthStatus; word?: string }) {
  return (
    <span className={`health h-${status}`}>
      <HealthIcon status={status} />
      {word ?? HEALTH_WORDS[status]}
    </span>
  );
}
