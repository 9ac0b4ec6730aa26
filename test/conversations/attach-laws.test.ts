/**
 * Property test: people open, use and close terminals, resume and release in any order, while connections break and
 * sessions end. Every person must see the current terminal, and no sandbox may stay booted without a viewer.
 */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ATTACH_GRACE_MS } from '../../actors/terminals/terminal-sessions.ts'
import {
  type EnrolledScriptedWorker,
  type HostConversation,
  reconnect,
  type ScriptedConnection,
  startHost,
} from './host-conversation.ts'
import { openTerminal, type Person, retainRun, withAgent } from './terminal-conversation.ts'

/** The time limits of a worker's daemon, on the same clock. */
const RETURN_MS = 30_000
const ADRIFT_MS = 120_000
/** Clears the terminal; every serialized screen begins with this sequence. */
const CLEAR = '\u001bc'

/** A model of a correct worker: one sandbox with one terminal, whose output goes to every view. */
class ModelWorker {
  connection: ScriptedConnection | undefined
  booted = false
  screen = ''
  readonly sessions = new Set<string>()
  /** Number of input frames by view, over all connections. */
  readonly #inputs = new Map<string, number>()
  #handledCount = 0
  #alone = 0
  #adrift = 0
  readonly #host: HostConversation
  readonly #worker: EnrolledScriptedWorker

  constructor(host: HostConversation, worker: EnrolledScriptedWorker) {
    this.#host = host
    this.#worker = worker
    this.connection = worker.connection
    this.#handledCount = worker.connection.received.length
  }

  /** Handles received frames until none is left. */
  async obey(): Promise<void> {
    this.#mind()
    const frame = this.connection?.received[this.#handledCount++]
    if (frame === undefined) {
      this.#handledCount -= 1
      return
    }
    if (frame.type === 'sandbox-boot') await this.#boot(frame.requestId)
    else if (frame.type === 'sandbox-release') this.#close()
    else if (frame.type === 'attach-open') await this.#open(frame.sessionId)
    else if (frame.type === 'attach-input' && this.sessions.has(frame.sessionId)) {
      this.#inputs.set(frame.sessionId, this.#inputsOf(frame.sessionId) + 1)
      await this.print(frame.data)
    } else if (frame.type === 'attach-ask')
      await this.connection?.send({
        type: 'attach-taken',
        sessionId: frame.sessionId,
        inputs: this.#inputsOf(frame.sessionId),
      })
    else if (frame.type === 'attach-close') this.#left(frame.sessionId)
    await this.obey()
  }

  #inputsOf(sessionId: string): number {
    return this.#inputs.get(sessionId) ?? 0
  }

  async print(data: string): Promise<void> {
    if (!this.booted) return
    this.screen += data
    for (const sessionId of this.sessions)
      await this.connection?.send({ type: 'attach-data', sessionId, data })
  }

  async exit(): Promise<void> {
    const sessionIds = [...this.sessions]
    this.#close()
    for (const sessionId of sessionIds)
      await this.connection?.send({ type: 'attach-exit', sessionId, code: 0 })
  }

  async drop(): Promise<void> {
    await this.connection?.drop()
    this.connection = undefined
    this.sessions.clear()
    this.#adrift = this.#host.clock.monotonic()
  }

  async comeBack(): Promise<void> {
    if (this.connection !== undefined) return
    this.connection = await reconnect(this.#host, this.#worker)
    this.#handledCount = 0
    this.#alone = this.#host.clock.monotonic()
  }

  /** The daemon was killed: all its state is lost. */
  async die(): Promise<void> {
    await this.drop()
    this.#close()
  }

  #mind(): void {
    const now = this.#host.clock.monotonic()
    if (this.connection === undefined && now - this.#adrift >= ADRIFT_MS) this.#close()
    if (this.connection !== undefined && this.sessions.size === 0 && now - this.#alone >= RETURN_MS)
      this.#close()
  }

  async #boot(requestId: string): Promise<void> {
    if (!this.booted) this.screen = '$ '
    this.booted = true
    this.#alone = this.#host.clock.monotonic()
    await this.connection?.send({ type: 'sandbox-ready', requestId })
  }

  async #open(sessionId: string): Promise<void> {
    if (!this.booted) {
      await this.connection?.send({ type: 'attach-error', sessionId, message: 'it is not booted' })
      return
    }
    this.sessions.add(sessionId)
    await this.connection?.send({ type: 'attach-data', sessionId, data: CLEAR + this.screen })
  }

  #left(sessionId: string): void {
    this.sessions.delete(sessionId)
    if (this.sessions.size === 0) this.#alone = this.#host.clock.monotonic()
  }

  #close(): void {
    this.booted = false
    this.sessions.clear()
  }
}

const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ is: 'sit' } as const) },
  { weight: 4, arbitrary: fc.record({ is: fc.constant('leave' as const), person: fc.nat(5) }) },
  { weight: 6, arbitrary: fc.record({ is: fc.constant('type' as const), person: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.constant({ is: 'print' } as const) },
  { weight: 2, arbitrary: fc.constant({ is: 'resume' } as const) },
  { weight: 1, arbitrary: fc.constant({ is: 'release' } as const) },
  { weight: 1, arbitrary: fc.constant({ is: 'exit' } as const) },
  { weight: 2, arbitrary: fc.constant({ is: 'drop' } as const) },
  { weight: 3, arbitrary: fc.constant({ is: 'come back' } as const) },
  { weight: 1, arbitrary: fc.constant({ is: 'die' } as const) },
  {
    weight: 3,
    arbitrary: fc.record({ is: fc.constant('pass' as const), seconds: fc.constantFrom(1, 10, 21, 130) }),
  },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

interface Scene {
  readonly host: HostConversation
  readonly runId: string
  readonly worker: ModelWorker
  people: Person[]
  typed: number
}

async function createScene(): Promise<Scene> {
  const host = await startHost(withAgent)
  const { worker, runId } = await retainRun(host)
  return { host, runId, worker: new ModelWorker(host, worker), people: [], typed: 0 }
}

async function performStep(action: Step, at: Scene): Promise<void> {
  const { host, runId, worker, people } = at
  const person = 'person' in action ? people[action.person % Math.max(1, people.length)] : undefined
  if (action.is === 'sit') people.push(await openTerminal(host, runId, 'somebody'))
  else if (action.is === 'leave') await person?.leave()
  else if (action.is === 'type') await person?.type(`${at.typed++} `)
  else if (action.is === 'print') await worker.print(`(${at.typed++}) `)
  else if (action.is === 'resume') void host.hostApi.resumeRun(runId)
  else if (action.is === 'release') void host.hostApi.releaseRun(runId)
  else if (action.is === 'exit' && worker.connection !== undefined) await worker.exit()
  else if (action.is === 'drop') await worker.drop()
  else if (action.is === 'come back') await worker.comeBack()
  else if (action.is === 'die') await worker.die()
  else if (action.is === 'pass') await advanceSeconds(at, action.seconds)
  await host.settle()
  await worker.obey()
  at.people = people.filter((person) => person.closed === undefined)
}

/** Lets time pass in steps of a second, so that the worker acts in time and sends heartbeats. */
async function advanceSeconds({ host, worker }: Scene, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    if (second % 10 === 0) await worker.connection?.sendHeartbeat()
    await host.clock.advance(1000)
    await worker.obey()
  }
}

/** The content of a person's terminal: everything since the last clear sequence. */
const shownTo = ({ screen }: Person): string => screen.slice(screen.lastIndexOf(CLEAR) + CLEAR.length)

function expectSameScreens({ host, worker, people }: Scene): void {
  const { booted, terminals } = host.census()
  expect(terminals).toBe(people.length)
  if (worker.connection === undefined || booted === 0) return
  expect(worker.sessions.size).toBe(people.length)
  for (const person of people) expect(shownTo(person)).toBe(worker.screen)
}

const RUNS = Number(process.env.ATTACH_RUNS ?? 150)

test('whatever people and workers do, everyone sees the terminal, and no sandbox stays booted without viewers', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const at = await createScene()
      for (const action of steps) {
        await performStep(action, at)
        expectSameScreens(at)
      }
      for (const person of at.people) await person.leave()
      await at.worker.comeBack()
      await at.host.settle()
      await at.worker.obey()
      await advanceSeconds(at, ATTACH_GRACE_MS / 1000 + 60)
      expect(at.host.census()).toMatchObject({ booted: 0, terminals: 0 })
      expect(at.worker.booted).toBe(false)
      expect(at.host.transcript.filter((line) => line.startsWith('!!'))).toEqual([])
    }),
    { numRuns: RUNS },
  )
}, 300_000)
