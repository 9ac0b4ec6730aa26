/** Scripted people at terminals of resumed sandboxes. The transcript records what each of them sees. */
import type { ViewReceiver } from '../../core/ports/connections.ts'
import type { AttachOutput } from '../../protocol/dashboard.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import {
  acceptRun,
  configWith,
  type HostConversation,
  type LeasedScriptedWorker,
  type ScriptedConnection,
  startHost,
  type Work,
} from './host-conversation.ts'

export const withAgent = configWith({ agent: { agentAApiKey: 'sk-agent' }, codehost: { token: 'gh-token' } })

export interface RetainedRun extends LeasedScriptedWorker {
  readonly workerName: string
}

/** Completes a run whose sandbox is retained with an agent session in it. */
export async function retainRun(
  host: HostConversation,
  outcome: Partial<RunOutcome> = {},
  before: (work: Work) => readonly object[] = () => [],
): Promise<RetainedRun> {
  const given = await acceptRun(host)
  await host.withoutTranscript(() =>
    given.connection.send(
      ...before(given.work),
      given.work.complete({ agentSessionId: 'session-1', sandbox: { id: 'sb-1' }, ...outcome }),
    ),
  )
  host.clearTranscript()
  return { ...given, workerName: 'worker' }
}

export const startWithRetainedRun = async () => {
  const host = await startHost(withAgent)
  return { host, ...(await retainRun(host)) }
}

/** Answers the latest boot order as the worker. `more`: the session that goes on there. */
export const reportReady = (connection: ScriptedConnection, more: { readonly sessionId?: string } = {}) =>
  connection.send({
    type: 'sandbox-ready',
    requestId: connection.lastReceived('sandbox-boot').requestId,
    ...more,
  })

/** Resumes the sandbox of a run and releases it again. */
export async function resumeAndRelease(
  host: HostConversation,
  connection: ScriptedConnection,
  runId: string,
  more: { readonly sessionId?: string } = {},
): Promise<void> {
  const asked = host.hostApi.resumeRun(runId)
  await host.settle()
  await reportReady(connection, more)
  await host.succeeded(asked)
  await host.succeeded(host.hostApi.releaseRun(runId))
}

/** A person at a terminal. */
export class Person {
  readonly seen: AttachOutput[] = []
  closed: { readonly code: number; readonly reason: string } | undefined
  /** How many more frames the terminal accepts before its buffer counts as full. */
  framesUntilFull = Number.POSITIVE_INFINITY
  readonly #host: HostConversation
  readonly #view: ViewReceiver

  constructor(host: HostConversation, runId: string, name: string) {
    this.#host = host
    this.#view = host.hostApi.attachView(runId, {
      send: (frame) => {
        if (this.closed !== undefined || this.framesUntilFull-- <= 0) return false
        this.seen.push(frame)
        host.write(`${name} sees  ${describeOutput(frame)}`)
        return true
      },
      close: (code, reason) => {
        this.closed ??= { code, reason }
        host.write(`${name} is sent away  ${code}`)
      },
    })
  }

  async type(data: string): Promise<void> {
    this.#view.onInput(data)
    await this.#host.settle()
  }

  async resize(cols: number, rows: number): Promise<void> {
    this.#view.onResize(cols, rows)
    await this.#host.settle()
  }

  async leave(): Promise<void> {
    this.closed ??= { code: 1000, reason: 'left' }
    this.#view.onClosed()
    await this.#host.settle()
  }

  get screen(): string {
    return this.seen.map((frame) => (frame.type === 'data' ? frame.data : '')).join('')
  }
}

function describeOutput(frame: AttachOutput): string {
  if (frame.type === 'data') return JSON.stringify(frame.data)
  return frame.type === 'exit' ? `exit ${frame.code}` : `error: ${frame.message}`
}

/** Opens a terminal of this size. */
export async function openTerminal(
  host: HostConversation,
  runId: string,
  name: string,
  cols = 100,
  rows = 30,
): Promise<Person> {
  const person = new Person(host, runId, name)
  await person.resize(cols, rows)
  return person
}

/** The session id of the latest `attach-open`. */
export const sessionOf = (connection: ScriptedConnection): string =>
  connection.lastReceived('attach-open').sessionId

export const print = (connection: ScriptedConnection, sessionId: string, data: string) =>
  connection.send({ type: 'attach-data', sessionId, data })
