/**
 * Hostile inputs that get past the first line: requests and frames drawn from the schemas of the protocol, usually with
 * one part spoiled, reach the real actors of a host in memory.
 *
 * A host serves a chapter of inputs; afterwards it must still do its work, also after a restart. `npm run fuzz` is a long
 * run, of many chapters.
 */
import { expect } from '@jest/globals'
import { Random } from '../support/random.ts'
import { type MemoryMib, settledMemory } from '../support/settled-memory.ts'
import { FuzzedHost, Shares } from './fuzz/fuzzed-host.ts'
import { FuzzedRequests } from './fuzz/fuzzed-requests.ts'
import { VIEWERS, type Viewer, visit } from './fuzz/fuzzed-viewers.ts'
import { FuzzedWorker } from './fuzz/fuzzed-worker.ts'
import { enroll, inMemoryOnly, ticket, Work } from './host-conversation.ts'

const INPUTS = Number(process.env.FUZZ_INPUTS ?? 1_000)
const CHAPTER_INPUTS = 2_500
const SEED = Number(process.env.SEED ?? 20_261_129)
const RUN_MS_MAX = 600_000 + INPUTS * 20
const WORKERS = 3
/** Nothing of these kinds is left in memory an hour after everybody has gone. */
const PASSING = new Set(
  [
    ['connection', 'connections', 'lease', 'leases', 'trackedLeases', 'attach', 'terminals', 'booted'],
    ['waitingFrames', 'framesBehind', 'pendingBytes', 'waitingForSettings', 'waitingForTheDisk'],
    ['inspectionViewers', 'artifactUploads', 'connecting', 'recentPushes'],
  ].flat(),
)
/** More than there are tickets. */
const COUNT_MAX = 1_000
/** A run that kept a few bytes of each input beyond its host would grow by more. */
const GROWTH_MIB_MAX = 16
/** The native library keeps the handlers of the two closed listeners of each chapter. */
const CHAPTER_MIB_MAX = 0.6
/** Seconds within which a host that works starts a run. */
const ROUNDS_MAX = 40

inMemoryOnly('the host has listeners of its own here')(
  `inputs drawn from the schemas, seed ${SEED}`,
  async () => {
    const shares = new Shares()
    const statuses = new Map<number, number>()
    const memory: MemoryMib[] = []
    let chapter = 0
    for (; shares.total().sent < INPUTS; chapter++) {
      const inputs = Math.min(CHAPTER_INPUTS, INPUTS - shares.total().sent)
      await runChapter(new Random(SEED + chapter), inputs, shares, statuses)
      memory.push(settledMemory())
      if (INPUTS > CHAPTER_INPUTS) process.stdout.write(`${shareText(shares)}\n`)
    }
    const { sent, reached } = shares.total()
    process.stdout.write(`${report(shares, statuses, memory)}\n`)
    // The first hosts fill caches.
    const [, , early] = memory
    const growthMax = GROWTH_MIB_MAX + chapter * CHAPTER_MIB_MAX
    if (early !== undefined) expect((memory.at(-1)?.heap ?? 0) - early.heap).toBeLessThan(growthMax)
    expect(reached / sent).toBeGreaterThanOrEqual(0.5)
  },
  RUN_MS_MAX,
)

function report(shares: Shares, statuses: ReadonlyMap<number, number>, memory: readonly MemoryMib[]): string {
  const kinds = [...shares.byKind].sort(([left], [right]) => left.localeCompare(right))
  return [
    ...kinds.map(([kind, share]) => `${kind}: ${share.reached} of ${share.sent}`),
    `answers: ${JSON.stringify(Object.fromEntries(statuses))}`,
    `heap/memory in MiB: ${memory.map(({ heap, rss }) => `${heap.toFixed(0)}/${rss.toFixed(0)}`).join(' ')}`,
    shareText(shares),
  ].join('\n')
}

function shareText(shares: Shares): string {
  const { sent, reached } = shares.total()
  return `seed ${SEED}: ${reached} of ${sent} inputs got past the first line (${((100 * reached) / sent).toFixed(1)} %)`
}

async function runChapter(random: Random, inputs: number, shares: Shares, statuses: Map<number, number>) {
  const host = new FuzzedHost(random, shares)
  await host.open()
  const chapter = new Chapter(host)
  const enough = shares.total().sent + inputs
  while (shares.total().sent < enough) await chapter.goOn()
  await chapter.end()
  for (const [status, count] of chapter.requests.statuses)
    statuses.set(status, (statuses.get(status) ?? 0) + count)
  await expectWorking(host, 'LAST-1')
  await host.restart()
  await expectWorking(host, 'LAST-2')
  chapter.expectLaws()
  await host.close()
}

class Chapter {
  readonly requests: FuzzedRequests
  readonly #host: FuzzedHost
  readonly #workers: readonly FuzzedWorker[]

  constructor(host: FuzzedHost) {
    this.#host = host
    this.#workers = Array.from({ length: WORKERS }, () => new FuzzedWorker(host))
    this.requests = new FuzzedRequests(host, () => this.#workers.flatMap(({ identity }) => identity ?? []))
  }

  async goOn(): Promise<void> {
    const { random, conversation } = this.#host
    await this.#sendInputs()
    if (random.chance(0.2)) await conversation.clock.advance(random.below(30) * 1_000)
    if (random.chance(0.2)) conversation.tracker.put(ticket(`ENG-${random.below(200)}`))
    if (random.chance(0.05)) this.#host.tidyUp()
    this.expectLaws()
  }

  async #sendInputs(): Promise<void> {
    const { random } = this.#host
    const kind = random.fraction()
    if (kind < 0.3) for (let left = 10; left > 0; left--) await this.requests.send()
    else if (kind < 0.8) {
      const worker = random.pick(this.#workers)
      for (let left = 20; left > 0; left--) await worker.send()
      await worker.catchUp()
    } else await this.#visit(random.pick(VIEWERS))
  }

  /** The workers go on meanwhile: what a person sees and types goes through them. */
  async #visit(viewer: Viewer): Promise<void> {
    const goOn = async (): Promise<void> => {
      const worker = this.#host.random.pick(this.#workers)
      await worker.send()
      await worker.catchUp()
    }
    if (viewer === 'attachSocket' && this.#resumedRun() === undefined) {
      this.#host.resumeSome()
      for (const worker of this.#workers) await worker.bootAll()
    }
    await visit(this.#host, viewer, this.#resumedRun(), goOn)
  }

  #resumedRun(): string | undefined {
    return this.#workers.flatMap(({ resumedRuns }) => [...resumedRuns]).at(-1)
  }

  /** Everybody leaves, and every request is answered once the host's limits of time have passed. */
  async end(): Promise<void> {
    for (const worker of this.#workers) await worker.leave()
    await this.#host.conversation.clock.advance(3_600_000)
    await this.#host.turnUntil(new Promise(() => {}))
    expect(this.requests.unanswered()).toEqual([])
    this.requests.close()
    const census = Object.entries(this.#host.conversation.census())
    expect(census.filter(([kind, count]) => PASSING.has(kind) && count > 0)).toEqual([])
    expect(census.filter(([, count]) => count > COUNT_MAX)).toEqual([])
  }

  expectLaws(): void {
    const { seed } = this.#host.random
    const { wrong } = this.requests
    expect({ seed, wrong, faults: this.#host.faults() }).toEqual({ seed, wrong: [], faults: [] })
  }
}

/** A worker that has never been there registers, takes the run of a new ticket and completes it. */
async function expectWorking(host: FuzzedHost, identifier: string): Promise<void> {
  const { conversation } = host
  const { hostApi } = conversation
  host.tidyUp()
  await conversation.clock.advance(15_000)
  for (const run of conversation.allRuns())
    if (run.finishedAt === undefined) await conversation.settled(hostApi.cancelRun(run.id))
  await conversation.clock.advance(600_000)
  const { connection } = await enroll(conversation, 'fresh', 4)
  conversation.tracker.put(ticket(identifier))
  let answered = 0
  for (let rounds = 0; rounds < ROUNDS_MAX; rounds++) {
    await conversation.clock.advance(1_000)
    await connection.sendHeartbeat()
    for (; answered < connection.received.length; answered++) {
      const frame = connection.received[answered]
      if (frame?.type !== 'dispatch') continue
      const work = new Work(frame)
      await connection.send(work.accept(), work.running(), work.complete())
    }
  }
  const { id, status } = conversation.runOf(identifier)
  const waitsFor = status === 'completed' ? [] : hostApi.explainRun(id)
  expect({ seed: host.random.seed, status, waitsFor }).toEqual({
    seed: host.random.seed,
    status: 'completed',
    waitsFor: [],
  })
  await connection.drop()
}
