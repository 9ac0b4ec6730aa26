/**
 * GitHub's API in a test's own hand: every errand is answered by a function, in the next turn of the loop, so that a
 * test can see what was asked at once and what one after the other.
 */

import type { Clock } from '../../../../core/ports.ts'
import type { PullRequestApi } from '../../../../core/provider-ports.ts'
import { type Refused, type Result, yes } from '../../../../core/result.ts'
import { createGithubApi } from '../../../../providers/codehost/github/api.ts'
import { createGithubPullHost } from '../../../../providers/codehost/github/pulls.ts'
import type { ClientPool, ServiceRequest } from '../../../../providers/http/client-types.ts'
import type { HttpReply } from '../../../../providers/http/http.ts'

export const TOKEN = 'ghp_planted'
export const SHA = 'a'.repeat(40)

export interface Told {
  readonly status?: number
  readonly json?: unknown
  readonly text?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface Asked extends ServiceRequest {
  /** Method, path and query below the API. */
  readonly line: string
  readonly json: unknown
  /** In which round it was asked: those of one round were all asked before any of them was answered. */
  readonly round: number
}

export interface Hand {
  readonly clients: ClientPool
  readonly asked: Asked[]
  lines(): string[]
}

const API = 'https://api.github.com'

/** `tell`: undefined is a 404. */
export function byHand(tell: (asked: Asked) => Told | Refused | undefined): Hand {
  const asked: Asked[] = []
  let round = 1
  let turn: Promise<void> | undefined
  const nextTurn = () =>
    new Promise<void>((resolve) =>
      setImmediate(() => {
        turn = undefined
        round += 1
        resolve()
      }),
    )
  const ask = async (errand: ServiceRequest): Promise<Result<HttpReply>> => {
    const line = `${errand.method} ${errand.url.slice(API.length)}`
    const one = {
      ...errand,
      line,
      json: errand.body === undefined ? undefined : JSON.parse(errand.body),
      round,
    }
    asked.push(one)
    turn ??= nextTurn()
    await turn
    const told = tell(one)
    return told !== undefined && 'ok' in told ? told : yes(replyOf(told))
  }
  return { clients: { clientFor: () => ({ send: ask }) }, asked, lines: () => asked.map((one) => one.line) }
}

function replyOf(told: Told | undefined): HttpReply {
  const { status = 200, json, text, headers = {} } = told ?? { status: 404, json: { message: 'Not Found' } }
  return { status, headers, text: text ?? JSON.stringify(json) ?? '' }
}

export function hostOf(hand: Hand, clock: Pick<Clock, 'after'>): PullRequestApi {
  const api = createGithubApi({ token: TOKEN }, hand.clients)
  if (!api.ok) throw new Error(api.refusal.message)
  return createGithubPullHost(api.value, clock)
}

// ---- what GitHub answers -------------------------------------------------------------------------------------------

export const pullJson = (more: object = {}) => ({
  number: 12,
  node_id: 'PR_12',
  html_url: 'https://github.com/ada/lamps/pull/12',
  title: 'Mend the lamp',
  state: 'open',
  draft: false,
  merged_at: null,
  user: { login: 'ada' },
  body: 'Words',
  created_at: '2026-11-01T10:00:00Z',
  updated_at: '2026-11-02T10:00:00Z',
  head: { ref: 'mend', sha: SHA, repo: { full_name: 'ada/lamps' } },
  base: { ref: 'main', repo: { full_name: 'ada/lamps' } },
  mergeable: true,
  mergeable_state: 'clean',
  additions: 3,
  deletions: 1,
  changed_files: 1,
  ...more,
})

export const threadsJson = (nodes: readonly unknown[] = [], more = {}) => ({
  data: {
    repository: {
      pullRequest: {
        reviewThreads: { pageInfo: { hasPreviousPage: false, startCursor: null, ...more }, nodes },
      },
    },
  },
})

/** A pull request with nothing special about it, but for what is told otherwise by the beginning of its line. */
export function usual(others: Readonly<Record<string, Told>> = {}) {
  return ({ line }: Asked): Told | undefined => {
    const other = Object.keys(others).find((start) => line.startsWith(start))
    if (other !== undefined) return others[other]
    if (line.startsWith('POST /graphql')) return { json: threadsJson() }
    if (/\/check-runs/.test(line)) return { json: { total_count: 0, check_runs: [] } }
    if (/\/status\?/.test(line)) return { json: { state: 'pending', total_count: 0, statuses: [] } }
    if (/\/pulls\/12$/.test(line)) return { json: pullJson() }
    return /\/(files|commits|comments|reviews)\?/.test(line) ? { json: [] } : undefined
  }
}
