import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { kindsQuery, overviewQuery } from "../api/queries";
import type { HealthStatus, KindSummary, Overview } from "../api/types";
import { Age } from "../components/Age";
import { ChangeFeed } from "../components/ChangeFeed";
import { HealthIcon } from "../components/Health";
import { Icon } from "../components/Icon";
import { Empty, ProblemPage, Skeleton } from "../components/States";
import { RefLink } from "../lib/links";
import { HEALTH_WORDS, count } from "../lib/text";

const BAR_ORDER: readonly HealthStatus[] = ["ready", "progressing", "failing", "paused", "unknown"];

/** Overview of kinds by health, failures with their reasons, and recent changes. */
export function OverviewPage() {
  const overview = useQuery(overviewQuery);
  const kinds = useQuery(kindsQuery);
  if (overview.error && !overview.data) return <ProblemPage error={overview.error} onRetry={() => void overview.refetch()} />;
  return (
    <div className="page">
      <header className="page-header">
        <div className="grow">
          <h1>Overview</h1>
          <p className="muted">{overview.data ? headline(overview.data) : " "}</p>
        </div>
      </header>
      {overview.data && overview.data.failing.length > 0 && <Failing failing={overview.data.failing} />}
      <section aria-label="Kinds" className="kind-grid">
        {overview.data?.kinds.map((kind) => (
          <KindCard key={kind.name} kind={kind} description={kinds.data?.find((each) => each.name === kind.name)?.description ?? ""} />
        ))}
        {!overview.data && [0, 1, 2].map((i) => (
          <div key={i} className="panel kind-card">
            <Skeleton lines={4} />
          </div>
        ))}
      </section>
      {overview.data?.kinds.length === 0 && (
        <div className="panel">
          <Empty icon="overview" title="No custom kinds">
            <p>Install a CustomResourceDefinition to see its kind here.</p>
          </Empty>
        </div>
      )}
      <section className="panel" aria-labelledby="recent">
        <header>
          <h2 id="recent">Recent changes</h2>
        </header>
        <div className="body">{overview.data ? <ChangeFeed entries={overview.data.changes.slice(0, 20)} /> : <Skeleton lines={4} />}</div>
      </section>
    </div>
  );
}

function headline(overview: Overview): string {
  const total = overview.kinds.reduce((sum, kind) => sum + (kind.total ?? 0), 0);
  const of = `${count(total, "instance")} of ${count(overview.kinds.length, "kind")}`;
  if (total === 0) return `${of}.`;
  if (overview.failing.length > 0) return `${of}, ${overview.failing.length} failing.`;
  const progressing = overview.kinds.reduce((sum, kind) => sum + (kind.health["progressing"] ?? 0), 0);
  return progressing > 0 ? `${of}, ${progressing} progressing, none failing.` : `${of}, none failing.`;
}

function Failing({ failing }: { failing: Overview["failing"] }) {
  return (
    <section className="panel" aria-labelledby="failing">
      <header>
        <h2 id="failing">Failing</h2>
        <span className="chip h-failing">{failing.length}</span>
      </header>
      <ul className="failing-list">
        {failing.map(({ ref, health }) => (
          <li key={`${ref.kind ?? ""}/${ref.namespace ?? ""}/${ref.name}`}>
            <HealthIcon status="failing" label />
            <div className="grow">
              <p>
                <RefLink target={ref} className="strong-link" /> <span className="muted">{[ref.kindName, ref.namespace].filter(Boolean).join(" · ")}</span>
              </p>
              <p className="reason">
                {health.message || health.reason || "The status gives no reason."}
                {health.message && health.reason && <span className="muted"> ({health.reason})</span>}
              </p>
            </div>
            <span className="muted small">
              <Age at={health.since} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function KindCard({ kind, description }: { kind: KindSummary; description: string }) {
  const total = kind.total ?? 0;
  return (
    <article className="panel kind-card">
      <div className="row">
        <h2 className="grow truncate">
          <Link to="/kinds/$kind" params={{ kind: kind.name }} className="card-link">
            {kind.kind}
          </Link>
        </h2>
        {kind.denied === null ? <span className="kind-total tabular">{total}</span> : <Icon name="lock" />}
      </div>
      <p className="muted small truncate" title={description || kind.name}>
        {description || kind.name}
      </p>
      {kind.denied === null ? (
        <>
          <div className="health-bar" aria-hidden="true">
            {total > 0 &&
              BAR_ORDER.filter((status) => (kind.health[status] ?? 0) > 0).map((status) => (
                <span key={status} className={`h-${status}`} style={{ flexGrow: kind.health[status] }} />
              ))}
          </div>
          <ul className="health-counts">
            {BAR_ORDER.filter((status) => (kind.health[status] ?? 0) > 0).map((status) => (
              <li key={status}>
                <HealthIcon status={status} size={12} />
                <span className="tabular">{kind.health[status]}</span> {HEALTH_WORDS[status].toLowerCase()}
              </li>
            ))}
            {total === 0 && <li className="muted">No instances</li>}
          </ul>
        </>
      ) : (
        <p className="small muted">{kind.denied}</p>
      )}
    </article>
  );
}
