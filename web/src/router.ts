/** Where the page is: the browser's address is the only state that outlives a view. */
import { useEffect, useState } from "preact/hooks";
import { parseAddress, withQuery, type Address } from "./address";

const MOVED = "klarm:moved";

export function useAddress(): Address {
  const [address, setAddress] = useState(here);
  useEffect(() => {
    const read = () => setAddress(here());
    addEventListener("popstate", read);
    addEventListener(MOVED, read);
    return () => {
      removeEventListener("popstate", read);
      removeEventListener(MOVED, read);
    };
  }, []);
  return address;
}

export function go(address: string): void {
  if (address === location.pathname + location.search) return;
  history.pushState(null, "", address);
  dispatchEvent(new Event(MOVED));
  scrollTo(0, 0);
}

/** Change values in the query. `push` makes it a step that the Back button undoes. */
export function setQuery(changes: Record<string, string | null>, push = false): void {
  const address = location.pathname + withQuery(new URLSearchParams(location.search), changes);
  if (address === location.pathname + location.search) return;
  history[push ? "pushState" : "replaceState"](null, "", address);
  dispatchEvent(new Event(MOVED));
}

/** Follow links within the page without loading it again. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/api/") || link.pathname === "/login") return;
  event.preventDefault();
  go(link.pathname + link.search);
}

const here = () => parseAddress(location.pathname, location.search);
