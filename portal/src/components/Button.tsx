import { useId, type ButtonHTMLAttributes, type ReactNode } from "react";
import { Icon, type IconName } from "./Icon";

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  icon?: IconName;
  variant?: "primary" | "danger" | "danger solid" | "quiet" | "";
  small?: boolean;
  /** Reason why the button is disabled. The button stays reachable by keyboard, so that the reason can be read. */
  disabledReason?: string | undefined;
  disabled?: boolean;
  children?: ReactNode;
}

/** A button; `disabledReason` disables it and explains why. */
export function Button({ icon, variant = "", small = false, disabledReason, disabled = false, className = "", children, onClick, ...rest }: ButtonProps) {
  const id = useId();
  const blocked = disabledReason !== undefined;
  return (
    <>
      <button
        type="button"
        className={`btn ${variant} ${small ? "s" : ""} ${children === undefined ? "icon" : ""} ${className}`}
        disabled={disabled}
        aria-disabled={blocked || undefined}
        aria-describedby={blocked ? id : undefined}
        title={disabledReason}
        onClick={blocked ? (click) => { click.preventDefault(); } : onClick}
        {...rest}
      >
        {icon && <Icon name={icon} />}
        {children}
      </button>
      {blocked && (
        <span id={id} className="sr-only">
          {disabledReason}
        </span>
      )}
    </>
  );
}
