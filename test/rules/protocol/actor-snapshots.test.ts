import { describe, expect, test } from '@jest/globals'
import type { TSchema } from 'typebox'
import {
  ConnectPollResponse,
  ConnectResponse,
  CredentialsRequest,
  CredentialsResponse,
  StorageConnectResponse,
  StorageStatus,
} from '../../../protocol/connect.ts'
import { CostEntry, CostTotals } from '../../../protocol/cost.ts'
import { AttachInput, AttachOutput, DashboardFrame, DashboardRequest } from '../../../protocol/dashboard.ts'
import { FleetDemandResponse } from '../../../protocol/demand.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { ProvisionRequest } from '../../../protocol/provision.ts'
import {
  CodehostRepo,
  MergeRequest,
  PullCheck,
  PullComment,
  PullDetail,
  PullListResponse,
  PullSummary,
  ReviewRequest,
  RunPullResponse,
} from '../../../protocol/pulls.ts'
import {
  ErrorBody,
  ResumeRunResponse,
  SettingsUpdateRequest,
  SettingsUpdateResponse,
} from '../../../protocol/routes.ts'
import { MemoriesResponse, ReportedEvent, Run, RunEvent, RunResult, Ticket } from '../../../protocol/run.ts'
import { asShape } from '../../../protocol/schema-errors.ts'
import { TrackerProject, TrackerStatus } from '../../../protocol/tracker.ts'
import { FleetResponse, HealthResponse, PairingTokenResponse, WorkerView } from '../../../protocol/worker.ts'
import * as examples from './examples.ts'

const { at, runId, run, ticket, maskedConfig: config } = examples
const health = { ok: true, version: '0.1.0', sandboxProvider: 'bwrap' }
const error = (schema: TSchema, value: unknown) => {
  const checked = createChecker(schema)(value)
  return checked.ok ? 'accepted' : checked.error
}

/** Returns the example without its optional keys, at every depth where the schema is a plain record. */
function least(schema: TSchema, value: unknown): unknown {
  const { required = [], properties = {} } = asShape(schema)
  if (Object.keys(properties).length === 0) return value
  const kept = Object.entries(Object(value)).filter(([key]) => required.includes(key))
  return Object.fromEntries(kept.map(([key, inner]) => [key, least(properties[key] ?? {}, inner)]))
}

const whole: [string, TSchema, unknown][] = [
  ['Ticket', Ticket, ticket],
  ['Run', Run, run],
  ['CostEntry', CostEntry, examples.costEntry],
  ['CostTotals', CostTotals, examples.costTotals],
  ['WorkerView', WorkerView, examples.worker],
  ['FleetResponse', FleetResponse, { workers: [examples.worker] }],
  ['FleetDemandResponse', FleetDemandResponse, examples.demand],
  [
    'HealthResponse',
    HealthResponse,
    { ...health, hostMemMib: 1, hostExecution: { kind: 'none', reason: 'bwrap-unavailable' } },
  ],
  [
    'HealthResponse of a host with a worker',
    HealthResponse,
    { ...health, hostExecution: { kind: 'local-worker' } },
  ],
  ['PairingTokenResponse', PairingTokenResponse, { token: 'wp-x', expiresAt: at }],
  [
    'ProvisionRequest',
    ProvisionRequest,
    {
      host: 'attic',
      port: 22,
      user: 'ada',
      identityFile: '/k',
      name: 'attic',
      concurrency: 2,
      hostKeySha256: 'SHA256:x',
    },
  ],
  ['MemoriesResponse', MemoriesResponse, { repos: { 'acme/lamps': [examples.memory] } }],
  ['TrackerStatus', TrackerStatus, { state: 'auth-error', error: 'revoked' }],
  ['TrackerProject', TrackerProject, examples.project],
  ['PullSummary', PullSummary, examples.pull],
  ['PullDetail', PullDetail, examples.pullDetail],
  [
    'PullListResponse',
    PullListResponse,
    { pulls: [examples.pull], errors: [{ repo: 'a', remote: 'a/b', message: 'gone' }] },
  ],
  [
    'CodehostRepo',
    CodehostRepo,
    { fullName: 'a/b', defaultBranch: 'main', private: true, description: '', pushedAt: at },
  ],
  ['StorageStatus', StorageStatus, examples.storage],
  ['ErrorBody', ErrorBody, { error: 'no' }],
  ['SettingsUpdateResponse', SettingsUpdateResponse, { config, applied: 'restart' }],
  [
    'ResumeRunResponse',
    ResumeRunResponse,
    { run, attach: { kind: 'worker', workerId: 'wk-1', workerName: 'attic' } },
  ],
  [
    'CredentialsRequest',
    CredentialsRequest,
    { trackerApiKey: 'x', codehostToken: '', agentAApiKey: 'y', agentCApiKey: 'z' },
  ],
  [
    'CredentialsResponse',
    CredentialsResponse,
    { results: { codehost: { ok: false, detail: 'refused' } }, config },
  ],
  ['connected', ConnectResponse, { status: 'connected', provider: 'agentA', detail: 'ok', config }],
  [
    'device',
    ConnectResponse,
    {
      status: 'device',
      provider: 'codehost',
      userCode: 'A-B',
      verificationUri: 'https://x',
      interval: 5,
      expiresIn: 900,
    },
  ],
  ['redirect', ConnectResponse, { status: 'redirect', provider: 'tracker', url: 'https://x' }],
  ['manual', ConnectResponse, { status: 'manual', provider: 'agentB', reason: 'no helper' }],
  ['poll pending', ConnectPollResponse, { status: 'pending' }],
  ['poll connected', ConnectPollResponse, { status: 'connected', detail: 'ok', config }],
  ['poll error', ConnectPollResponse, { status: 'error', detail: 'expired' }],
  ['storage connected', StorageConnectResponse, { status: 'connected', r2: examples.storage }],
  ['storage login', StorageConnectResponse, { status: 'login-started', detail: 'see your browser' }],
  ['storage unavailable', StorageConnectResponse, { status: 'unavailable', reason: 'not installed' }],
  [
    'hello',
    DashboardFrame,
    {
      type: 'hello',
      runs: [run],
      tickets: [ticket],
      config,
      linearStatus: { state: 'connected' },
      workers: [examples.worker],
    },
  ],
  ['config push', DashboardFrame, { type: 'config', config }],
  ['tickets push', DashboardFrame, { type: 'tickets', tickets: [ticket] }],
  ['workers push', DashboardFrame, { type: 'workers', workers: [] }],
  ['run-updated push', DashboardFrame, { type: 'run-updated', run }],
  [
    'linear-status push',
    DashboardFrame,
    { type: 'linear-status', linearStatus: { state: 'refresh-failing' } },
  ],
  ['subscribed', DashboardFrame, { type: 'subscribed', runId, next: 7 }],
  ['subscribe', DashboardRequest, { type: 'subscribe', runId }],
  ['confirmed subscribe', DashboardRequest, { type: 'subscribe', runId, confirm: true }],
  ['unsubscribe', DashboardRequest, { type: 'unsubscribe', runId }],
  ['attach data', AttachOutput, { type: 'data', data: '$ ' }],
  ['attach exit', AttachOutput, { type: 'exit', code: 0 }],
  ['attach error', AttachOutput, { type: 'error', message: 'the sandbox was reclaimed' }],
  ['attach input', AttachInput, { type: 'input', data: 'ls\r' }],
  ['attach resize', AttachInput, { type: 'resize', cols: 80, rows: 24 }],
  ...examples.events.flatMap((event): [string, TSchema, unknown][] => {
    const { runId: _, index: __, ...reported } = event
    return [
      [`event ${event.type}`, RunEvent, event],
      [`event push ${event.type}`, DashboardFrame, { type: 'run-event', event }],
      [`reported ${event.type}`, ReportedEvent, reported],
    ]
  }),
]

describe('every record', () => {
  test.each(whole)('%s: all keys, the least keys, one key too many', (_, schema, example) => {
    expect(error(schema, example)).toBe('accepted')
    expect(error(schema, least(schema, example))).toBe('accepted')
    expect(error(schema, JSON.parse(JSON.stringify(example)))).toBe('accepted')
    expect(error(schema, { ...Object(example), surplus: 1 })).toBe('/surplus: unknown key')
    expect(error(schema, [])).toMatch(/^\/: must be an object, not a list$/)
  })

  test.each(whole)('%s: a missing key is named', (_, schema, example) => {
    const { required = [] } = asShape(schema)
    for (const key of required) {
      const { [key]: _gone, ...rest } = Object(example)
      expect(error(schema, rest)).toBe(`/${key}: is required`)
    }
  })
})

describe('faults are named', () => {
  test.each<[string, TSchema, unknown, string]>([
    ['a priority', Ticket, { ...ticket, priority: 5 }, '/priority: must be at most 4, not 5'],
    [
      'a date without milliseconds',
      Ticket,
      { ...ticket, createdAt: '2026-03-01T08:30:00Z' },
      '/createdAt: must be an instant such as 2026-01-31T12:00:00.000Z',
    ],
    [
      'a date with an offset',
      Ticket,
      { ...ticket, createdAt: '2026-03-01T08:30:00.000+01:00' },
      '/createdAt: must have at most 24 characters',
    ],
    [
      'a status',
      Run,
      { ...run, status: 'done' },
      '/status: must be one of "queued", "preparing", "running", "finalizing", "completed", "failed", "cancelled", not "done"',
    ],
    ['an id that is a path', Run, { ...run, id: '../x' }, '/id: must be an id of letters, digits, - and _'],
    [
      'a negative count',
      CostEntry,
      { ...examples.costEntry, inputTokens: -1 },
      '/inputTokens: must be at least 0, not -1',
    ],
    [
      'too many at once',
      WorkerView,
      { ...examples.worker, capabilities: { ...examples.worker.capabilities, maxConcurrency: 65 } },
      '/capabilities/maxConcurrency: must be at most 64, not 65',
    ],
    [
      'a long memory',
      MemoriesResponse,
      { repos: { 'a/b': [{ ...examples.memory, text: 'x'.repeat(501) }] } },
      '/repos/a/b/0/text: must have at most 500 characters',
    ],
    [
      'a terminal of no size',
      AttachInput,
      { type: 'resize', cols: 0, rows: 24 },
      '/cols: must be at least 1, not 0',
    ],
    [
      'a merge method',
      MergeRequest,
      { method: 'octopus' },
      '/method: must be one of "merge", "squash", "rebase", not "octopus"',
    ],
    [
      'a review',
      ReviewRequest,
      { event: 'approve', body: '' },
      '/event: must be one of "APPROVE", "REQUEST_CHANGES", "COMMENT", not "approve"',
    ],
    ['a port', ProvisionRequest, { host: 'a', user: 'b', port: 0 }, '/port: must be at least 1, not 0'],
    [
      'a credential',
      CredentialsRequest,
      { codehostToken: 1 },
      '/codehostToken: must be a string, not a number',
    ],
    [
      'a port inside a patch',
      SettingsUpdateRequest,
      { patch: { server: { port: 70_000 } } },
      '/patch/server/port: must be at most 65535, not 70000',
    ],
    [
      'a typo inside a patch',
      SettingsUpdateRequest,
      { patch: { sever: {} } },
      '/patch/sever: unknown key, did you mean server?',
    ],
    ['no patch', SettingsUpdateRequest, {}, '/patch: is required'],
  ])('%s', (_, schema, value, message) => {
    expect(error(schema, value)).toBe(message)
  })

  test.each<[string, TSchema, unknown, string]>([
    ['a ticket', Ticket, ticket, 'url'],
    ['a run', Run, run, 'prUrl'],
    ["a run's result", RunResult, run.result, 'prUrl'],
    ['a pull request', PullSummary, examples.pull, 'url'],
    ['its details', PullDetail, examples.pullDetail, 'url'],
    ["a run's pull request", RunPullResponse, { url: '', number: 1, state: 'open' }, 'url'],
    ['a check', PullCheck, examples.pullDetail.checks[0], 'url'],
    ['a comment', PullComment, examples.pullDetail.conversation.comments[0], 'url'],
    ['a project', TrackerProject, examples.project, 'url'],
  ])('links in %s open a page or a file', (_, schema, example, key) => {
    for (const url of ['https://x.example/a?b#c', 'http://127.0.0.1:1', 'file:///srv/a%20b.md'])
      expect(error(schema, { ...Object(example), [key]: url })).toBe('accepted')
    for (const url of [
      'javascript:alert(1)',
      ' javascript:alert(1)',
      'data:text/html,x',
      '//x',
      'x',
      'https://',
      'https://a\nb',
    ])
      expect(error(schema, { ...Object(example), [key]: url })).toMatch(
        / an address that begins with https, http or file$/,
      )
    expect(error(schema, { ...Object(example), [key]: '' }) === 'accepted').toBe(schema === Ticket)
  })

  test('an instant is a valid calendar time', () => {
    const message = (createdAt: string) => error(Ticket, { ...ticket, createdAt })
    for (const fine of ['2024-02-29T23:59:59.999Z', '2026-12-31T00:00:00.000Z', '2026-10-20T19:09:10.010Z'])
      expect(message(fine)).toBe('accepted')
    for (const wrong of [
      '2026-13-01T00:00:00.000Z',
      '2026-00-01T00:00:00.000Z',
      '2026-01-32T00:00:00.000Z',
      '2026-01-00T00:00:00.000Z',
      '2026-01-01T24:00:00.000Z',
      '2026-01-01T00:60:00.000Z',
      '2026-01-01T00:00:60.000Z',
      '2026-01-01T00:00:00Z',
    ])
      expect(message(wrong)).toBe('/createdAt: must be an instant such as 2026-01-31T12:00:00.000Z')
  })

  test('null deletes any key in a patch, and a repository mapping may be patched partially', () => {
    for (const patch of [
      {},
      { tracker: null },
      { repos: { lamps: null } },
      { fleet: { host: null, tls: null } },
      { repos: { lamps: { label: 'x' } } },
      { repos: { lamps: { remote: null } } },
    ]) {
      expect(error(SettingsUpdateRequest, { patch })).toBe('accepted')
    }
  })
})
