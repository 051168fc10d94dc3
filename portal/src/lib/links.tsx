import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { InstanceKey } from "../api/queries";
import type { Ref } from "../api/types";

/** Stands for "no namespace" in the address of a cluster-scoped instance. */
export const CLUSTER_SCOPED = "_";

/** The parameters of an instance's address. */
export function instanceParams(key: InstanceKey): { kind: string; namespace: string; name: string } {
  return { kind: key.kind, namespace: key.namespace ?? CLUSTER_SCOPED, name: key.name };
}

/** The instance that an address names. */
export function keyFromParams(params: { kind: string; namespace: string; name: string }): InstanceKey {
  return { kind: params.kind, namespace: params.namespace === CLUSTER_SCOPED ? undefined : params.namespace, name: params.name };
}

/** A link to the page of an object, or its plain name if its kind is gone. */
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
