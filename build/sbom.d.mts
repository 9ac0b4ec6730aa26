interface LockFile {
  readonly packages: Readonly<
    Record<
      string,
      {
        readonly version?: string
        readonly resolved?: string
        readonly integrity?: string
        readonly license?: string
        readonly dev?: boolean
      }
    >
  >
}

export function packagesIn(sources: readonly string[]): string[]
export function formatSbom(names: readonly string[], lock: LockFile): string
