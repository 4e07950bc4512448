/** The keyboard help. */
import { HELP } from "../keyboard";
import { Dialog } from "./dialog";

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="keys">
        {HELP.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p class="muted">On a chart: drag to zoom in, double-click to show the whole run.</p>
    </Dialog>
  );
}
