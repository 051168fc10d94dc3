import type { ErrorSchema } from "@rjsf/utils";
import type { Problem } from "../api/types";
import { parsePath } from "../lib/paths";

/** A cause that matches no field of the form. */
export interface LooseError {
  field: string;
  message: string;
}

interface MutableErrors {
  __errors?: string[];
  [key: string]: MutableErrors | string[] | undefined;
}

/** Maps the server's causes to form fields; returns those outside the form's root separately. */
export function fieldErrors(problem: Problem, root: readonly string[]): { errors: ErrorSchema; loose: LooseError[] } {
  const errors: MutableErrors = {};
  const loose: LooseError[] = [];
  for (const cause of problem.causes) {
    const path = parsePath(cause.field);
    const inside = root.every((segment, i) => path[i] === segment) && path.length > root.length;
    if (!inside) {
      loose.push({ field: cause.field, message: cause.message });
      continue;
    }
    let at = errors;
    for (const segment of path.slice(root.length)) {
      const next = (at[String(segment)] ??= {}) as MutableErrors;
      at = next;
    }
    (at.__errors ??= []).push(cause.message);
  }
  return { errors: errors as ErrorSchema, loose };
}
