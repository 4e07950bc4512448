export function CompareView(_: Record<string, unknown>) { return null; }
