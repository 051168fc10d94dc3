import { useEffect, useId, useRef, type ReactNode } from "react";
import { Button } from "./Button";

/** A modal dialog: traps focus, closes on Escape, then restores focus. */
export function Dialog({ title, wide = false, onClose, children, footer }: { title: string; wide?: boolean; onClose: () => void; children: ReactNode; footer?: ReactNode }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dialog ${wide ? "wide" : ""}`}
      aria-labelledby={id}
      onCancel={(cancel) => {
        cancel.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <Button icon="close" variant="quiet" aria-label="Close" onClick={onClose} />
      </header>
      <div className="body">{children}</div>
      {footer && <footer>{footer}</footer>}
    </dialog>
  );
}
