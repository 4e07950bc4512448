export function IncidentView(_: Record<string, unknown>) { return null; }
