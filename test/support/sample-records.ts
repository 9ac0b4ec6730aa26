/**
 * Records of a busy installation for tests of pages and their pictures: runs in every state, workers, what needs a
 * person. Everything lies some minutes before `now`, so that ages look as in real life.
 */
import type { AttentionItem } from '../../protocol/attention.ts'
import type { CostTotals } from '../../protocol/cost.ts'
import type { Gate } from '../../protocol/explain.ts'
import type { RepoMemory, Run, RunEvent, RunStatus, Ticket } from '../../protocol/run.ts'
import type { WorkerView } from '../../protocol/worker.ts'

const MINUTE = 60_000

const TITLES = [
  'Drop the unused legacy_sessions table',
  'Paginate the audit log by cursor, not by offset',
  'Return 409 when a ticket already has an active run, and name it in the message that people see',
  'Stop leaking file handles in the artifact reader',
  'Retry webhook deliveries with jittered backoff',
  'Compress usage snapshots before archiving',
  'Keyboard focus is lost after closing the filter menu',
  'Pin base images by digest in every Dockerfile',
  'Show the plan’s limits on the upgrade page',
  'Describe worker pairing for air-gapped machines',
] as const
const REPOS = ['acme/api', 'acme/web', 'acme/docs', 'acme/infra'] as const
const WORKERS = ['kestrel-01', 'kestrel-02', 'heron', 'wren'] as const

const pick = <T>(list: readonly T[], at: number): T => {
  const found = list[at % list.length]
  if (found === undefined) throw new Error('an empty list')
  return found
}

export class SampleRecords {
  readonly #now: number

  constructor(now: number) {
    this.#now = now
  }

  /** @param minutes before now */
  ago(minutes: number): string {
    return new Date(this.#now - minutes * MINUTE).toISOString()
  }

  ticket(at: number): Ticket {
    return {
      id: `t-${at}`,
      identifier: `ENG-${at}`,
      title: pick(TITLES, at),
      description: 'The table is read by nothing since **March**.\n\n- drop it\n- drop its index',
      url: `https://tracker.example/ENG-${at}`,
      state: 'Todo',
      priority: pick([1, 2, 3, 4, 0] as const, at),
      labels: ['agent'],
      repo: pick(REPOS, at),
      blockedBy: [],
      createdAt: this.ago(600 + (at % 9)),
      updatedAt: this.ago(60 + (at % 7)),
    }
  }

  blockedTicket(at: number, blockedBy: readonly string[]): Ticket {
    return { ...this.ticket(at), blockedBy: [...blockedBy] }
  }

  tickets(count: number): Ticket[] {
    return Array.from({ length: count }, (_, at) => this.ticket(1_000 + at))
  }

  run(at: number, status: RunStatus, fields: Partial<Run> = {}): Run {
    const isEnded = status === 'completed' || status === 'failed' || status === 'cancelled'
    const worker = pick(WORKERS, at)
    return {
      id: `run-${String(at).padStart(6, '0')}`,
      ticket: this.ticket(at),
      status,
      sandbox: status === 'queued' ? {} : { workerId: `wk-${worker}`, workerName: worker },
      createdAt: this.ago(30 + (at % 40)),
      queuedAt: this.ago(30 + (at % 40)),
      ...(status === 'queued' ? {} : { startedAt: this.ago(20 + (at % 9)) }),
      ...(isEnded ? { finishedAt: this.ago(1 + (at % 400)) } : {}),
      costs: [],
      ...(status === 'queued' ? {} : { costTotals: costOf(at) }),
      ...fields,
    }
  }

  /** Runs in every state, as the overview shows them. */
  busyRuns(): Run[] {
    const queued = (at: number, queueReason: string) => this.run(at, 'queued', { queueReason })
    const pull = (number: number) => ({
      prUrl: `https://code.example/acme/api/pull/${number}`,
      pull: { remote: 'acme/api', number, branch: `sy/eng-${number}`, confirmed: true },
    })
    return [
      this.run(404, 'finalizing'),
      this.run(409, 'running'),
      this.run(401, 'running'),
      this.run(412, 'running'),
      this.run(407, 'running', { sandbox: { workerId: 'wk-wren', workerName: 'wren' } }),
      this.run(223, 'preparing'),
      ...[413, 414, 417, 426].map((at) => queued(at, 'fleet at capacity')),
      ...[418, 419].map((at) => queued(at, 'worker heron holds the sandbox')),
      queued(415, `publishing again at ${this.ago(-130)}: the code host answers 502`),
      { ...queued(420, 'waiting for ENG-412, ENG-380'), ticket: this.blockedTicket(420, ['t-412', 't-380']) },
      queued(57, 'credential of agentC is missing: switchyard connect agent-c'),
      this.run(399, 'completed', { ...pull(487), prState: 'merged' }),
      this.run(215, 'completed', { ...pull(485), prState: 'open' }),
      this.run(371, 'completed', { ...pull(482), prState: 'open' }),
      this.run(395, 'cancelled', { ...pull(483), prState: 'draft' }),
      ...[398, 402, 77].map((at) =>
        this.run(at, 'failed', { error: `setup failed: npm ci: 403 Forbidden, attempt ${at}` }),
      ),
      this.run(380, 'failed', { error: 'no space left on /var' }),
    ]
  }

  finishedRuns(count: number): Run[] {
    const states = ['completed', 'completed', 'completed', 'failed', 'cancelled'] as const
    return Array.from({ length: count }, (_, at) =>
      this.run(10_000 + at, pick(states, at), {
        finishedAt: this.ago(5 + at * 3),
        startedAt: this.ago(20 + at * 3),
        createdAt: this.ago(30 + at * 3),
      }),
    )
  }

  workers(): WorkerView[] {
    const worker = (
      name: string,
      slots: number,
      activeRuns: number,
      fields: Partial<WorkerView> = {},
    ): WorkerView => ({
      id: `wk-${name}`,
      name,
      state: 'active',
      connection: 'online',
      capabilities: {
        os: 'linux',
        arch: 'x64',
        provider: 'bwrap',
        maxConcurrency: slots,
        version: '0.1.0',
        limits: 'cgroup',
        agents: {
          agentA: { found: true, version: '2.1.4', loggedIn: true },
          agentB: { found: false, problem: 'codex is not on the PATH: npm install -g @openai/codex' },
        },
        gitVersion: '2.47.3',
      },
      activeRuns,
      enrolledAt: this.ago(9_000),
      connectedAt: this.ago(900),
      lastSeenAt: this.ago(0),
      address: '10.0.0.12',
      ...fields,
    })
    return [
      worker('kestrel-01', 4, 4),
      worker('kestrel-02', 3, 2, { attachSessions: 1 }),
      worker('heron', 2, 2, { state: 'draining', drainedBy: ['operator'] }),
      worker('wren', 2, 1, { connection: 'offline', lastSeenAt: this.ago(1.2) }),
      worker('this machine', 1, 1, { local: true }),
    ]
  }

  attention(): AttentionItem[] {
    const failed = [398, 402, 77].map((at) =>
      this.itemOf(at, 'failed', 'failed: setup failed: npm ci: 403 Forbidden'),
    )
    return [
      ...failed,
      this.itemOf(380, 'failed', 'failed: no space left on /var'),
      {
        ...this.itemOf(371, 'review', 'review asked on acme/api#482'),
        pull: {
          repo: 'acme/api',
          remote: 'acme/api',
          number: 482,
          url: 'https://code.example/acme/api/pull/482',
        },
      },
      {
        id: 'login:credential of agentC is missing',
        kind: 'login',
        message: 'credential of agentC is missing',
        cure: 'switchyard connect agent-c',
        since: this.ago(180),
      },
    ]
  }

  itemOf(at: number, kind: AttentionItem['kind'], message: string): AttentionItem {
    const id = this.run(at, 'failed').id
    return {
      id: `${kind}:${id}`,
      kind,
      message,
      cure: `switchyard logs ENG-${at}`,
      runId: id,
      ticketId: `t-${at}`,
      since: this.ago(at % 50),
    }
  }

  memory(id: string): RepoMemory {
    return {
      id,
      text: 'Tests need TZ=UTC.',
      createdAt: this.ago(900),
      updatedAt: this.ago(90),
      hits: 3,
      ident: 'ENG-399',
    }
  }

  gates(): Gate[] {
    return [
      { id: 'tracker', status: 'pass', message: 'connected' },
      { id: 'capacity', status: 'wait', message: '12 of 14 slots are taken' },
      { id: 'credential', status: 'stop', message: 'agentC has none', cure: 'switchyard connect agent-c' },
    ]
  }

  /** The log of a run: phases, the agent's words, output with an error, repeated lines, a gap. */
  log(runId: string, lines: number): RunEvent[] {
    const events: RunEvent[] = []
    const add = (event: Readonly<Record<string, unknown>>) => {
      const at = new Date(this.#now - 20 * MINUTE + events.length * 500).toISOString()
      // The fields of each kind stand beside the common ones, as the schema of events has them.
      events.push({ runId, index: events.length, at, ...event } as RunEvent)
    }
    const log = (stream: 'stdout' | 'stderr' | 'system', text: string) => add({ type: 'log', stream, text })
    add({ type: 'status', from: 'queued', to: 'preparing', worker: 'kestrel-01' })
    log('system', 'Sandbox ready: bwrap, 2 cores, 4 GiB')
    log('stdout', "Cloning into 'api'… done")
    add({ type: 'status', from: 'preparing', to: 'running', provider: 'agentA' })
    log('stdout', 'FAIL src/webhooks/deliver.test.ts')
    log('stderr', 'Error: expected 60000, received 61440')
    for (let at = 0; at < 4; at++) log('stdout', '[watch] waiting for changes')
    while (events.length < lines) log('stdout', `\u001b[32mPASS\u001b[0m src/case-${events.length}.test.ts`)
    return events
  }

  /** A failed attempt, and what the run did when it was queued again. */
  retriedLog(runId: string): RunEvent[] {
    const first = this.log(runId, 14)
    const again = { type: 'status', from: 'failed', to: 'queued', reason: 'retried by mira' } as const
    const events: object[] = [
      ...first,
      { type: 'status', from: 'running', to: 'failed', reason: 'setup failed: npm ci: 403 Forbidden' },
      again,
      ...this.log(runId, 30),
    ]
    const at = (index: number) => new Date(this.#now - 20 * MINUTE + index * 500).toISOString()
    // The events stand in one log.
    return events.map((event, index) => ({ ...event, runId, index, at: at(index) }) as RunEvent)
  }
}

function costOf(at: number): CostTotals {
  const costUsd = 0.2 + (at % 17) * 0.19
  const tokens = {
    inputTokens: 40_000 + at * 10,
    outputTokens: 9_000,
    cacheReadTokens: 900_000,
    cacheWriteTokens: 20_000,
  }
  const estimated = at % 5 === 0
  return { ...tokens, costUsd, estimated, byModel: [{ model: 'sonnet-4.5', ...tokens, costUsd, estimated }] }
}
