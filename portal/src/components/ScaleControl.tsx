import { useEffect, useState } from "react";
import { Button } from "./Button";

/** Stepper for the replica count; a change is reviewed before it is applied. */
export function ScaleControl({ current, refusal, onAsk }: { current: number | undefined; refusal: string | undefined; onAsk: (value: number) => void }) {
  const [wanted, setWanted] = useState(current ?? 0);
  useEffect(() => {
    setWanted(current ?? 0);
  }, [current]);
  const changed = wanted !== (current ?? 0);
  return (
    <div className="scale" role="group" aria-label="Scale">
      <span className="muted">Replicas</span>
      <span className="stepper">
        <Button icon="minus" variant="quiet" aria-label="Decrease replicas" disabledReason={refusal} disabled={wanted <= 0} onClick={() => { setWanted(wanted - 1); }} />
        <input
          type="number"
          min={0}
          aria-label="Replicas"
          value={wanted}
          disabled={refusal !== undefined}
          onChange={(change) => { setWanted(Math.max(0, Math.trunc(Number(change.target.value) || 0))); }}
        />
        <Button icon="plus" variant="quiet" aria-label="Increase replicas" disabledReason={refusal} onClick={() => { setWanted(wanted + 1); }} />
      </span>
      {changed && (
        <Button variant="primary" onClick={() => { onAsk(wanted); }}>
          Scale to {wanted}
        </Button>
      )}
    </div>
  );
}
