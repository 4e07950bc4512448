/** What surrounds every view: the name, where one is, whether the page is live, the help. */
import type { ComponentChildren } from "preact";
import { useConnection } from "../api/hooks";

const SAID = { live: "Live", connecting: "Connecting …", lost: "Connection lost, retrying" };

export function Header({ onHelp }: { onHelp: () => void }) {
  const connection = useConnection();
  return (
    <header class="top">
      <a class="brand" href="/" aria-label="klarm: all runs">
        <svg viewBox="0 0 32 20" aria-hidden="true">
          <path d="M2 16h7l4-3 3-11 4 16h10" />
        </svg>
        klarm
      </a>
      <span class={`connection ${connection}`} role="status">
        {SAID[connection]}
      </span>
      <button type="button" class="button small" onClick={onHelp} aria-label="Keyboard help">
        ?
      </button>
    </header>
  );
}

export interface Crumb {
  text: string;
  address?: string;
}

export function Crumbs({ path }: { path: Crumb[] }) {
  return (
    <nav class="crumbs" aria-label="Where you are">
      <ol>
        {path.map(({ text, address }, at) => (
          <li key={at}>{address ? <a href={address}>{text}</a> : <span aria-current="page">{text}</span>}</li>
        ))}
      </ol>
    </nav>
  );
}

interface SectionProps {
  title: string;
  children: ComponentChildren;
  aside?: ComponentChildren;
  class?: string;
}

export function Section({ title, children, aside, class: extra = "" }: SectionProps) {
  return (
    <section class={`card ${extra}`} aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}
