/** Faults that a test can switch on; all are off at first. */
export interface GithubFaults {
  /** Affects matching requests only ("GET /repos/o/r/pulls"); undefined: the whole API. */
  matching: RegExp | undefined
  /** Delay of every API reply. */
  latencyMs: number
  /** Reports an exhausted hourly budget. */
  primary: 403 | 429 | undefined
  /** Reports a secondary limit; without seconds there is no `retry-after`. */
  secondary: { readonly status: 403 | 429; readonly retryAfterSeconds?: number } | undefined
  /** Answers with a proxy's HTML page. */
  badGateway: boolean
  /** Resets the connection before the request takes effect. */
  reset: boolean
  /** Resets the connection after the request took effect. */
  loseReplies: boolean
  /** Full names of repositories whose requests answer 503. */
  readonly down: Set<string>
  /** Forbids check runs to every token. */
  checksForbidden: boolean
  /** Number of merges that fail because the base was just modified. */
  baseModified: number
}

export function noFaults(): GithubFaults {
  return {
    matching: undefined,
    latencyMs: 0,
    primary: undefined,
    secondary: undefined,
    badGateway: false,
    reset: false,
    loseReplies: false,
    down: new Set(),
    checksForbidden: false,
    baseModified: 0,
  }
}
