/** What the server answers, as docs/api.md describes it. Fields that the page does not use are left out. */
export type * from "./curves";
export type * from "./incidents";
export type * from "./runs";
export type * from "./settings";
