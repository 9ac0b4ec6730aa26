/**
 * A person's views of a terminal session: sockets like a dashboard opens them, each drawn on a headless terminal.
 */
import { Terminal } from '@xterm/headless'
import type { AttachInput } from '../../protocol/dashboard.ts'
import type { Run } from '../../protocol/run.ts'
import type { LocalSystem } from './local-system.ts'
import { connectSocket } from './socket-client.ts'
import { until } from './until.ts'

export const SIZE = { cols: 100, rows: 30 }
const SEEN_MS_MAX = 30_000
/** Typed text arrives in pieces, so the prompt is polled with pauses. */
const POLL_EVERY_MS = 10
/** Includes the time in which a worker connects to its host. */
const RESUMED_MS_MAX = 60_000
const RESUME_EVERY_MS = 100
/** The last line when the session waits for input. */
const PROMPT = /^> $/

export class SessionView {
  readonly #socket: ReturnType<typeof connectSocket>
  readonly #terminal = new Terminal({ ...SIZE, scrollback: 5_000, allowProposedApi: true, convertEol: false })
  #text = ''
  #readFrames = 0
  #drawn = 0

  constructor(socket: ReturnType<typeof connectSocket>) {
    this.#socket = socket
  }

  get closed() {
    return this.#socket.closed
  }

  /** The frame that says how the session ended or why it was refused. */
  endFrame(): unknown {
    return this.#socket.frames.find(({ type }) => type !== 'data')
  }

  /** All received output, with serialized screens and notes. */
  text(): string {
    const { frames } = this.#socket
    for (const { type, data } of frames.slice(this.#readFrames))
      if (type === 'data') this.#text += String(data)
    this.#readFrames = frames.length
    return this.#text
  }

  /** Returns the lines of the screen and its scrollback. */
  async lines(): Promise<string[]> {
    const text = this.text()
    const fresh = text.slice(this.#drawn)
    this.#drawn = text.length
    await new Promise<void>((done) => this.#terminal.write(fresh, done))
    const { active } = this.#terminal.buffer
    const all = Array.from(
      { length: active.length },
      (_, at) => active.getLine(at)?.translateToString() ?? '',
    )
    const last = all.findLastIndex((line) => line.trim() !== '')
    return all
      .slice(0, last + 1)
      .map((line, at) => (at === last ? line.replace(/\s+$/, ' ') : line.trimEnd()))
  }

  send(frame: AttachInput): void {
    this.#socket.send(frame)
  }

  type(data: string): void {
    this.send({ type: 'input', data })
  }

  async waitForText(what: string | RegExp, ms = SEEN_MS_MAX): Promise<void> {
    const isThere = async () => {
      const shown = (await this.lines()).join('\n')
      return typeof what === 'string' ? shown.includes(what) : what.test(shown)
    }
    await until(`"${what}" in a view`, isThere, ms, POLL_EVERY_MS).catch((error) => {
      throw new Error(`${error.message}\n${JSON.stringify([this.endFrame(), this.text().slice(-2_000)])}`)
    })
  }

  /** Types a step of one line and returns the session's output. */
  async runStep(step: string): Promise<string> {
    await this.waitForPrompt()
    // A line number would not work: when the scrollback is full, each new line replaces the oldest.
    const prompt = this.#terminal.registerMarker(0)
    if (prompt === undefined) throw new Error('a full-screen program is running, so no line can be marked')
    const outputLines = async () =>
      (await this.lines())
        .slice(prompt.line + 1)
        .map(withoutPrompt)
        .filter(Boolean)
    this.type(`${step}\r`)
    await until(
      'output of the step',
      async () => (await outputLines()).length > 0,
      SEEN_MS_MAX,
      POLL_EVERY_MS,
    )
    await this.waitForPrompt()
    return (await outputLines()).join('\n')
  }

  /** Waits until the session shows its prompt. */
  async waitForPrompt(): Promise<void> {
    await until(
      'a prompt',
      async () => PROMPT.test((await this.lines()).at(-1) ?? ''),
      SEEN_MS_MAX,
      POLL_EVERY_MS,
    ).catch((error) => {
      throw new Error(`${error.message}\n${JSON.stringify([this.endFrame(), this.text().slice(-2_000)])}`)
    })
  }

  disconnect(): void {
    this.#socket.close()
  }
}

/** Removes the prompt that a session prints again after a resize, even in front of output. */
const withoutPrompt = (line: string): string => line.replace(/^> ?/, '')

export async function openView(system: LocalSystem, { id }: Run, size = SIZE): Promise<SessionView> {
  const { url, token } = await system.host.waitForLaunch()
  const socket = connectSocket(Number(new URL(url).port), `/ws/runs/${id}/attach`, {
    authorization: `Bearer ${token}`,
  })
  await socket.opened
  const viewer = new SessionView(socket)
  viewer.send({ type: 'resize', ...size })
  return viewer
}

export interface RunActionResponse {
  readonly status: number
  readonly body: unknown
}

export function requestRunAction(
  system: LocalSystem,
  id: string,
  action: 'resume' | 'release' | 'discard',
): Promise<RunActionResponse> {
  return system.host.request(`/api/runs/${id}/${action}`, { method: 'POST' })
}

/** Retries until the resume is allowed, because the worker may still be connecting. */
export async function waitForResume(system: LocalSystem, { id }: Run): Promise<RunActionResponse> {
  let answer: RunActionResponse = { status: 0, body: undefined }
  const isAllowed = async () => {
    answer = await requestRunAction(system, id, 'resume').catch(() => answer)
    return answer.status === 200
  }
  await until('the run may be resumed', isAllowed, RESUMED_MS_MAX, RESUME_EVERY_MS).catch((error) => {
    throw new Error(`${error.message}\n${JSON.stringify(answer)}`)
  })
  return answer
}
