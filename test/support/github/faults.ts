/** What can be made to go wrong, while a test watches. Everything is off at first. */
export interface GithubFaults {
  /** Only requests like this one ("GET /repos/o/r/pulls") are hit; undefined: all of the API. */
  matching: RegExp | undefined
  /** How long every answer of the API takes. */
  latencyMs: number
  /** The hour's quota is said to be gone. */
  primary: 403 | 429 | undefined
  /** Too much at once; without seconds there is no `retry-after`. */
  secondary: { readonly status: 403 | 429; readonly retryAfterSeconds?: number } | undefined
  /** A proxy's page instead of JSON. */
  badGateway: boolean
  /** The connection breaks off without an answer, and nothing was done. */
  reset: boolean
  /** The connection breaks off without an answer, but it was done. */
  loseReplies: boolean
  /** Full names of repositories that answer 503. */
  readonly down: Set<string>
  /** Check runs are forbidden to every token. */
  checksForbidden: boolean
  /** So many merges find that the base was just modified. */
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
