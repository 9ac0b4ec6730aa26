/**
 * A complete example of every schema: all optional keys are present, so that tests derive the minimal example by
 * removing them.
 */
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { StorageStatus } from '../../../protocol/connect.ts'
import type { CostEntry, CostTotals } from '../../../protocol/cost.ts'
import type { FleetDemandResponse } from '../../../protocol/demand.ts'
import type {
  AgentJob,
  HostFrame,
  HostFrameType,
  WorkerFrame,
  WorkerFrameType,
} from '../../../protocol/frames.ts'
import type { PullDetail, PullSummary } from '../../../protocol/pulls.ts'
import type { RepoMemory, Run, RunEvent, Ticket } from '../../../protocol/run.ts'
import type { TrackerProject } from '../../../protocol/tracker.ts'
import type { WorkerView } from '../../../protocol/worker.ts'

export const at = '2026-03-01T08:30:00.000Z'
export const runId = 'run-0195a1b2c3d47e8f9a0b1c2d3e4f5a6b'
export const leaseId = 'ls-0195a1b2c3d47e8f9a0b1c2d3e4f5a6c'
export const workerId = 'wk-0123456789abcdef'

const tokens = { inputTokens: 10, outputTokens: 20, cacheReadTokens: 30, cacheWriteTokens: 40 }

export const ticket: Ticket = {
  id: 'a ticket/1',
  identifier: 'ENG-12',
  title: 'The lamp flickers',
  description: 'Only at night.',
  url: 'https://tracker.example/ENG-12',
  state: 'Todo',
  priority: 2,
  labels: ['bug'],
  assignee: 'ada',
  project: 'Lamps',
  branchName: 'ada/eng-12',
  repo: 'lamps',
  blockedBy: ['ENG-11'],
  createdAt: at,
  updatedAt: at,
}

export const costEntry: CostEntry = {
  label: 'run',
  provider: 'agentA',
  model: 'large',
  ...tokens,
  costUsd: 0.25,
  estimated: false,
  source: 'reported',
  breakdown: [{ model: 'large', ...tokens, costUsd: 0.25 }],
}

export const costTotals: CostTotals = {
  ...tokens,
  costUsd: 0.25,
  estimated: false,
  byModel: [{ model: 'large', ...tokens, costUsd: 0.25, estimated: false }],
}

export const run: Run = {
  id: runId,
  ticket,
  status: 'completed',
  sandbox: {
    provider: 'bwrap',
    id: 'sb-1',
    retainedUntil: at,
    workerId,
    unpublished: true,
    workerName: 'attic',
  },
  agentSessionId: '7d9c2a44',
  createdAt: at,
  queuedAt: at,
  queueReason: 'fleet at capacity',
  startedAt: at,
  finishedAt: at,
  result: {
    prUrl: 'https://code.example/1',
    branch: 'ada/eng-12',
    summary: 'Fixed.',
    artifacts: ['log.txt'],
  },
  error: 'none really',
  costs: [costEntry],
  costTotals,
  prUrl: 'https://code.example/1',
  prState: 'open',
  pull: { remote: 'ada/engine', number: 1, branch: 'switchyard/eng-12', confirmed: true },
  instructions: 'Use SQLite.',
  agent: { provider: 'agentB', model: 'large', effort: 'high' },
}

const place = { runId, index: 0, at }
export const events: RunEvent[] = [
  { ...place, type: 'status', from: 'queued', to: 'preparing', reason: 'accepted' },
  { ...place, type: 'log', stream: 'stderr', text: 'a line\n', phase: 'setup' },
  {
    ...place,
    type: 'agent',
    provider: 'agentA',
    message: { role: 'assistant', content: [{ any: 'thing' }] },
  },
  { ...place, type: 'artifact', name: 'log.txt', size: 12, contentType: 'text/plain' },
  { ...place, type: 'cost', entry: costEntry },
  { ...place, type: 'limit', provider: 'agentA', message: 'come back at noon', resetsAt: at },
  { ...place, type: 'gap', from: 4, to: 9 },
]

export const memory: RepoMemory = {
  id: 'mem-1',
  text: 'Tests need a database.',
  createdAt: at,
  updatedAt: at,
  hits: 2,
  ident: 'ENG-12',
}

const capabilities = {
  os: 'linux',
  arch: 'x64',
  provider: 'bwrap',
  maxConcurrency: 2,
  version: '0.1.0',
  agents: { agentA: { found: true, version: '2.1.0', loggedIn: false }, agentB: { found: false } },
}

export const worker: WorkerView = {
  id: workerId,
  name: 'attic',
  state: 'active',
  connection: 'online',
  local: true,
  capabilities,
  activeRuns: 1,
  enrolledAt: at,
  connectedAt: at,
  lastSeenAt: at,
  address: '192.0.2.7',
}

export const demand: FleetDemandResponse = {
  queuedRuns: 1,
  wanted: 1,
  activeRuns: 2,
  connectedWorkers: 3,
  spareCapacity: 4,
  worker: { id: workerId, connected: true, state: 'active', activeRuns: 1, attachSessions: 0 },
}

export const project: TrackerProject = {
  id: 'p-1',
  name: 'Lamps',
  key: 'LMP',
  url: 'https://tracker.example/p-1',
  state: 'started',
  teams: ['Light'],
}

export const storage: StorageStatus = {
  installed: true,
  loggedIn: true,
  account: 'ada',
  bucket: 'files',
  publicBaseUrl: 'https://files.example',
  ready: true,
}

export const pull: PullSummary = {
  repo: 'lamps',
  remote: 'acme/lamps',
  number: 7,
  url: 'https://code.example/acme/lamps/7',
  title: 'Fix the lamp',
  state: 'merged',
  author: 'ada',
  baseBranch: 'main',
  headBranch: 'ada/eng-12',
  createdAt: at,
  updatedAt: at,
  mergedAt: at,
}

const comment = { id: 'c-1', author: 'bob', body: 'Nice.', createdAt: at, url: 'https://code.example/c-1' }
const review = { id: 'r-1', author: 'bob', state: 'APPROVED', body: '', submittedAt: at }
const thread = {
  id: 't-1',
  resolved: false,
  path: 'lamp.c',
  line: 3,
  diffHunk: '@@ -1 +1 @@',
  comments: [comment],
}

export const pullDetail: PullDetail = {
  ...pull,
  body: 'As asked.',
  draft: false,
  headSha: 'c0ffee',
  mergeableState: 'clean',
  additions: 1,
  deletions: 1,
  changedFiles: 1,
  conversation: { comments: [comment], reviews: [review], threads: [thread] },
  files: [
    { path: 'lamp.c', previousPath: 'l.c', status: 'renamed', additions: 1, deletions: 1, patch: '@@' },
  ],
  commits: [{ sha: 'c0ffee', message: 'Fix', author: 'ada', committedAt: at }],
  checks: [
    { name: 'ci', status: 'completed', conclusion: 'success', url: 'https://ci.example', source: 'status' },
  ],
  checksLookupFailed: true,
}

/** Every key is set and every secret is masked: the most that a client may see. */
export const maskedConfig: ServiceConfig = {
  server: { host: '127.0.0.1', port: 4400, allowedOrigins: ['https://desk.example', 'null', 'app://desk'] },
  fleet: {
    host: '0.0.0.0',
    port: 4401,
    publicUrl: 'wss://fleet.example:4401',
    tls: { certFile: '/etc/cert.pem', keyFile: '/etc/key.pem' },
    insecure: false,
    heartbeatTimeoutSeconds: 45,
    reconnectGraceSeconds: 120,
    ephemeralSeconds: 600,
  },
  sandbox: {
    provider: 'bwrap',
    concurrency: 64,
    retentionHours: 0,
    network: 'allowlist',
    allowedHosts: ['registry.npmjs.org', '*.example.org:8443'],
    memoryMib: 2048,
    maxProcesses: 512,
    maxRunMinutes: 120,
    maxLogMib: 4096,
    maxArtifactsMib: 1_048_576,
    diskQuotaGib: 10,
    exposeCodehostToken: false,
  },
  agent: {
    provider: 'agentB',
    orchestratorModel: 'large',
    orchestratorEffort: 'high',
    maxCostUsd: 5,
    maxTurns: 100,
    keyInSandbox: false,
    serverTools: ['web_search', 'urls'],
    models: ['claude-*', 'gpt-6-sol'],
    prices: { 'claude-next': { input: 5, output: 25, cacheRead: 0.5, cacheWrite: 6.25 } },
    commands: { agentA: 'a --json', agentB: 'b', agentC: 'c' },
    agentAApiKey: '***',
    agentAOauthToken: '***',
    agentBApiKey: '***',
    agentBLogin: '***',
    agentCApiKey: '***',
    agentCLogin: '***',
  },
  tracker: {
    driver: 'linear',
    apiUrl: 'http://127.0.0.1:9000/graphql',
    apiKey: '***',
    refreshToken: '***',
    tokenExpiresAt: '***',
    whenTicketLeaves: 'stop',
    pollSeconds: 30,
    eligible: { states: ['Todo'], labels: ['bot'], projects: ['Lamps'], assignees: ['ada'] },
    startedState: 'In Progress',
    reviewState: 'In Review',
    doneState: 'Done',
    releasedState: 'Backlog',
    path: '/srv/tickets',
  },
  codehost: { driver: 'github', apiUrl: 'https://api.code.example', token: '***', path: '/srv/repos' },
  storage: { bucket: 'files', publicBaseUrl: 'https://files.example/x' },
  repos: {
    'acme/lamps': {
      remote: 'acme/lamps',
      cloneUrl: 'git@code.example:acme/lamps.git',
      defaultBranch: 'release/1.x',
      trackerProject: 'Lamps',
      label: 'lamps',
      agent: 'agentC',
      setup: 'npm ci',
      instructions: 'Be brief.',
      draftPulls: true,
    },
  },
  connect: {
    codehostClientId: 'Iv1.1',
    trackerClientId: 't-1',
    trackerClientSecret: '***',
    apiBase: 'https://helper.example',
  },
  worker: { local: true },
  policy: { paused: true },
}

export const job: AgentJob = {
  kind: 'follow-up',
  run,
  repo: {
    key: 'lamps',
    remote: 'acme/lamps',
    defaultBranch: 'main',
    cloneUrl: 'https://code.example/acme/lamps.git',
    setup: 'npm ci',
    hooks: { beforeAgent: 'make deps', afterAgent: 'make fmt' },
    allowWorkflows: false,
  },
  branch: 'ada/eng-12',
  base: 'main',
  agent: {
    provider: 'agentA',
    model: 'large',
    effort: 'low',
    command: 'agent --json',
    instructions: '',
    memories: ['Tests need a database.'],
  },
  credentials: {
    codehost: 'gh-1',
    agent: { kind: 'api-key', value: 'sk-1' },
    keyInSandbox: false,
    modelUse: {
      serverTools: ['web_search'],
      models: ['claude-*'],
      prices: [{ model: 'claude-next', input: 5, output: 25, cacheRead: 0.5, cacheWrite: 6.25 }],
    },
    tracker: 'lin-1',
  },
  codehost: {
    driver: 'local',
    apiUrl: 'https://api.code.example',
    path: '/srv/repos',
    draftPulls: true,
    closesIssue: 3,
  },
  sandbox: {
    network: 'none',
    allowedHosts: [],
    maxProcesses: 512,
    memoryMib: 1024,
    diskQuotaGib: 1,
    exposeCodehostToken: false,
  },
  pull: {
    number: 7,
    url: 'https://code.example/acme/lamps/7',
    headBranch: 'ada/eng-12',
    headRemote: 'ada/lamps',
    baseBranch: 'main',
    threads: [thread],
    reviews: [review],
    comments: [comment],
    unheard: ['eve'],
  },
  continueSession: '7d9c',
  followUp: { id: 'fu-1', number: 2 },
  limits: {
    maxMinutes: 120,
    maxCostUsd: 5,
    maxTurns: 100,
    logBytes: 1024,
    artifactBytes: 1024,
    unreachableSeconds: 20,
  },
  retentionHours: 24,
}

const lease = { id: leaseId, runId, expiresAt: at, lastSeq: 0 }
const numbered = { leaseId, seq: 1 }

/** An example of each type, so that a frame without an example does not compile. */
export const workerFrameExamples: { [T in WorkerFrameType]: Extract<WorkerFrame, { type: T }> } = {
  register: {
    type: 'register',
    protocolVersion: 1,
    oldestProtocolVersion: 1,
    auth: { kind: 'credential', workerId, secret: 'wc-secret' },
    name: 'attic',
    capabilities,
    activeLeases: [lease],
  },
  heartbeat: {
    type: 'heartbeat',
    leases: [lease],
    attachSessions: 0,
    sentAt: 12.5,
    clock: 1.5,
    capabilities,
  },
  'dispatch-accepted': { type: 'dispatch-accepted', leaseId },
  'dispatch-rejected': { type: 'dispatch-rejected', leaseId, reason: 'disk: 200 MB free' },
  'run-patch': {
    type: 'run-patch',
    ...numbered,
    patch: {
      status: 'running',
      agentSessionId: '7d9c',
      prUrl: 'https://code.example/1',
      prState: 'draft',
      sandbox: { provider: 'bwrap' },
      costs: [costEntry],
    },
  },
  'run-event': { type: 'run-event', ...numbered, event: { at, type: 'log', stream: 'stdout', text: 'hi' } },
  'run-artifact': { type: 'run-artifact', ...numbered, name: 'log.txt', part: 0, final: true, data: 'aGk=' },
  'run-memories': {
    type: 'run-memories',
    ...numbered,
    repo: 'acme/lamps',
    facts: ['Tests need a database.'],
  },
  'run-usage-snapshot': {
    type: 'run-usage-snapshot',
    ...numbered,
    endedLeaseId: leaseId,
    snapshot: {
      projectKey: 'acme-lamps',
      sessionId: '7d9c',
      subagentId: 'sub-1',
      entries: [{ id: 'm-1', at, model: 'large', ...tokens, costUsd: 0.1 }],
      sha256: 'ab'.repeat(32),
    },
  },
  'run-complete': {
    type: 'run-complete',
    ...numbered,
    outcome: {
      status: 'completed',
      failure: 'publish',
      begun: true,
      result: { artifacts: [] },
      error: 'none',
      costs: [costEntry],
      agentSessionId: '7d9c',
      prUrl: 'https://code.example/1',
      prState: 'open',
      sandbox: { retainedUntil: at, unpublished: true },
    },
  },
  'lease-gap': { type: 'lease-gap', leaseId, from: 4, to: 9, damaged: true },
  'lease-costs': { type: 'lease-costs', leaseId, costs: [] },
  'expired-sandboxes': { type: 'expired-sandboxes', sandboxes: [{ runId: 'run-1', retainedUntil: at }] },
  'sandbox-ready': { type: 'sandbox-ready', requestId: 'rq-1', sessionId: 'session-1' },
  'sandbox-failed': { type: 'sandbox-failed', requestId: 'rq-1', message: 'no room' },
  'attach-data': { type: 'attach-data', sessionId: 'as-1', data: '\u001b[0m$ ' },
  'attach-exit': { type: 'attach-exit', sessionId: 'as-1', code: 137 },
  'attach-error': { type: 'attach-error', sessionId: 'as-1', message: 'no such session' },
  'attach-taken': { type: 'attach-taken', sessionId: 'as-1', inputs: 3 },
  'actor-states': {
    type: 'actor-states',
    changed: [{ kind: 'execution', key: 'ls-1', state: 'working' }],
    gone: ['booted/run-1'],
  },
}

export const hostFrameExamples: { [T in HostFrameType]: Extract<HostFrame, { type: T }> } = {
  registered: {
    type: 'registered',
    protocolVersion: 1,
    heartbeatIntervalMs: 15_000,
    hostVersion: '0.1.0',
    workerId,
    name: 'attic',
    state: 'active',
    credential: 'wc-secret',
    installation: 'in-1',
  },
  rejected: { type: 'rejected', code: 'unauthorized', reason: 'it is not enrolled', installation: 'in-1' },
  'heartbeat-ack': { type: 'heartbeat-ack', state: 'draining', echo: 12.5, clock: 1.5, clockDoubted: true },
  dispatch: { type: 'dispatch', lease: { id: leaseId, runId, expiresAt: at, remainingMs: 165_000 }, job },
  'lease-ack': { type: 'lease-ack', leases: [{ leaseId, seq: 0, expiresAt: at, remainingMs: 1 }], echo: 3 },
  'run-complete-ack': { type: 'run-complete-ack', leaseId },
  'lease-costs-ack': { type: 'lease-costs-ack', leaseId },
  'lease-lost': { type: 'lease-lost', leaseId, reason: 'expired' },
  cancel: { type: 'cancel', leaseId, reason: 'asked for' },
  discard: { type: 'discard', runId },
  'worker-state': { type: 'worker-state', state: 'draining' },
  revoked: { type: 'revoked', reason: 'by hand' },
  'sandbox-boot': { type: 'sandbox-boot', requestId: 'rq-1', runId, credentials: {} },
  'sandbox-release': { type: 'sandbox-release', runId },
  'attach-open': { type: 'attach-open', sessionId: 'as-1', runId, cols: 80, rows: 24 },
  'attach-input': { type: 'attach-input', sessionId: 'as-1', data: 'ls\r' },
  'attach-resize': { type: 'attach-resize', sessionId: 'as-1', cols: 120, rows: 40 },
  'attach-close': { type: 'attach-close', sessionId: 'as-1' },
  'attach-ask': { type: 'attach-ask', sessionId: 'as-1' },
  'watch-actors': { type: 'watch-actors', on: true },
}
