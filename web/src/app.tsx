/** The page: chooses the view that the address names. */
import { useEffect, useState } from "preact/hooks";
import { useKeys } from "./keyboard";
import { Header } from "./parts/frame";
import { Help } from "./parts/help";
import { Empty } from "./parts/notice";
import { Toasts } from "./parts/toast";
import { followLinks, go, useAddress } from "./router";
import { listIn } from "./address";
import { CompareView } from "./views/compare/compare";
import { IncidentView } from "./views/incident/incident";
import { OverviewView } from "./views/overview/overview";
import { RunView } from "./views/run/run";
import { WhatIfView } from "./views/whatif/whatif";

export function App() {
  const address = useAddress();
  const [help, setHelp] = useState(false);
  useKeys({ "?": () => setHelp(true), g: () => go("/") });
  useEffect(() => {
    addEventListener("click", followLinks);
    return () => removeEventListener("click", followLinks);
  }, []);

  const { view, run, incident, query } = address;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <Header onHelp={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        {view === "overview" && <OverviewView query={query} />}
        {view === "run" && run !== null && <RunView key={run} id={run} query={query} />}
        {view === "incident" && incident !== null && <IncidentView key={incident} run={run} id={incident} />}
        {view === "compare" && <CompareView key={listIn(query, "runs").join()} query={query} />}
        {view === "what-if" && run !== null && <WhatIfView key={run} id={run} query={query} />}
        {view === "unknown" && (
          <Empty>
            <p>There is nothing at this address.</p>
            <a class="button" href="/">
              Show all runs
            </a>
          </Empty>
        )}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
      <Toasts />
    </>
  );
}
