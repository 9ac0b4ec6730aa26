/** People who look into a sandbox, held in the hand: what each of them sees is part of the transcript. */
import type { ViewLine } from '../../actors/api/host-api.ts'
import type { AttachOutput } from '../../protocol/dashboard.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { type Busy, busy, configWith, type Wire, type Work, type Yarn, yarn } from './host-conversation.ts'

export const withAgent = configWith({ agent: { agentAApiKey: 'sk-agent' }, codehost: { token: 'gh-token' } })

export interface Retained extends Busy {
  readonly workerName: string
}

/** A run that has ended, with its sandbox retained and a session in it. */
export async function retained(
  y: Yarn,
  outcome: Partial<RunOutcome> = {},
  before: (work: Work) => readonly object[] = () => [],
): Promise<Retained> {
  const given = await busy(y)
  await y.quietly(() =>
    given.wire.say(
      ...before(given.work),
      given.work.complete({ agentSessionId: 'session-1', sandbox: { id: 'sb-1' }, ...outcome }),
    ),
  )
  y.fresh()
  return { ...given, workerName: 'worker' }
}

export const aRetainedRun = async () => {
  const y = await yarn(withAgent)
  return { y, ...(await retained(y)) }
}

/** The worker's answer to the last order to boot. */
export const ready = (wire: Wire) =>
  wire.say({ type: 'sandbox-ready', requestId: wire.last('sandbox-boot').requestId })

/** A person looks in, and has left again. */
export async function visited(y: Yarn, wire: Wire, runId: string): Promise<void> {
  const asked = y.desk.resumeRun(runId)
  await y.settle()
  await ready(wire)
  await y.done(asked)
  await y.done(y.desk.releaseRun(runId))
}

/** Somebody at a terminal. */
export class Person {
  readonly seen: AttachOutput[] = []
  closed: { readonly code: number; readonly reason: string } | undefined
  /** So many more frames until too much waits for one that does not read. */
  takes = Number.POSITIVE_INFINITY
  readonly #y: Yarn
  readonly #line: ViewLine

  constructor(y: Yarn, runId: string, name: string) {
    this.#y = y
    this.#line = y.desk.attachView(runId, {
      send: (frame) => {
        if (this.closed !== undefined || this.takes-- <= 0) return false
        this.seen.push(frame)
        y.write(`${name} sees  ${told(frame)}`)
        return true
      },
      close: (code, reason) => {
        this.closed ??= { code, reason }
        y.write(`${name} is sent away  ${code}`)
      },
    })
  }

  async type(data: string): Promise<void> {
    this.#line.input(data)
    await this.#y.settle()
  }

  async resize(cols: number, rows: number): Promise<void> {
    this.#line.resize(cols, rows)
    await this.#y.settle()
  }

  async leave(): Promise<void> {
    this.closed ??= { code: 1000, reason: 'left' }
    this.#line.closed()
    await this.#y.settle()
  }

  get screen(): string {
    return this.seen.map((frame) => (frame.type === 'data' ? frame.data : '')).join('')
  }
}

function told(frame: AttachOutput): string {
  if (frame.type === 'data') return JSON.stringify(frame.data)
  return frame.type === 'exit' ? `exit ${frame.code}` : `error: ${frame.message}`
}

/** Sits down at a terminal of this size. */
export async function sits(y: Yarn, runId: string, name: string, cols = 100, rows = 30): Promise<Person> {
  const person = new Person(y, runId, name)
  await person.resize(cols, rows)
  return person
}

/** The session in which the worker was last asked to show the terminal. */
export const sessionOf = (wire: Wire): string => wire.last('attach-open').sessionId

export const print = (wire: Wire, sessionId: string, data: string) =>
  wire.say({ type: 'attach-data', sessionId, data })
