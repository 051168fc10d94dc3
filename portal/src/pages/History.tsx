import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { accessQuery, compareQuery, historyQuery, instanceQuery, kindQuery } from "../api/queries";
import { ActionDialog } from "../components/ActionDialog";
import { Age } from "../components/Age";
import { Button } from "../components/Button";
import { Changes, UnifiedDiff } from "../components/Changes";
import { HealthIcon } from "../components/Health";
import { ProblemNote, ProblemPage, Skeleton } from "../components/States";
import { instanceParams, keyFromParams } from "../lib/links";
import { changeWords } from "../lib/text";

/** Revisions of an instance: compares any two, restores any one. */
export function HistoryPage() {
  const target = keyFromParams(useParams({ from: "/kinds/$kind/$namespace/$name/history" }));
  const search = useSearch({ from: "/kinds/$kind/$namespace/$name/history" });
  const navigate = useNavigate({ from: "/kinds/$kind/$namespace/$name/history" });
  const kind = useQuery(kindQuery(target.kind));
  const access = useQuery(accessQuery(target.kind, target.namespace, target.name));
  const object = useQuery(instanceQuery(target));
  const history = useQuery(historyQuery(target));
  const [restore, setRestore] = useState<number>();
  const rollback = kind.data?.actions.find((action) => action.name === "rollback");
  const refusal = access.data?.actions.rollback?.allowed === false ? access.data.actions.rollback.reason || "You do not have permission to roll back." : undefined;
  const revisions = history.data ?? [];
  const current = revisions.find((revision) => revision.current)?.revision;
  const to = search.to ?? current ?? revisions[0]?.revision;
  const from = search.from ?? revisions.find((revision) => revision.revision !== to)?.revision;

  if (history.error && !history.data) return <ProblemPage error={history.error} onRetry={() => void history.refetch()} />;
  return (
    <div className="page">
      <nav className="crumbs" aria-label="Breadcrumb">
        <Link to="/kinds/$kind" params={{ kind: target.kind }}>
          {kind.data?.kind ?? target.kind}
        </Link>
        <span aria-hidden="true">/</span>
        <Link to="/kinds/$kind/$namespace/$name" params={instanceParams(target)}>
          {target.name}
        </Link>
      </nav>
      <header className="page-header">
        <div className="grow">
          <h1>History of {target.name}</h1>
          <p className="muted">Each accepted change to the spec is a revision. Select two to compare.</p>
        </div>
      </header>
      {revisions.length > 0 && current === undefined && (
        <div className="note h-unknown" role="status">
          <HealthIcon status="unknown" />
          <p>{target.name} was changed elsewhere since revision {revisions[0]?.revision}. The current state is recorded as a revision on the next change made here.</p>
        </div>
      )}
      <section className="panel" aria-label="Revisions">
        {history.isPending ? (
          <div className="body">
            <Skeleton lines={5} />
          </div>
        ) : (
          <table className="revision-table">
            <thead>
              <tr>
                <th scope="col">From</th>
                <th scope="col">To</th>
                <th scope="col">Revision</th>
                <th scope="col">By</th>
                <th scope="col">Changes</th>
                <th scope="col">Age</th>
                <th scope="col">
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {revisions.map((revision) => (
                <tr key={revision.revision}>
                  <td>
                    <input type="radio" name="from" aria-label={`Compare from revision ${revision.revision}`} checked={from === revision.revision} onChange={() => void navigate({ search: { from: revision.revision, to }, replace: true })} />
                  </td>
                  <td>
                    <input type="radio" name="to" aria-label={`Compare to revision ${revision.revision}`} checked={to === revision.revision} onChange={() => void navigate({ search: { from, to: revision.revision }, replace: true })} />
                  </td>
                  <td className="tabular">
                    {revision.revision} {revision.current && <span className="chip">current</span>}
                  </td>
                  <td>{revision.by || "unknown"}</td>
                  <td>{revision.changes.slice(0, 3).map(changeWords).join(", ") || "created"}</td>
                  <td className="muted">
                    <Age at={revision.at} />
                  </td>
                  <td>
                    {!revision.current && rollback && (
                      <Button small disabledReason={refusal} onClick={() => { setRestore(revision.revision); }}>
                        Roll back
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {from !== undefined && to !== undefined && from !== to && <Comparison target={target} from={from} to={to} />}
      {restore !== undefined && rollback && (
        <ActionDialog
          target={target}
          action={{ ...rollback, title: "Roll back" }}
          value={restore}
          seen={object.data}
          onClose={() => { setRestore(undefined); }}
          onDone={() => void navigate({ to: "/kinds/$kind/$namespace/$name", params: instanceParams(target) })}
        />
      )}
    </div>
  );
}

function Comparison({ target, from, to }: { target: Parameters<typeof compareQuery>[0]; from: number; to: number }) {
  const comparison = useQuery(compareQuery(target, from, to));
  return (
    <section className="panel" aria-labelledby="comparison">
      <header>
        <h2 id="comparison">
          Revision {from} to revision {to}
        </h2>
      </header>
      <div className="body stack">
        {comparison.error && <ProblemNote error={comparison.error} />}
        {comparison.isPending && <Skeleton lines={4} />}
        {comparison.data && (
          <>
            <Changes changes={comparison.data.changes} empty="The revisions are identical." />
            {comparison.data.yaml && <UnifiedDiff text={comparison.data.yaml} label="Changes as YAML" />}
          </>
        )}
      </div>
    </section>
  );
}
