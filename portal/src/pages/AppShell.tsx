import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, ProblemError } from "../api/client";
import { reportSession, useConnection } from "../api/connection";
import { meQuery, overviewQuery, queryClient } from "../api/queries";
import type { KindSummary, Me } from "../api/types";
import { Button } from "../components/Button";
import { HealthIcon } from "../components/Health";
import { Icon } from "../components/Icon";
import { Menu } from "../components/Menu";
import { SearchPalette } from "../components/SearchPalette";
import { Skeleton } from "../components/States";
import { Toasts } from "../components/Toasts";
import { ChangeFeed } from "../components/ChangeFeed";
import { applyTheme, currentTheme } from "../lib/theme";
import { worstHealth } from "../lib/health";
import { LoginPage, SessionEnded } from "./Login";

/** Layout of every page: top bar, kinds, and the states of connection and session. */
export function AppShell() {
  const me = useQuery(meQuery);
  const connection = useConnection();
  const unauthorized = me.error instanceof ProblemError && me.error.status === 401;
  if (!me.data) {
    if (unauthorized) return <LoginPage />;
    if (me.error) return <ServerLost onRetry={() => void me.refetch()} />;
    return <div className="boot" aria-busy="true" />;
  }
  return (
    <>
      <Shell me={me.data} />
      {connection.session === "ended" && <SessionEnded />}
      <Toasts />
    </>
  );
}

function Shell({ me }: { me: Me }) {
  const [searching, setSearching] = useState(false);
  const [navOpen, setNavOpen] = useState(false);
  const connection = useConnection();
  const location = useLocation();
  const main = useRef<HTMLElement>(null);

  useEffect(() => {
    const onKey = (press: KeyboardEvent): void => {
      if ((press.metaKey || press.ctrlKey) && press.key.toLowerCase() === "k") {
        press.preventDefault();
        setSearching(true);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => {
      window.removeEventListener("keydown", onKey);
    };
  }, []);

  const firstPath = useRef(location.pathname);
  useEffect(() => {
    setNavOpen(false);
    // After navigation, keyboard and screen reader continue at the new page, not at the old link.
    if (firstPath.current !== location.pathname) main.current?.focus({ preventScroll: true });
    firstPath.current = location.pathname;
  }, [location.pathname]);

  return (
    <div className="shell">
      <a className="skip-link" href="#main">
        Skip to content
      </a>
      <header className="topbar">
        <Button className="nav-toggle" icon="menu" variant="quiet" aria-label="Kinds" aria-expanded={navOpen} onClick={() => { setNavOpen(!navOpen); }} />
        <Link to="/" className="brand">
          <span className="brand-mark">
            <Icon name="wheel" size={18} />
          </span>
          Steersman
        </Link>
        <button type="button" className="search-button" aria-label="Search kinds, instances, actions" onClick={() => { setSearching(true); }}>
          <Icon name="search" />
          <span className="grow">Search kinds, instances, actions</span>
          <span className="kbd" aria-hidden="true">{isMac() ? "⌘K" : "Ctrl K"}</span>
        </button>
        <span className="cluster" title={`Kubernetes ${me.cluster.version}`}>
          <span className="truncate">{me.cluster.name}</span>
          <span className="muted small">{me.cluster.version}</span>
        </span>
        <ThemeToggle />
        <UserMenu me={me} />
      </header>
      {connection.server === "lost" && (
        <div className="banner" role="status">
          <Icon name="offline" />
          Server unreachable. Showing the last known state; reconnecting…
        </div>
      )}
      <div className="columns">
        <Sidebar open={navOpen} />
        {navOpen && <div className="scrim" aria-hidden="true" onClick={() => { setNavOpen(false); }} />}
        <main id="main" ref={main} tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      {searching && <SearchPalette onClose={() => { setSearching(false); }} />}
    </div>
  );
}

function isMac(): boolean {
  return navigator.userAgent.includes("Mac");
}

function ThemeToggle() {
  const [theme, setTheme] = useState(currentTheme);
  const next = theme === "dark" ? "light" : "dark";
  return (
    <Button
      icon={theme === "dark" ? "sun" : "moon"}
      variant="quiet"
      aria-label={`Switch to ${next} theme`}
      onClick={() => {
        applyTheme(next, true);
        setTheme(next);
      }}
    />
  );
}

function UserMenu({ me }: { me: Me }) {
  const signOut = async (): Promise<void> => {
    await api.DELETE("/v1/session");
    queryClient.clear();
    reportSession("open");
    window.location.assign("/");
  };
  return (
    <Menu label={`Signed in as ${me.username}`} icon="user" text={me.username}>
      {() => (
        <>
          <div className="info">
            Signed in as <b>{me.username}</b>
            {me.groups.length > 0 && (
              <>
                <br />
                {me.groups.join(", ")}
              </>
            )}
          </div>
          {me.via === "session" && (
            <>
              <hr />
              <button type="button" onClick={() => void signOut()}>
                Sign out
              </button>
            </>
          )}
        </>
      )}
    </Menu>
  );
}

function Sidebar({ open }: { open: boolean }) {
  const overview = useQuery(overviewQuery);
  return (
    <nav className={`sidebar ${open ? "open" : ""}`} aria-label="Main">
      <ul>
        <li>
          <Link to="/" className="nav-item" activeOptions={{ exact: true }}>
            <Icon name="overview" size={14} />
            <span className="grow">Overview</span>
          </Link>
        </li>
        <li>
          <Link to="/operator" className="nav-item">
            <Icon name="operator" size={14} />
            <span className="grow">Operator</span>
          </Link>
        </li>
      </ul>
      <h2>Kinds</h2>
      {overview.data ? (
        <ul>
          {overview.data.kinds.map((kind) => (
            <KindItem key={kind.name} kind={kind} />
          ))}
          {overview.data.kinds.length === 0 && <li className="nav-note muted small">No custom kinds installed.</li>}
        </ul>
      ) : (
        <div className="nav-note">
          <Skeleton lines={4} />
        </div>
      )}
      <h2>Recent changes</h2>
      <div className="nav-note">
        <ChangeFeed entries={(overview.data?.changes ?? []).slice(0, 6)} compact />
      </div>
    </nav>
  );
}

function KindItem({ kind }: { kind: KindSummary }) {
  return (
    <li>
      <Link to="/kinds/$kind" params={{ kind: kind.name }} className="nav-item" title={kind.name}>
        {kind.denied === null ? <HealthIcon status={worstHealth(kind)} label={(kind.total ?? 0) > 0} /> : <Icon name="lock" size={14} />}
        <span className="grow truncate">{kind.kind}</span>
        <span className="tabular muted">{kind.total ?? ""}</span>
      </Link>
    </li>
  );
}

function ServerLost({ onRetry }: { onRetry: () => void }) {
  return (
    <main className="login">
      <div className="panel login-card">
        <Icon name="offline" size={24} />
        <h1>Server unreachable</h1>
        <p className="muted">
          Check that <code>steer serve</code> is running and reachable.
        </p>
        <Button variant="primary" icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      </div>
    </main>
  );
}
