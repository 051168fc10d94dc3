import { useEffect, useRef, useState, type ReactNode } from "react";
import { Button } from "./Button";
import type { IconName } from "./Icon";

/** A button that opens a list of commands; arrow keys move the focus, Escape closes the list. */
export function Menu({ label, icon, text, children }: { label: string; icon: IconName; text?: string; children: (close: () => void) => ReactNode }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (press: PointerEvent): void => {
      if (!root.current?.contains(press.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    root.current?.querySelector<HTMLElement>(".menu-list button, .menu-list a")?.focus();
    return () => {
      document.removeEventListener("pointerdown", outside);
    };
  }, [open]);
  const close = (): void => {
    setOpen(false);
    root.current?.querySelector<HTMLElement>("button")?.focus();
  };
  const onKeyDown = (press: React.KeyboardEvent): void => {
    if (!open) return;
    if (press.key === "Escape") {
      press.stopPropagation();
      close();
    }
    if (press.key !== "ArrowDown" && press.key !== "ArrowUp") return;
    press.preventDefault();
    const items = [...(root.current?.querySelectorAll<HTMLElement>(".menu-list button, .menu-list a") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    items[(at + (press.key === "ArrowDown" ? 1 : -1) + items.length) % items.length]?.focus();
  };
  return (
    // Handles key events of the buttons inside; the element itself is not focusable.
    // eslint-disable-next-line jsx-a11y/no-static-element-interactions
    <div className="menu" ref={root} onKeyDown={onKeyDown}>
      <Button icon={icon} variant="quiet" aria-label={label} aria-expanded={open} onClick={() => { setOpen(!open); }}>
        {text === undefined ? undefined : <span className="menu-text">{text}</span>}
      </Button>
      {open && <div className="menu-list">{children(close)}</div>}
    </div>
  );
}
