export function WhatIfView(_: Record<string, unknown>) { return null; }
