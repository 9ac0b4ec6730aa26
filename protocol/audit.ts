/**
 * The trail of actions: who did what from which source.
 *
 * A line of the trail is the JSON of one `AuditEntry`. Only names, ids and the paths of settings stand in it, and never a
 * value that somebody gave, so no secret can.
 */

/** A program of ours names itself in this header; requests without it come from `api`. */
export const SOURCE_HEADER = 'x-switchyard-source'
export const NAMED_SOURCES = ['page', 'command', 'mcp'] as const
export type NamedSource = (typeof NAMED_SOURCES)[number]
export const SOURCES = [...NAMED_SOURCES, 'api', 'worker', 'join-key', 'file', 'host'] as const
/** The origin of an action. `file`: an edit of config.json. `host`: the host by itself. */
export type ActionSource = (typeof SOURCES)[number]

export interface AuditAction {
  readonly source: ActionSource
  /** The name of a route, such as `cancelRun`, or what happened without a route. */
  readonly action: string
  /** The worker or the join key whose credential was sent. */
  readonly by?: string
  readonly on?: Readonly<Record<string, string | number>>
  /** The paths of what was given, as in `policy.paused`. */
  readonly keys?: readonly string[]
  /** The status of the answer; of `stopHost`, the exit code. */
  readonly status?: number
}

export interface AuditEntry extends AuditAction {
  /** Counts from 1, without a gap. */
  readonly n: number
  readonly at: string
  /** The number of actions before this one that could not be written. */
  readonly missed?: number
  /** Over this entry and the hash of the one before it. */
  readonly hash: string
}
