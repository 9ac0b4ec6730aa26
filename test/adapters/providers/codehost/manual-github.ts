/**
 * Scripted GitHub API: a function answers each request in the next turn of the event loop, so tests see which requests
 * ran concurrently.
 */
import type { Clock } from '../../../../core/ports/clock.ts'
import type { PullRequestApi } from '../../../../core/ports/code-host.ts'
import { type Refused, type Result, yes } from '../../../../core/result.ts'
import { createGithubPullHost } from '../../../../providers/codehost/github/pulls.ts'
import { createGithubApi } from '../../../../providers/github/api.ts'
import type { ClientPool, ServiceRequest } from '../../../../providers/http/client-types.ts'
import type { HttpReply } from '../../../../providers/http/http-types.ts'

export const TOKEN = 'ghp_planted'
export const SHA = 'a'.repeat(40)

export interface ManualReply {
  readonly status?: number
  readonly json?: unknown
  readonly text?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface ManualRequest extends ServiceRequest {
  /** Method, path and query. */
  readonly target: string
  readonly json: unknown
  /** Requests of one batch were all sent before any of them was answered. */
  readonly batch: number
}

export interface ManualGithub {
  readonly clients: ClientPool
  readonly requests: ManualRequest[]
  targets(): string[]
}

const API = 'https://api.github.com'

/** `reply`: undefined answers 404. */
export function createManualGithub(
  reply: (request: ManualRequest) => ManualReply | Refused | undefined,
): ManualGithub {
  const requests: ManualRequest[] = []
  let batch = 1
  let pendingBatch: Promise<void> | undefined
  const answerBatch = () =>
    new Promise<void>((resolve) =>
      setImmediate(() => {
        pendingBatch = undefined
        batch += 1
        resolve()
      }),
    )
  const send = async (request: ServiceRequest): Promise<Result<HttpReply>> => {
    const target = `${request.method} ${request.url.slice(API.length)}`
    const recorded = {
      ...request,
      target,
      json: request.body === undefined ? undefined : JSON.parse(request.body),
      batch,
    }
    requests.push(recorded)
    pendingBatch ??= answerBatch()
    await pendingBatch
    const replied = reply(recorded)
    return replied !== undefined && 'ok' in replied ? replied : yes(replyOf(replied))
  }
  return {
    clients: { clientFor: () => ({ send }) },
    requests,
    targets: () => requests.map(({ target }) => target),
  }
}

function replyOf(spec: ManualReply | undefined): HttpReply {
  const { status = 200, json, text, headers = {} } = spec ?? { status: 404, json: { message: 'Not Found' } }
  return { status, headers, text: text ?? JSON.stringify(json) ?? '' }
}

export function hostOf(manual: ManualGithub, clock: Pick<Clock, 'after'>): PullRequestApi {
  const api = createGithubApi({ token: TOKEN }, manual.clients)
  if (!api.ok) throw new Error(api.refusal.message)
  return createGithubPullHost(api.value, clock)
}

// ---- replies --------------------------------------------------------------------------------------------------------

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

/** Replies for an ordinary pull request; `others` overrides replies by the beginning of the target. */
export function usualReplies(others: Readonly<Record<string, ManualReply>> = {}) {
  return ({ target }: ManualRequest): ManualReply | undefined => {
    const override = Object.keys(others).find((start) => target.startsWith(start))
    if (override !== undefined) return others[override]
    if (target.startsWith('POST /graphql')) return { json: threadsJson() }
    if (/\/check-runs/.test(target)) return { json: { total_count: 0, check_runs: [] } }
    if (/\/status\?/.test(target)) return { json: { state: 'pending', total_count: 0, statuses: [] } }
    if (/\/pulls\/12$/.test(target)) return { json: pullJson() }
    return /\/(files|commits|comments|reviews)\?/.test(target) ? { json: [] } : undefined
  }
}
