/** What is shown in place of content: it is loading, it failed, or there is none. */
import type { ComponentChildren } from "preact";
import { overviewAddress } from "../address";
import type { ApiError } from "../api/client";

export function Failure({ error, retry }: { error: ApiError; retry: () => void }) {
  return (
    <div class="notice failed" role="alert">
      <p>{sentence(error.message)}</p>
      {error.code === "not_found" ? (
        <a class="button" href={overviewAddress()}>
          All runs
        </a>
      ) : (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="notice">{children}</div>;
}

export function Loading() {
  return (
    <div class="notice quiet" role="status">
      Loading …
    </div>
  );
}

/** The server's messages begin in lower case and have no full stop, as those of the command line. */
export function sentence(text: string, capital = true): string {
  const begun = capital ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
