/**
 * A person's views of a session, at a yard's host: sockets as a dashboard opens them, each drawn on a terminal of its
 * own, so that tests see what the person would.
 */
import { Terminal } from '@xterm/headless'
import type { AttachInput } from '../../protocol/dashboard.ts'
import type { Run } from '../../protocol/run.ts'
import type { Yard } from './local-system.ts'
import { until } from './real-files.ts'
import { socketClient } from './socket-client.ts'

export const SIZE = { cols: 100, rows: 30 }
const SEEN_MS_MAX = 30_000
/** What one types comes in pieces; a shell that is asked for its prompt is not asked in the middle of it. */
const LOOK_MS = 10
/** Of a worker that is on its way to its host. */
const RESUMED_MS_MAX = 60_000
const ASK_EVERY_MS = 100
/** In front of what is typed next. */
const PROMPT = /^> $/

export class Viewer {
  readonly #socket: ReturnType<typeof socketClient>
  readonly #terminal = new Terminal({ ...SIZE, scrollback: 5_000, allowProposedApi: true, convertEol: false })
  #text = ''
  #heard = 0
  #drawn = 0

  constructor(socket: ReturnType<typeof socketClient>) {
    this.#socket = socket
  }

  get closed() {
    return this.#socket.closed
  }

  /** How the session ended, or why there is none. */
  word(): unknown {
    return this.#socket.frames.find(({ type }) => type !== 'data')
  }

  /** All that came, pictures and notes included. */
  text(): string {
    const { frames } = this.#socket
    for (const { type, data } of frames.slice(this.#heard)) if (type === 'data') this.#text += String(data)
    this.#heard = frames.length
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

  async sees(what: string | RegExp, ms = SEEN_MS_MAX): Promise<void> {
    const isThere = async () => {
      const shown = (await this.lines()).join('\n')
      return typeof what === 'string' ? shown.includes(what) : what.test(shown)
    }
    await until(`"${what}" in a view`, isThere, ms, LOOK_MS).catch((error) => {
      throw new Error(`${error.message}\n${JSON.stringify([this.word(), this.text().slice(-2_000)])}`)
    })
  }

  /** Types a step of one line, and has what the session says to it. */
  async asks(step: string): Promise<string> {
    await this.ready()
    // A line number would not do: when the scrollback is full, each new line takes the place of the oldest.
    const prompt = this.#terminal.registerMarker(0)
    if (prompt === undefined) throw new Error('a full-screen program has no lines to go by')
    const said = async () =>
      (await this.lines())
        .slice(prompt.line + 1)
        .map(unprompted)
        .filter(Boolean)
    this.type(`${step}\r`)
    await until('its answer', async () => (await said()).length > 0, SEEN_MS_MAX, LOOK_MS)
    await this.ready()
    return (await said()).join('\n')
  }

  /** The session waits for something to be typed. */
  async ready(): Promise<void> {
    await until(
      'a prompt',
      async () => PROMPT.test((await this.lines()).at(-1) ?? ''),
      SEEN_MS_MAX,
      LOOK_MS,
    ).catch((error) => {
      throw new Error(`${error.message}\n${JSON.stringify([this.word(), this.text().slice(-2_000)])}`)
    })
  }

  leave(): void {
    this.#socket.close()
  }
}

/** A session that is told of another size shows its prompt once more, be it in front of what it is about to say. */
const unprompted = (line: string): string => line.replace(/^> ?/, '')

export async function viewOf(yard: Yard, { id }: Run, size = SIZE): Promise<Viewer> {
  const { url, token } = await yard.host.launched()
  const socket = socketClient(Number(new URL(url).port), `/ws/runs/${id}/attach`, {
    authorization: `Bearer ${token}`,
  })
  await socket.opened
  const viewer = new Viewer(socket)
  viewer.send({ type: 'resize', ...size })
  return viewer
}

export interface Answered {
  readonly status: number
  readonly body: unknown
}

export function asked(yard: Yard, id: string, deed: 'resume' | 'release' | 'discard'): Promise<Answered> {
  return yard.host.ask(`/api/runs/${id}/${deed}`, { method: 'POST' })
}

/** Until it is allowed; the worker may need a moment to find its host. */
export async function resumed(yard: Yard, { id }: Run): Promise<Answered> {
  let answer: Answered = { status: 0, body: undefined }
  const isAllowed = async () => {
    answer = await asked(yard, id, 'resume').catch(() => answer)
    return answer.status === 200
  }
  await until('it may be resumed', isAllowed, RESUMED_MS_MAX, ASK_EVERY_MS).catch((error) => {
    throw new Error(`${error.message}\n${JSON.stringify(answer)}`)
  })
  return answer
}
