/** A button that copies a text. */
import { toast } from "./toast";

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <button type="button" class="button small" onClick={() => void copy(text)}>
      {label}
    </button>
  );
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    // Browsers have no clipboard for pages over plain HTTP from another host.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    toast(copied ? "Copied." : "This browser does not let the page copy. Select the text and copy it yourself.");
  }
}
