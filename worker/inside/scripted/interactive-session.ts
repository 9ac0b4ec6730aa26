/**
 * The scripted agent with a person before it: shows the session, answers, and carries out single steps of its language.
 *
 * Ctrl-C interrupts a step, or forgets the line; at an empty line it only says how to leave. What is said here is in the
 * session's transcript like everything else, and costs.
 */

import { createInterface, type Interface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { flood } from './flood.ts'
import { readScript, VERBS } from './script.ts'
import { type Surroundings, type ToolDeed, use } from './tools.ts'
import type { Past } from './transcript.ts'

export interface Desk {
  readonly input: Readable
  readonly output: Writable
  readonly isTerminal: boolean
  readonly around: Surroundings
  readonly sessionId: string
  readonly past: Past
  /** Both sides of it, for the transcript. */
  readonly note: (said: string, answered: string) => void
  /** Begins another session, and answers its id. */
  readonly clear: () => string
}

const HELP = [
  `a line that begins with one of these is carried out: ${VERBS.join(', ')}`,
  'end a line with <<END to give it a text, up to a line END',
  'flood BYTES prints so many, as fast as they are taken',
  '/clear begins another session',
  '/help shows this, /exit leaves, exit CODE leaves with that code',
].join('\n')

const TOOLS: readonly string[] = [
  'write',
  'append',
  'edit',
  'delete',
  'run',
  'try',
  'commit',
  'remember',
  'artifact',
  'ask-network',
]

/** Resolves with an exit code when the person leaves. */
export async function converse(desk: Desk): Promise<number> {
  const { input, output, isTerminal } = desk
  const lines = createInterface({ input, output, terminal: isTerminal, prompt: '> ' })
  const under = { way: undefined as AbortController | undefined }
  let { sessionId } = desk
  let code = 0
  greet(desk)
  lines.on('SIGINT', () => interrupt(lines, output, under.way))
  lines.prompt()
  for await (const line of statements(lines)) {
    const leaving = LEAVING.exec(line)
    if (leaving !== null) {
      code = Number(leaving[1] ?? 0) & EXIT_CODE_BITS
      break
    }
    if (line.trim() === '/clear') {
      sessionId = desk.clear()
      output.write(`another session: ${sessionId}\n`)
      lines.prompt()
      continue
    }
    under.way = new AbortController()
    const answer = await answerTo(line, desk, under.way.signal)
    under.way = undefined
    if (answer !== '') {
      // First: what a person has seen is never missing from the session, whatever ends it.
      desk.note(line, answer)
      output.write(`${answer}\n`)
    }
    lines.prompt()
  }
  lines.close()
  output.write(`Resume this session with: scripted-agent --resume ${sessionId}\n`)
  return code
}

const LEAVING = /^\s*(?:\/exit|exit(?:\s+(\d{1,3}))?)\s*$/
const EXIT_CODE_BITS = 0xff

function greet({ output, sessionId, past, around }: Desk): void {
  output.write(`scripted agent · session ${sessionId} · ${around.cwd}\n`)
  if (past.messages > 0) output.write(`${past.messages} messages so far; the last words were:\n`)
  for (const text of past.said) output.write(`  ${text.split('\n').join('\n  ')}\n`)
  output.write('It has no mind of its own: /help lists what it can do, /exit leaves.\n')
}

function interrupt(lines: Interface, output: Writable, way: AbortController | undefined): void {
  way?.abort()
  if (way !== undefined) return
  output.write(lines.line === '' ? '\n/exit leaves\n' : '\n')
  lines.write(null, { ctrl: true, name: 'u' })
  lines.prompt()
}

/** Lines; one that ends with <<WORD together with its text. */
async function* statements(lines: Interface): AsyncGenerator<string> {
  let kept: string[] = []
  for await (const line of lines) {
    kept.push(line)
    const word = /<<([A-Za-z_]\w*)$/.exec(kept[0] ?? '')?.[1]
    if (word !== undefined && (kept.length === 1 || line.trimEnd() !== word)) continue
    yield kept.join('\n')
    kept = []
  }
}

const FLOOD = /^\s*flood\s+(\d{1,10})\s*$/

async function answerTo(text: string, { around, output }: Desk, signal: AbortSignal): Promise<string> {
  if (text.trim() === '') return ''
  if (text.trim() === '/help') return HELP
  const bytes = FLOOD.exec(text)?.[1]
  if (bytes !== undefined) return `${await flood(output, Number(bytes), signal)} bytes`
  const [verb = ''] = text.split(/\s/, 1)
  if (!VERBS.includes(verb)) return `You said: ${text}\nI can only carry out steps; /help lists them.`
  const read = readScript(text.split('\n'))
  if (read.is === 'bad') return read.says
  const deed = read.is === 'script' ? read.deeds[0] : undefined
  if (deed?.does === 'say' || deed?.does === 'subagent') return deed.text
  if (deed === undefined || !TOOLS.includes(deed.does)) return `${verb} is for scripts only`
  const { text: said, isError } = await use(deed as ToolDeed, around, signal)
  return isError ? `it went wrong: ${said}` : said || 'done'
}
