/**
 * The host is killed repeatedly during 200 runs, with real sockets and workers that continue without it. At the end each
 * run was executed and completed once, each report was applied once and in order, everything that was acknowledged
 * before a kill still holds, and no lease is left over.
 *
 * A kill comes at a random instant or right at an important frame. 18 kills by default;
 * `KILL_RUNS=1000 npm run jest -- test/system/kill-runs` for long, `SEED=…` to repeat what failed.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, expect, test } from '@jest/globals'
import { WebSocket } from 'undici'
import { realClock, realRandom } from '../../bin/process/clock.ts'
import type { DashboardFrame } from '../../protocol/dashboard.ts'
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import type { MemoriesResponse, Run, RunEvent } from '../../protocol/run.ts'
import { openStore } from '../../store/store.ts'
import { type CommandProcess, serve } from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { Random, seedFromEnvironment } from '../support/random.ts'
import { createRecordingLog, noMeters } from '../support/recording-log.ts'
import {
  type FrameDirection,
  type ScriptedExecution,
  ScriptedWorker,
  USAGE_PROJECT,
} from '../support/scripted-worker.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const KILLS = Number(process.env.KILL_RUNS ?? 18)
const KILLS_A_STORY_MAX = 15
const RUNS = 200
const STORIES = Math.ceil(KILLS / KILLS_A_STORY_MAX)
const KILLS_A_STORY = Math.ceil(KILLS / STORIES)
/** After the last kill the remaining runs take a few seconds on an idle machine. */
const ALL_MS_MAX = 120_000
const STORY_MS_MAX = 400_000

// ---- the time of a kill ----------------------------------------------------------------------------------------------

/** Frames around which a kill could leave something half done. */
const MOMENTS: readonly `${FrameDirection} ${(HostFrame | WorkerFrame)['type']}`[] = [
  'received dispatch',
  'sent dispatch-accepted',
  'sent run-patch',
  'sent run-event',
  'sent run-artifact',
  'sent run-memories',
  'sent run-usage-snapshot',
  'sent run-complete',
  'received run-complete-ack',
  'received lease-ack',
  'received registered',
]
/** Kill at the latest after this time, if the awaited frame does not come. */
const MOMENT_MS_MAX = 700

/** A trap calls back when the frame of its moment has passed `count` more times. */
interface Trap {
  readonly moment: string
  count: number
  readonly onSprung: (worker: ScriptedWorker) => void
}

/** The duration of a commit: a kill this much later hits the time after it. */
const COMMIT_MS = 8

// ---- one story -------------------------------------------------------------------------------------------------------

class Story {
  readonly random: Random
  readonly dataDir = tempFolder()
  readonly tickets = tempFolder()
  readonly workers: ScriptedWorker[] = []
  readonly hosts: CommandProcess[] = []
  /** Events that a dashboard received, as it received them. */
  readonly published = new Map<string, string>()
  readonly publishedEnds = new Map<string, string>()
  /** Runs that the host has acknowledged, by ticket. */
  readonly acknowledgedRuns = new Map<string, string>()
  /** Violations that were found during the story. */
  readonly faults: string[] = []
  readonly log: string[] = []
  ports: readonly [management: number, fleet: number] = [0, 0]
  #trap: Trap | undefined
  #disconnectTrap: Trap | undefined
  #ticketCount = 0
  #dashboard: WebSocket | undefined

  constructor(seed: number) {
    this.random = new Random(seed)
  }

  get host(): CommandProcess {
    const last = this.hosts.at(-1)
    if (last === undefined) throw new Error('no host was started')
    return last
  }

  async begin(): Promise<void> {
    this.ports = [await freePort(), await freePort()]
    const [management, fleet] = this.ports
    const config = {
      server: { port: management },
      fleet: { host: '127.0.0.1', port: fleet },
      tracker: { driver: 'local', path: this.tickets, pollSeconds: 1 },
      repos: { main: { remote: 'owner/name' } },
      worker: { local: false },
    }
    writeFileSync(join(this.dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
    this.hosts.push(serve(this.dataDir))
    for (const [n, port] of [fleet, fleet, management].entries()) await this.#enrol(`w${n}`, port)
    this.#disconnectTrap = this.#nextDisconnectTrap()
  }

  async #enrol(name: string, port: number): Promise<void> {
    const paired = await this.host.request('/api/workers/pairing-tokens', { method: 'POST' })
    const worker = new ScriptedWorker({
      name,
      token: (paired.body as { token: string }).token,
      url: () => `ws://127.0.0.1:${port}/ws/worker`,
      seed: this.random.below(2 ** 31),
      concurrency: 6,
      heartbeatMs: 200,
      pauseMsMax: 30,
      onFrame: (direction, frame) => this.#onFramePassed(worker, `${direction} ${frame.type}`),
    })
    this.workers.push(worker)
    worker.start()
    await until(`${name} to register`, () => worker.isRegistered)
  }

  end(): void {
    this.#dashboard?.close()
    for (const worker of this.workers) worker.stop()
    for (const host of this.hosts) host.process.kill('SIGKILL')
  }

  // ---- tickets ---------------------------------------------------------------------------------------------------

  /** Writes tickets: most get a run by polling, some by a person's request. */
  async writeTickets(count: number): Promise<void> {
    const requested: string[] = []
    for (let n = 0; n < count && this.#ticketCount < RUNS; n++) {
      const name = `T${String(this.#ticketCount++).padStart(3, '0')}`
      const byHand = this.random.chance(0.3)
      const text = `---\nstate: ${byHand ? 'Backlog' : 'Todo'}\npriority: ${this.random.below(5)}\n---\n${name}\n`
      writeFileSync(join(this.tickets, `${name}.md`), text)
      if (byHand) requested.push(name)
    }
    await Promise.all(requested.map((name) => this.#requestRun(name)))
  }

  /** Repeats the request until the host confirms a run, like a person without a response. */
  async #requestRun(ticket: string): Promise<void> {
    for (;;) {
      const answer = await this.#post(`/api/tickets/${ticket}/run`)
      const { id } = Object(answer?.body)
      if (answer?.status === 200) this.acknowledgedRuns.set(ticket, String(id))
      if (answer?.status === 200 || answer?.status === 409) return
      // 404: the folder was not polled yet. 503 or no response: the host is starting or was killed.
      if (answer !== undefined && ![404, 503].includes(answer.status))
        throw new Error(`a run of ${ticket} was answered with ${answer.status}`)
      // If the host was killed after queueing the run but before responding, do not request another run.
      if (this.workers.some(({ executions }) => executions.some((item) => item.ticket === ticket))) return
      await pause(20)
    }
  }

  async #post(path: string): Promise<{ status: number; body: unknown } | undefined> {
    const launch = this.#launch
    if (launch === undefined) return undefined
    try {
      const answer = await fetch(`${launch.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${launch.token}` },
      })
      return { status: answer.status, body: await answer.json() }
    } catch {
      return undefined
    }
  }

  #launch: { readonly url: string; readonly token: string } | undefined

  // ---- kills -----------------------------------------------------------------------------------------------------

  async waitForHost(): Promise<void> {
    this.#launch = await this.host.waitForLaunch()
    this.#openDashboard(this.#launch)
  }

  #openDashboard({ url, token }: { readonly url: string; readonly token: string }): void {
    const socket = new WebSocket(`${url.replace('http:', 'ws:')}/ws?token=${token}`)
    this.#dashboard = socket
    socket.addEventListener('error', () => {})
    socket.addEventListener('message', ({ data }) => {
      const frame = JSON.parse(String(data)) as DashboardFrame
      if (frame.type === 'run-event') this.#onEvent(frame.event)
      if (frame.type === 'run-updated' && frame.run.finishedAt !== undefined)
        this.publishedEnds.set(frame.run.id, `${frame.run.status} ${frame.run.finishedAt}`)
    })
  }

  #onEvent(event: RunEvent): void {
    const place = `${event.runId} ${event.index}`
    const text = JSON.stringify(event)
    const before = this.published.get(place)
    if (before !== undefined) this.faults.push(`one event was pushed twice: ${before} and ${text}`)
    this.published.set(place, text)
  }

  /** Waits for the instant, and kills. */
  async kill(): Promise<void> {
    const { host, random } = this
    if (random.chance(0.15)) {
      // While it starts.
      await pause(random.below(400))
      return await this.#killNow(host, 'while it started')
    }
    await this.waitForHost()
    if (random.chance(0.3)) {
      const ms = random.below(500)
      await pause(ms)
      return await this.#killNow(host, `${ms} ms after it had started`)
    }
    const moment = random.pick(MOMENTS)
    const count = 1 + random.below(8)
    await Promise.race([
      new Promise<void>((resolve) => {
        this.#trap = { moment, count, onSprung: () => this.#killSoon(host, resolve) }
      }),
      pause(MOMENT_MS_MAX),
    ])
    this.#trap = undefined
    await this.#killNow(host, `${moment}, ${count} times`)
  }

  #onFramePassed(worker: ScriptedWorker, moment: string): void {
    for (const trap of [this.#disconnectTrap, this.#trap]) {
      if (trap?.moment !== moment) continue
      trap.count -= 1
      if (trap.count === 0) trap.onSprung(worker)
    }
  }

  /** Independently of kills, connections break or are replaced by new ones. */
  #nextDisconnectTrap(): Trap {
    const { random } = this
    return {
      moment: random.pick(MOMENTS.filter((moment) => moment.startsWith('sent'))),
      count: 1 + random.below(10),
      onSprung: (worker) => {
        this.#disconnectTrap = this.#nextDisconnectTrap()
        if (random.chance(0.5)) worker.dropConnection()
        else worker.connectAgain()
      },
    }
  }

  /** Kills at once, or a moment later, when the commit may have finished. */
  #killSoon(host: CommandProcess, onKilled: () => void): void {
    const kill = () => {
      host.process.kill('SIGKILL')
      onKilled()
    }
    if (this.random.chance(0.5)) kill()
    else setTimeout(kill, this.random.below(COMMIT_MS))
  }

  async #killNow(host: CommandProcess, why: string): Promise<void> {
    this.#launch = undefined
    host.process.kill('SIGKILL')
    const exit = await host.exit
    this.log.push(why)
    if (exit !== 'SIGKILL') throw new Error(`the host ended by itself with ${exit}: ${host.err()}`)
    this.#dashboard?.close()
  }

  restart(): void {
    this.hosts.push(serve(this.dataDir))
  }

  // ---- the end ---------------------------------------------------------------------------------------------------

  get executions(): readonly ScriptedExecution[] {
    return this.workers.flatMap(({ executions }) => executions)
  }

  get acknowledged(): number {
    return this.executions.filter(({ acknowledgedAt }) => acknowledgedAt !== undefined).length
  }

  async get<T>(path: string): Promise<T> {
    const { status, body } = await this.host.request(path)
    if (status !== 200) throw new Error(`${path} was answered with ${status}`)
    // Other tests check responses against their schemas.
    return body as T
  }
}

// ---- invariants at the end -------------------------------------------------------------------------------------------

/** Lists each violation by run, so that one failure among hundreds is readable. */
async function findViolations(story: Story): Promise<string[]> {
  const wrong = [...story.faults]
  const runs = await story.get<Run[]>('/api/runs')
  const byTicket = groupBy(runs, ({ ticket }) => ticket.id)
  if (byTicket.size !== RUNS) wrong.push(`${byTicket.size} tickets have runs, not ${RUNS}`)
  for (const [ticket, of] of byTicket)
    if (of.length !== 1)
      wrong.push(`${ticket} has ${of.length} runs: ${of.map(({ id, status }) => `${id} ${status}`)}`)
  for (const [ticket, id] of story.acknowledgedRuns)
    if (!runs.some((run) => run.id === id))
      wrong.push(`the run ${id} of ${ticket} was acknowledged and does not exist`)

  const { repos } = await story.get<MemoriesResponse>('/api/memories')
  const hits = new Map((repos['owner/name'] ?? []).map(({ text, hits }) => [text, hits]))
  const executed = groupBy(story.executions, ({ runId }) => runId)
  for (const run of runs) {
    const events = await story.get<RunEvent[]>(`/api/runs/${run.id}/events`)
    const executions = executed.get(run.id) ?? []
    const report = (what: string) => wrong.push(`${run.id} of ${run.ticket.id}: ${what}`)
    for (const what of faultsOf(run, events, executions)) report(what)
    if (hits.get(`fact of ${run.ticket.id}`) !== 1)
      report(`its fact was recorded ${hits.get(`fact of ${run.ticket.id}`)} times`)
    for (const event of events) {
      const text = story.published.get(`${run.id} ${event.index}`)
      if (text !== undefined && text !== JSON.stringify(event))
        report(`an event was pushed as ${text}, and stored as ${JSON.stringify(event)}`)
      story.published.delete(`${run.id} ${event.index}`)
    }
    const end = story.publishedEnds.get(run.id)
    if (end !== undefined && end !== `${run.status} ${run.finishedAt}`)
      report(`its end was pushed as ${end}, and stored as ${run.status} ${run.finishedAt}`)
    for (const what of await filesOf(story, run, executions[0])) report(what)
  }
  for (const text of story.published.values()) wrong.push(`an event was pushed and is not stored: ${text}`)
  for (const { name, refusals, claims } of story.workers) {
    for (const { leaseId, reason } of refusals)
      wrong.push(`${name} refused the dispatch of ${leaseId}: ${reason}`)
    if (claims.length > 0) wrong.push(`${name} still claims ${claims}`)
  }
  return wrong
}

const STATUSES = 'queued, preparing, running, finalizing, completed'

function faultsOf(run: Run, events: readonly RunEvent[], executions: readonly ScriptedExecution[]): string[] {
  const wrong: string[] = []
  if (run.status !== 'completed') wrong.push(`is ${run.status} (${run.error ?? run.queueReason})`)
  // A killed host causes no second execution, because its workers keep their leases.
  if (executions.length !== 1)
    wrong.push(
      `was executed ${executions.length} times: ${executions.map(({ worker, ending: how }) => `${worker} ${how}`)}`,
    )
  const [execution] = executions
  const steps = execution?.steps ?? []
  if (execution?.ending !== 'completed' || execution.acknowledgedAt === undefined)
    wrong.push(`its worker reports the ending ${execution?.ending}`)

  const holes = events.findIndex(({ index }, place) => index !== place)
  if (holes >= 0) wrong.push(`event ${holes} has index ${events[holes]?.index}`)
  const statuses = events.flatMap((event) => (event.type === 'status' ? [event.to] : [])).join(', ')
  if (statuses !== STATUSES) wrong.push(`went through ${statuses}`)
  const expectedLog = steps.flatMap((step) => (step.does === 'log' ? [step.text] : []))
  const logged = events.flatMap((event) => (event.type === 'log' ? [event.text] : []))
  if (logged.join('\n') !== expectedLog.join('\n'))
    wrong.push(`logged ${logged.join('; ')} in place of ${expectedLog.join('; ')}`)
  const unexpected = events.find(({ type }) => !['status', 'log'].includes(type))
  if (unexpected !== undefined) wrong.push(`has an unexpected event ${JSON.stringify(unexpected)}`)

  if (run.costs.length !== 1 || run.costs[0]?.label !== 'run' || run.costs[0].model !== run.id)
    wrong.push(`cost ${JSON.stringify(run.costs)}`)
  if (run.result?.summary !== `done with ${run.ticket.identifier}`)
    wrong.push(`results in ${JSON.stringify(run.result)}`)
  if (run.sandbox.workerId === undefined || run.startedAt === undefined)
    wrong.push('lacks its worker or its start')
  return wrong
}

async function filesOf(story: Story, run: Run, execution: ScriptedExecution | undefined): Promise<string[]> {
  const wrong: string[] = []
  for (const step of execution?.steps ?? []) {
    if (step.does === 'artifact') {
      const path = join(story.dataDir, 'runs', run.id, 'artifacts', step.name)
      if (!Buffer.concat(step.parts).equals(bytesOf(path)))
        wrong.push(`its artifact ${step.name} is not whole`)
    }
    if (step.does === 'usage') {
      const path = join(story.dataDir, 'usage', USAGE_PROJECT, `${step.sessionId}.json`)
      if (!bytesOf(path).includes(JSON.stringify(step.entries))) wrong.push('its usage snapshot is not whole')
    }
  }
  return wrong
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch {
    return Buffer.alloc(0)
  }
}

/** Leases that are left on disk after the host has ended. */
async function findLeftOver(dataDir: string): Promise<string[]> {
  const store = await openStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
  })
  const { snapshots, keyValues } = store.database
  const left = [
    ...[...snapshots.all('lease')].map(([key]) => `the lease ${key}`),
    ...[...snapshots.all('run')].map(([key]) => `the actor of ${key}`),
    ...[...keyValues.all('mark')].map(([key]) => `the mark of ${key}`),
  ]
  await store.close()
  return left
}

function groupBy<T>(all: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of all) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

/** How many lines of the last host's log a failure shows. */
const LAST_LINES = 20

// ---- the stories -----------------------------------------------------------------------------------------------------

let current: Story | undefined
afterEach(() => current?.end())

async function runStory(seed: number): Promise<void> {
  const story = new Story(seed)
  current = story
  await story.begin()
  const pendingRequests: Promise<void>[] = []
  const share = Math.ceil(RUNS / KILLS_A_STORY)
  for (let kill = 0; kill < KILLS_A_STORY; kill++) {
    const written = story.writeTickets(share)
    pendingRequests.push(written)
    written.catch(() => {})
    await story.kill()
    story.restart()
  }
  await story.waitForHost()
  await Promise.all(pendingRequests)
  story.log.push(`${story.acknowledged} runs had ended before the last start`)
  // If some runs do not end, their violations say more than a timeout.
  await until('every run to end', () => story.acknowledged >= RUNS, ALL_MS_MAX).catch(() => {})
  expect(await findViolations(story)).toEqual([])

  const metrics = await (await fetchMetrics(story)).text()
  expect(/^switchyard_invariant_violations_total\{.*\} [1-9]/m.test(metrics)).toBe(false)
  story.host.process.kill('SIGTERM')
  expect(await story.host.exit).toBe(0)
  expect(await findLeftOver(story.dataDir)).toEqual([])
  const complaints = story.hosts.flatMap((host) =>
    host
      .err()
      .split('\n')
      .filter((line) => /"level":(40|50|60)/.test(line)),
  )
  expect(complaints).toEqual([])
}

async function fetchMetrics(story: Story): Promise<Response> {
  const { url, token } = await story.host.waitForLaunch()
  return await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
}

for (let n = 0; n < STORIES; n++) {
  const seed = seedFromEnvironment(20_261_121) + n
  test(
    `${RUNS} runs are each executed once and completed once, with ${KILLS_A_STORY} kills among them (SEED=${seed})`,
    async () => {
      try {
        await runStory(seed)
      } catch (error) {
        const how = current?.log.map((why, at) => `  kill ${at + 1}: ${why}`).join('\n')
        const last = current?.host.err().split('\n').slice(-LAST_LINES).join('\n')
        throw new Error(
          `SEED=${seed}: ${error instanceof Error ? error.message : String(error)}\n${how}\n${last}`,
        )
      }
    },
    STORY_MS_MAX,
  )
}
