import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, body, INSTANCES, instancesAt } from "../api/client";
import { useLiveInstance } from "../api/live";
import { accessQuery, instanceQuery, kindQuery, namespacesQuery, type InstanceKey } from "../api/queries";
import type { JsonObject, K8sObject, Kind } from "../api/types";
import { Empty, ProblemPage, Skeleton } from "../components/States";
import { ObjectEditor } from "../form/ObjectEditor";
import { hasOpenSpec } from "../form/schema";
import { instanceParams, keyFromParams } from "../lib/links";
import { editable } from "../lib/yaml";

function Loading() {
  return (
    <div className="page">
      <div className="panel">
        <div className="body">
          <Skeleton lines={10} />
        </div>
      </div>
    </div>
  );
}

/** Page to create an instance by form and YAML. */
export function CreatePage() {
  const { kind: kindName } = useParams({ from: "/kinds/$kind/new" });
  const search = useSearch({ from: "/kinds/$kind/new" });
  const kind = useQuery(kindQuery(kindName));
  const access = useQuery(accessQuery(kindName, search.namespace));
  const navigate = useNavigate();
  const namespaces = useQuery(namespacesQuery);
  const others = useQuery({
    queryKey: ["copies", kindName],
    queryFn: ({ signal }) => body(api.GET(INSTANCES, { params: { path: instancesAt(kindName), query: { limit: 50, fields: "metadata.name,metadata.namespace" } }, signal })),
    retry: false,
  });
  const [chosen, setFrom] = useState(search.copy ? `${search.namespace ?? ""}/${search.copy}` : undefined);
  // A schema with an open spec declares no fields: those of an existing instance are better than none.
  const first = others.data?.items[0]?.object.metadata;
  const from = chosen ?? (kind.data && !kind.data.sample && hasOpenSpec(kind.data) && first ? `${first.namespace ?? ""}/${first.name ?? ""}` : undefined);
  const source = sourceKey(kindName, from);
  const copied = useQuery({ ...instanceQuery(source ?? { kind: kindName, namespace: undefined, name: "" }), enabled: source !== undefined });
  const namespace = search.namespace ?? "default";
  const initial = useMemo(() => {
    if (!kind.data) return undefined;
    if (source) return copied.data ? blank(kind.data, namespace, editable(copied.data)) : undefined;
    return blank(kind.data, namespace, from === undefined && kind.data.sample ? editable(kind.data.sample) : undefined);
    // `source` is derived from `from`.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [kind.data, copied.data, from, namespace]);

  if (kind.error) return <ProblemPage error={kind.error} />;
  if (access.data?.create && !access.data.create.allowed) {
    return (
      <div className="page">
        <div className="panel">
          <Empty icon="lock" title="Not allowed">
            <p>{access.data.create.reason || `You do not have permission to create ${kindName}.`}</p>
          </Empty>
        </div>
      </div>
    );
  }
  if (!kind.data || !initial || others.isPending) return <Loading />;
  return (
    <div className="page">
      <nav className="crumbs" aria-label="Breadcrumb">
        <Link to="/kinds/$kind" params={{ kind: kindName }}>
          {kind.data.kind}
        </Link>
      </nav>
      <ObjectEditor
        key={from ?? (kind.data.sample ? "sample" : "")}
        kind={kind.data}
        mode="create"
        base={initial}
        namespaces={namespaces.data ?? [namespace]}
        starts={
          <div className="field">
            <label htmlFor="start">Start from</label>
            <select id="start" className="select" value={from ?? (kind.data.sample ? "sample" : "")} onChange={(change) => { setFrom(change.target.value === "sample" ? undefined : change.target.value); }}>
              {kind.data.sample && <option value="sample">Sample</option>}
              <option value="">Empty form</option>
              {(others.data?.items ?? []).map(({ object: { metadata } }) => (
                <option key={`${metadata.namespace ?? ""}/${metadata.name ?? ""}`} value={`${metadata.namespace ?? ""}/${metadata.name ?? ""}`}>
                  Copy of {metadata.name}
                </option>
              ))}
            </select>
          </div>
        }
        onDone={(object) => {
          const { name = "", namespace: created } = object.metadata;
          void navigate({ to: "/kinds/$kind/$namespace/$name", params: instanceParams({ kind: kindName, namespace: created, name }) });
        }}
      />
    </div>
  );
}

function sourceKey(kind: string, from: string | undefined): InstanceKey | undefined {
  if (!from) return undefined;
  const [namespace, name] = from.split("/");
  return name ? { kind, namespace: namespace || undefined, name } : undefined;
}

function blank(kind: Kind, namespace: string, source: JsonObject | undefined): JsonObject {
  const rest: JsonObject = { ...(source ?? { spec: {} }) };
  for (const name of ["apiVersion", "kind", "metadata"]) Reflect.deleteProperty(rest, name);
  return {
    apiVersion: kind.group ? `${kind.group}/${kind.version}` : kind.version,
    kind: kind.kind,
    metadata: kind.namespaced ? { name: "", namespace } : { name: "" },
    ...rest,
  };
}

/** Page to edit an instance by form and YAML. */
export function EditPage() {
  const target = keyFromParams(useParams({ from: "/kinds/$kind/$namespace/$name/edit" }));
  const kind = useQuery(kindQuery(target.kind));
  const object = useQuery({ ...instanceQuery(target), staleTime: Infinity, refetchOnMount: "always", refetchOnWindowFocus: false });
  const access = useQuery(accessQuery(target.kind, target.namespace, target.name));
  const live = useLiveInstance(target);
  const navigate = useNavigate();
  const [first, setFirst] = useState<K8sObject>();
  if (!first && object.data && !object.isFetching) setFirst(object.data);

  if (kind.error) return <ProblemPage error={kind.error} />;
  if (object.error) return <ProblemPage error={object.error} />;
  if (access.data?.patch && !access.data.patch.allowed) {
    return (
      <div className="page">
        <div className="panel">
          <Empty icon="lock" title="Not allowed">
            <p>{access.data.patch.reason || "You do not have permission to edit this instance."}</p>
          </Empty>
        </div>
      </div>
    );
  }
  if (!kind.data || !first) return <Loading />;
  const back = (): void => void navigate({ to: "/kinds/$kind/$namespace/$name", params: instanceParams(target) });
  return (
    <div className="page">
      <nav className="crumbs" aria-label="Breadcrumb">
        <Link to="/kinds/$kind" params={{ kind: target.kind }}>
          {kind.data.kind}
        </Link>
        <span aria-hidden="true">/</span>
        <Link to="/kinds/$kind/$namespace/$name" params={instanceParams(target)}>
          {target.name}
        </Link>
      </nav>
      <ObjectEditor
        kind={kind.data}
        mode="edit"
        target={target}
        base={editable(first)}
        version={first.metadata.resourceVersion}
        current={live.item?.object}
        onDone={back}
      />
    </div>
  );
}
