import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ProblemError } from "../api/client";
import { operatorQuery } from "../api/queries";
import { Age } from "../components/Age";
import { Empty, ProblemPage, Skeleton } from "../components/States";

/** Page of the operator: queue, reconciles, errors and latest log lines. */
export function OperatorPage() {
  const operator = useQuery(operatorQuery);
  const none = operator.error instanceof ProblemError && operator.error.status === 404;
  return (
    <div className="page">
      <header className="page-header">
        <div className="grow">
          <h1>Operator</h1>
          <p className="muted">Queue, reconciles and errors, from the operator metrics.</p>
        </div>
      </header>
      {none && (
        <div className="panel">
          <Empty icon="operator" title="No operator metrics available">
            <p>
              Start <code>steer serve</code> with <code>--operator-metrics</code> to show them here. Each instance's page shows its activity.
            </p>
          </Empty>
        </div>
      )}
      {operator.error && !none && !operator.data && <ProblemPage error={operator.error} onRetry={() => void operator.refetch()} />}
      {operator.isPending && (
        <div className="panel">
          <div className="body">
            <Skeleton lines={5} />
          </div>
        </div>
      )}
      {operator.data?.operators.map((each) => (
        <section key={each.name} className="panel" aria-label={each.name}>
          <header>
            <h2>{each.name}</h2>
            {each.leader !== null && <span className="chip">{each.leader ? "leader" : "standby"}</span>}
            {each.startedAt && (
              <span className="muted small">
                up <Age at={each.startedAt} />
              </span>
            )}
          </header>
          {each.problem && <p className="body h-failing">{each.problem}</p>}
          <dl className="stat-grid">
            <Stat title="Queue depth" value={each.queue?.depth} />
            <Stat title="Reconciles" value={each.reconciles ? each.reconciles.success + each.reconciles.error : undefined} />
            <Stat title="Errors" value={each.reconciles?.error} />
            <Stat title="Reconciles per minute" value={each.reconciles?.perMinute ?? undefined} />
            <Stat title="Reconcile time (p50)" value={each.latency ? seconds(each.latency.p50) : undefined} />
            <Stat title="Reconcile time (p99)" value={each.latency ? seconds(each.latency.p99) : undefined} />
          </dl>
          {each.kinds.length > 0 && (
            <p className="body muted small">
              Watches{" "}
              {each.kinds.map((kind, i) => (
                <span key={kind}>
                  {i > 0 && ", "}
                  <Link to="/kinds/$kind" params={{ kind }}>
                    {kind}
                  </Link>
                </span>
              ))}
            </p>
          )}
        </section>
      ))}
      {operator.data && operator.data.log.length > 0 && (
        <section className="panel" aria-labelledby="log">
          <header>
            <h2 id="log">Latest log lines</h2>
          </header>
          {/* Scrollable text must be reachable by keyboard. */}
          {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
          <pre className="log" tabIndex={0} aria-label="Log">
            {operator.data.log.map((line, i) => (
              <span key={i} className={line.level.toLowerCase() === "error" ? "h-failing" : undefined}>
                <span className="muted">{line.at.slice(11, 19)}</span> {line.level.padEnd(5)} {line.message}
                {"\n"}
              </span>
            ))}
          </pre>
        </section>
      )}
    </div>
  );
}

function Stat({ title, value }: { title: string; value: number | string | undefined }) {
  return (
    <div className="stat">
      <dt>{title}</dt>
      <dd>{value ?? "–"}</dd>
    </div>
  );
}

function seconds(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
}
