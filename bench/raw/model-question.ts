/** The question that `model-vendor.ts` answers. */
export interface ModelQuestion {
  readonly events: number
  /** 0: as fast as the connection takes them. */
  readonly perMs: number
}
