export function RunView(_: Record<string, unknown>) { return null; }
