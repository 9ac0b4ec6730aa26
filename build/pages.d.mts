export const DASHBOARD: string
export const INSPECTOR: string

interface Output {
  readonly entryPoint?: string
  readonly imports: readonly { readonly path: string; readonly kind: string }[]
}

export function firstLoad(metafile: { readonly outputs: Readonly<Record<string, Output>> }): string[]
