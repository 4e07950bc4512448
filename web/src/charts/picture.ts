/** The charts on the screen as one PNG file. */

const GAP = 16;
const TITLE = 24;

/** Put every chart below `root` into one picture and offer it as a download. */
export async function savePicture(root: HTMLElement, title: string, file: string): Promise<void> {
  const parts = [...root.querySelectorAll<HTMLElement>("figure")].flatMap((figure) => {
    const canvas = figure.querySelector("canvas");
    return canvas && canvas.width > 0 ? [{ canvas, name: figure.dataset["name"] ?? "" }] : [];
  });
  const ratio = devicePixelRatio;
  const style = getComputedStyle(document.documentElement);
  const width = Math.max(...parts.map((part) => part.canvas.width), 1) + 2 * GAP * ratio;

  // Charts stand in rows, as many side by side as fit below the widest.
  let [x, y, rowHeight] = [GAP * ratio, (GAP + TITLE) * ratio, 0];
  const placed = parts.map((part) => {
    if (x > GAP * ratio && x + part.canvas.width > width - GAP * ratio + 1) {
      [x, y, rowHeight] = [GAP * ratio, y + rowHeight + GAP * ratio, 0];
    }
    const at = { ...part, x, y };
    x += part.canvas.width + GAP * ratio;
    rowHeight = Math.max(rowHeight, part.canvas.height + TITLE * ratio);
    return at;
  });

  const picture = document.createElement("canvas");
  picture.width = width;
  picture.height = y + rowHeight + GAP * ratio;
  const context = picture.getContext("2d");
  if (!context) throw new Error("This browser cannot draw the picture.");
  context.fillStyle = style.getPropertyValue("--surface");
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = style.getPropertyValue("--text");
  context.font = `600 ${16 * ratio}px ${style.getPropertyValue("--font")}`;
  context.textBaseline = "top";
  context.fillText(title, GAP * ratio, GAP * ratio);
  context.font = `${12 * ratio}px ${style.getPropertyValue("--font")}`;
  for (const part of placed) {
    context.fillText(part.name, part.x, part.y + 4 * ratio);
    context.drawImage(part.canvas, part.x, part.y + TITLE * ratio);
  }
  const blob = await new Promise<Blob | null>((done) => picture.toBlob(done, "image/png"));
  if (!blob) throw new Error("This browser cannot save the picture.");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
