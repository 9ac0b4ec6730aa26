/**
 * A person's views of a session, at a yard's host: sockets as a dashboard opens them, each drawn on a terminal of its
 * own, so that tests see what the person would.
 */
import { Terminal } from '@xterm/headless'
import type { AttachInput } from '../../protocol/dashboard.ts'
import type { Run } from '../../protocol/run.ts'
import type { LocalSystem } from './local-system.ts'
import { until } from './real-files.ts'
import { connectSocket } from './socket-client.ts'

export const SIZE = { cols: 100, rows: 30 }
const SEEN_MS_MAX = 30_000
/** What one types comes in pieces; a shell that is asked for its prompt is not asked in the middle of it. */
const POLL_EVERY_MS = 10
/** Of a worker that is on its way to its host. */
const RESUMED_MS_MAX = 60_000
const RESUME_EVERY_MS = 100
/** In front of what is typed next. */
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

  /** How the session ended, or why there is none. */
  endFrame(): unknown {
    return this.#socket.frames.find(({ type }) => type !== 'data')
  }

  /** All that came, pictures and notes included. */
  text(): string {
    const { frames } = this.#socket
    for (const { type, data } of frames.slice(this.#readFrames))
      if (type === 'data') this.#text += String(data)
    this.#readFrames = frames.length
    return this.#text
  }

  /** What the person has before him, with all that he can scroll back to. */
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

  /** Types a step of one line, and has what the session says to it. */
  async runStep(step: string): Promise<string> {
    await this.waitForPrompt()
    // A line number would not do: when the scrollback is full, each new line takes the place of the oldest.
    const prompt = this.#terminal.registerMarker(0)
    if (prompt === undefined) throw new Error('a full-screen program has no lines to go by')
    const outputLines = async () =>
      (await this.lines())
        .slice(prompt.line + 1)
        .map(withoutPrompt)
        .filter(Boolean)
    this.type(`${step}\r`)
    await until('its answer', async () => (await outputLines()).length > 0, SEEN_MS_MAX, POLL_EVERY_MS)
    await this.waitForPrompt()
    return (await outputLines()).join('\n')
  }

  /** The session waits for something to be typed. */
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

/** A session that is told of another size shows its prompt once more, be it in front of what it is about to say. */
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

/** Until it is allowed; the worker may need a moment to find its host. */
export async function waitForResume(system: LocalSystem, { id }: Run): Promise<RunActionResponse> {
  let answer: RunActionResponse = { status: 0, body: undefined }
  const isAllowed = async () => {
    answer = await requestRunAction(system, id, 'resume').catch(() => answer)
    return answer.status === 200
  }
  await until('it may be resumed', isAllowed, RESUMED_MS_MAX, RESUME_EVERY_MS).catch((error) => {
    throw new Error(`${error.message}\n${JSON.stringify(answer)}`)
  })
  return answer
}
