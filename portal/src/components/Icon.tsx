import type { ReactNode } from "react";

const PATHS = {
  wheel: (
    <>
      <circle cx="8" cy="8" r="3.6" />
      <path d="M8 1.5v4M8 10.500v4M1.500 8h4M10.500 8h4M3.500 3.500l2 2M10.500 10.500l2 2M12.500 3.500l-2 2M5.500 10.500l-2 2" />
    </>
  ),
  overview: <path d="M2.500 2.500h4.500v5h-4.500zM9 2.500h4.500v3h-4.500zM9 7.500h4.500v6h-4.500zM2.500 9.500h4.500v4h-4.500z" />,
  operator: (
    <>
      <rect x="2.500" y="2.500" width="11" height="4.500" rx="1" />
      <rect x="2.500" y="9" width="11" height="4.500" rx="1" />
      <path d="M5 4.750h.01M5 11.250h.01" />
    </>
  ),
  search: (
    <>
      <circle cx="7" cy="7" r="4.250" />
      <path d="M10.250 10.250l3.250 3.250" />
    </>
  ),
  plus: <path d="M8 3v10M3 8h10" />,
  minus: <path d="M3.500 8h9" />,
  close: <path d="M4 4l8 8M12 4l-8 8" />,
  more: <path d="M3.500 8h.01M8 8h.01M12.500 8h.01" strokeWidth="2" />,
  edit: <path d="M3 13l.6-2.600 7.200-7.200a1.100 1.100 0 0 1 1.600 0l.4.4a1.100 1.100 0 0 1 0 1.600l-7.200 7.200L3 13z" />,
  trash: <path d="M3 4.500h10M6.500 4.500V3h3v1.500M4.500 4.500l.5 8.500h6l.5-8.500M6.700 7v3.500M9.300 7v3.500" />,
  back: <path d="M9.500 3.500L5 8l4.500 4.500" />,
  right: <path d="M6.500 3.500L11 8l-4.500 4.500" />,
  down: <path d="M3.500 6L8 10.500 12.500 6" />,
  up: <path d="M3.500 10L8 5.500l4.500 4.500" />,
  refresh: <path d="M13 3.500v3.200H9.800M3 12.500V9.300h3.200M12.600 6.700A5 5 0 0 0 4 5M3.400 9.300A5 5 0 0 0 12 11" />,
  history: <path d="M2.700 8a5.300 5.300 0 1 0 1.700-3.900L2.700 5.700M2.700 2.700v3h3M8 5v3.200l2 1.300" />,
  pause: <path d="M5.500 3.500v9M10.500 3.500v9" strokeWidth="2" />,
  play: <path d="M5 3.300v9.400L12.500 8 5 3.300z" />,
  bolt: <path d="M8.800 2L3.500 9h4l-.8 5 5.300-7h-4l.8-5z" />,
  sun: (
    <>
      <circle cx="8" cy="8" r="2.800" />
      <path d="M8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9" />
    </>
  ),
  moon: <path d="M13 9.400A5.400 5.400 0 0 1 6.600 3 5.400 5.400 0 1 0 13 9.400z" />,
  menu: <path d="M2.500 4.500h11M2.500 8h11M2.500 11.500h11" />,
  user: (
    <>
      <circle cx="8" cy="5.500" r="2.700" />
      <path d="M2.900 13.500c.6-2.600 2.600-4 5.100-4s4.500 1.400 5.100 4" />
    </>
  ),
  lock: (
    <>
      <rect x="3.500" y="7" width="9" height="6.500" rx="1.200" />
      <path d="M5.500 7V5.200a2.500 2.500 0 0 1 5 0V7" />
    </>
  ),
  info: (
    <>
      <circle cx="8" cy="8" r="5.800" />
      <path d="M8 7.300v3.700M8 5h.01" />
    </>
  ),
  offline: <path d="M2 2l12 12M8 12.500h.01M5.700 10.300a3.300 3.300 0 0 1 3.600-.7M3.600 8a6.300 6.300 0 0 1 2.600-1.500M8.700 6.100A6.300 6.300 0 0 1 12.400 8M1.500 5.700A9.300 9.300 0 0 1 4 4.200M6.900 3.400A9.300 9.300 0 0 1 14.500 5.700" />,
  check: <path d="M3 8.500l3.200 3.200L13 4.700" />,
  branch: (
    <>
      <circle cx="4.500" cy="3.700" r="1.600" />
      <circle cx="4.500" cy="12.300" r="1.600" />
      <circle cx="11.500" cy="5.700" r="1.600" />
      <path d="M4.500 5.300v5.400M11.500 7.300c0 2.400-4 1.700-6.400 3.600" />
    </>
  ),
} satisfies Record<string, ReactNode>;

/** Name of an icon. */
export type IconName = keyof typeof PATHS;

/** A 16 px line icon. It is decorative: the text is next to it or in the label of its button. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.500"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {PATHS[name]}
    </svg>
  );
}
