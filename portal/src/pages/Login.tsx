import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, ProblemError } from "../api/client";
import { reportSession } from "../api/connection";
import { meQuery, queryClient, signInWaysQuery } from "../api/queries";
import { Button } from "../components/Button";
import { Dialog } from "../components/Dialog";
import { Icon } from "../components/Icon";

function TokenForm() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const signIn = async (): Promise<void> => {
    setBusy(true);
    setProblem("");
    try {
      await api.POST("/v1/session", { body: { token: token.trim() } });
      reportSession("open");
      await queryClient.resetQueries({ queryKey: meQuery.queryKey });
      await queryClient.invalidateQueries();
    } catch (error) {
      setProblem(error instanceof ProblemError && error.status === 401 ? "The cluster does not accept this token." : (error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="stack-s"
      onSubmit={(submit) => {
        submit.preventDefault();
        void signIn();
      }}
    >
      <label htmlFor="token">Token</label>
      <input
        id="token"
        className="input mono"
        type="password"
        autoComplete="off"
        spellCheck={false}
        required
        value={token}
        aria-invalid={problem !== ""}
        aria-describedby="token-help"
        onChange={(change) => { setToken(change.target.value); }}
      />
      <p id="token-help" className={problem ? "h-failing small" : "muted small"} aria-live="polite">
        {problem || (
          <>
            Get a service account token with <code>kubectl create token NAME</code>.
          </>
        )}
      </p>
      <Button variant="primary" type="submit" disabled={busy || token.trim() === ""}>
        Sign in
      </Button>
    </form>
  );
}

/** Messages for the reasons why a sign-in with the provider failed. */
const FAILURES: Record<string, string> = {
  refused: "Sign-in was denied or timed out. Try again.",
  unavailable: "The identity provider is not responding correctly. Try again, or use a token.",
};

/** Link to sign in with the OpenID provider, if configured; the browser then returns to this page. */
function ProviderLink() {
  const { data } = useQuery(signInWaysQuery);
  if (!data?.oidc) return null;
  const parameters = new URLSearchParams(window.location.search);
  const failure = FAILURES[parameters.get("sign-in") ?? ""];
  parameters.delete("sign-in");
  const here = window.location.pathname + (parameters.size > 0 ? `?${parameters.toString()}` : "");
  return (
    <div className="stack-s">
      {failure && (
        <p className="h-failing small" role="alert">
          {failure}
        </p>
      )}
      <a className="btn primary" href={`${data.oidc.url}?next=${encodeURIComponent(here)}`}>
        Sign in with {new URL(data.oidc.issuer).host}
      </a>
      <p className="muted small">Or sign in with a cluster token.</p>
    </div>
  );
}

/** Sign-in page: with an OpenID provider, the link that `steer` prints, or a token. */
export function LoginPage() {
  return (
    <main className="login">
      <div className="panel login-card">
        <span className="brand-mark large">
          <Icon name="wheel" size={28} />
        </span>
        <h1>Sign in to Steersman</h1>
        <p className="muted">
          Open the one-time link printed by <code>steer dev</code> or <code>steer serve</code>, or sign in with a cluster token.
        </p>
        <ProviderLink />
        <TokenForm />
      </div>
    </main>
  );
}

/** Dialog over the page when the session ends; typed input is kept. */
export function SessionEnded() {
  return (
    <Dialog title="Your session has ended" onClose={() => { reportSession("open"); }}>
      <p className="muted">Sign in again to continue. Unsaved input is kept if you use a token.</p>
      <ProviderLink />
      <TokenForm />
    </Dialog>
  );
}
