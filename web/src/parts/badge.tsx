/** A state as a word with a shape and a colour: never the colour alone. */
import { healthText, tone } from "../format/names";

const SHAPES = { critical: "▲", warning: "◆", ok: "●", neutral: "○" };

export function Badge({ kind, text }: { kind: string; text?: string }) {
  const style = tone(kind);
  return (
    <span class={`badge badge-${style}`}>
      <span aria-hidden="true">{SHAPES[style]}</span> {text ?? healthText(kind)}
    </span>
  );
}
