import { ProblemError } from "./client";
import type { K8sObject } from "./types";

const ATTEMPTS = 5;

/**
 * Sends a write for the version that the user has seen. On a 412, retries with the current version if only parts that the
 * user did not write have changed, such as the status; otherwise throws the 412.
 */
export async function writeIfUnchanged<T>(version: string | undefined, unchanged: (current: K8sObject) => boolean, send: (version: string | undefined) => Promise<T>): Promise<T> {
  let at = version;
  for (let attempt = 1; ; attempt++) {
    try {
      return await send(at);
    } catch (error) {
      const current = error instanceof ProblemError && error.status === 412 ? error.problem.current : undefined;
      if (!current || attempt >= ATTEMPTS || !unchanged(current)) throw error;
      at = current.metadata.resourceVersion;
    }
  }
}
