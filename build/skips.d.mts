interface JestReport {
  readonly testResults: readonly {
    readonly assertionResults?: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

export function readSkips(report: JestReport): Map<string, string[]>
export function skipProblems(skips: Map<string, string[]>, allowed: readonly string[] | undefined): string[]
