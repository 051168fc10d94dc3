import type { HealthStatus, KindSummary } from "../api/types";
import { HEALTH_ORDER } from "./text";

/** Returns the most urgent health among a kind's instances; `unknown` if there are none. */
export function worstHealth(kind: KindSummary): HealthStatus {
  return HEALTH_ORDER.find((status) => (kind.health[status] ?? 0) > 0) ?? "unknown";
}
