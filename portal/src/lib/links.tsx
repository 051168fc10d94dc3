import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { InstanceKey } from "../api/queries";
import type { Ref } from "../api/types";

/** Placeholder for the missing namespace in the URL of a cluster-scoped instance. */
export const CLUSTER_SCOPED = "_";

/** Returns the route parameters of an instance. */
export function instanceParams(key: InstanceKey): { kind: string; namespace: string; name: string } {
  return { kind: key.kind, namespace: key.namespace ?? CLUSTER_SCOPED, name: key.name };
}

/** Returns the instance that route parameters identify. */
export function keyFromParams(params: { kind: string; namespace: string; name: string }): InstanceKey {
  return { kind: params.kind, namespace: params.namespace === CLUSTER_SCOPED ? undefined : params.namespace, name: params.name };
}

/** Link to an object's page, or its plain name if its kind no longer exists. */
export function RefLink({ target, children, className }: { target: Ref; children?: ReactNode; className?: string }) {
  if (!target.kind) return <span className={className}>{children ?? target.name}</span>;
  return (
    <Link
      className={className}
      to="/kinds/$kind/$namespace/$name"
      params={instanceParams({ kind: target.kind, namespace: target.namespace ?? undefined, name: target.name })}
    >
      {children ?? target.name}
    </Link>
  );
}
