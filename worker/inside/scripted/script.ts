/**
 * The scripted agent's language: what stands in the last block of a prompt that is fenced as `switchyard`.
 *
 *     ```switchyard
 *     # a comment
 *     say TEXT                says it, as an agent would
 *     write PATH              a file with the body below; `append PATH` adds to one, `delete PATH` removes one
 *     edit PATH               replaces what stands once in the file; body lines begin with `- ` (old), `+ ` (new) or
 *                             two spaces (both)
 *     run COMMAND             a shell command, which must succeed; `try COMMAND` need not
 *     commit MESSAGE          everything, with git
 *     remember FACT           for the next run on this repository
 *     artifact NAME           a file for people, with the body below
 *     subagent TEXT           lets a second, smaller model say it
 *     ask-network HOST[:PORT] looks whether it can be reached
 *     wait SECONDS            nothing happens
 *     spam N                  N lines that are no JSON
 *     fail MESSAGE            ends as a failure
 *     limit [MINUTES]         ends because the usage limit is reached, until so many minutes from now
 *     crash [CODE]            dies without a last word
 *     hang [deaf]             says nothing any more; deaf: is not interrupted by SIGINT and SIGTERM either
 *     ```
 *
 * A body is the lines below that are indented by two spaces or a tab, or everything up to a line `WORD` after
 * `write PATH <<WORD`. Texts may go on in a body. A file that has fences in it goes into a block with a longer fence.
 * Paths stay below the working directory. Pure: text in, deeds or a sentence out.
 */

export type Deed = { readonly line: number } & (
  | { readonly does: 'say' | 'subagent'; readonly text: string }
  | { readonly does: 'commit' | 'remember'; readonly text: string }
  | { readonly does: 'fail'; readonly text: string }
  | { readonly does: 'run' | 'try'; readonly command: string }
  | { readonly does: 'write' | 'append' | 'artifact'; readonly path: string; readonly body: string }
  | { readonly does: 'edit'; readonly path: string; readonly before: string; readonly after: string }
  | { readonly does: 'delete'; readonly path: string }
  | { readonly does: 'ask-network'; readonly host: string; readonly port: number }
  | { readonly does: 'wait'; readonly seconds: number }
  | { readonly does: 'spam'; readonly count: number }
  | { readonly does: 'limit'; readonly minutes: number }
  | { readonly does: 'crash'; readonly code?: number }
  | { readonly does: 'hang'; readonly deaf: boolean }
)

export type ScriptRead =
  | { readonly is: 'script'; readonly deeds: readonly Deed[] }
  /** The prompt has no such block. */
  | { readonly is: 'none' }
  | { readonly is: 'bad'; readonly line: number; readonly says: string }

export const DEEDS_MAX = 1_000
const WAIT_SECONDS_MAX = 86_400
const SPAM_LINES_MAX = 1_000_000
const LIMIT_MINUTES = 60
const LIMIT_MINUTES_MAX = 10_080
const HTTPS_PORT = 443

const OPENING = /^ {0,3}(?<fence>`{3,}|~{3,}) *switchyard *$/

/** The last block counts: what came first may be quoted, and a conversation ends with what is to be done now. */
export function readPrompt(prompt: string): ScriptRead {
  const lines = prompt.split(/\r\n|\n|\r/)
  const start = lines.findLastIndex((line) => OPENING.test(line))
  if (start < 0) return { is: 'none' }
  const fence = OPENING.exec(lines[start] ?? '')?.groups?.fence ?? ''
  const rest = lines.slice(start + 1)
  const end = rest.findIndex((line) => closes(line, fence))
  if (end < 0) return { is: 'bad', line: rest.length, says: `the block has no end; close it with ${fence}` }
  return readScript(rest.slice(0, end))
}

export function readScript(lines: readonly string[]): ScriptRead {
  const deeds: Deed[] = []
  for (let at = 0; at < lines.length; ) {
    const step = stepAt(lines, at)
    if ('says' in step) return { is: 'bad', line: at + 1, says: step.says }
    if (step.deed !== undefined) deeds.push(step.deed)
    if (deeds.length > DEEDS_MAX)
      return { is: 'bad', line: at + 1, says: `more than ${DEEDS_MAX} steps; split the ticket` }
    at = step.next
  }
  return { is: 'script', deeds }
}

// ---- lines and bodies --------------------------------------------------------------------------------------------

interface Step {
  readonly deed?: Deed
  readonly next: number
}
interface Fault {
  readonly says: string
}
interface Body {
  readonly lines: readonly string[]
  readonly next: number
}

const INDENT = /^( {2}|\t)/
/** A mark alone is an empty line. */
const EDIT_LINE = /^([-+]( .*)?| {2}.*|)$/
const HEREDOC = /^(?<head>.*?)\s*<<(?<word>[A-Za-z_]\w*)$/

function closes(line: string, fence: string): boolean {
  const text = line.trim()
  return text.length >= fence.length && [...text].every((char) => char === fence[0])
}

function stepAt(lines: readonly string[], at: number): Step | Fault {
  const line = lines[at] ?? ''
  if (line.trim() === '' || line.startsWith('#')) return { next: at + 1 }
  if (/^\s/.test(line)) return { says: 'is indented, but the line above takes no body' }
  const [verb = '', ...words] = line.trimEnd().split(/(?<=^\S+)\s+/)
  const rest = words.join(' ')
  // The shell has such texts of its own: there, only a text that is the whole command is ours.
  const isShells = (verb === 'run' || verb === 'try') && !rest.startsWith('<<')
  const heredoc = isShells ? undefined : HEREDOC.exec(rest)?.groups
  const body = heredoc === undefined ? indented(lines, at + 1) : upTo(lines, at + 1, heredoc.word ?? '')
  if (body === undefined) return { says: `its text has no end; close it with a line ${heredoc?.word}` }
  const read = deedOf(verb, heredoc?.head ?? rest, body.lines)
  return 'says' in read ? read : { deed: { ...read, line: at + 1 }, next: body.next }
}

/** Blank lines belong to it when more of it follows. */
function indented(lines: readonly string[], from: number): Body {
  let next = from
  for (let at = from; at < lines.length; at += 1) {
    const line = lines[at] ?? ''
    if (INDENT.test(line) && line.trim() !== '') next = at + 1
    else if (line.trim() !== '') break
  }
  return { lines: lines.slice(from, next).map((line) => line.replace(INDENT, '')), next }
}

function upTo(lines: readonly string[], from: number, word: string): Body | undefined {
  const end = lines.findIndex((line, at) => at >= from && line.trimEnd() === word)
  return end < 0 ? undefined : { lines: lines.slice(from, end), next: end + 1 }
}

// ---- one deed ----------------------------------------------------------------------------------------------------

/** Each member without its line, which the caller knows. */
type Lineless<D> = D extends unknown ? Omit<D, 'line'> : never
type Reader = (rest: string, body: readonly string[], verb: string) => Lineless<Deed> | Fault

function deedOf(verb: string, rest: string, body: readonly string[]): Lineless<Deed> | Fault {
  const reader = Object.hasOwn(READERS, verb) ? READERS[verb] : undefined
  if (reader !== undefined) return reader(rest, body, verb)
  return { says: `${JSON.stringify(verb.slice(0, 40))} is no step; use one of ${VERBS.join(', ')}` }
}

const saying: Reader = (rest, body, verb) => {
  const text = textOf(rest, body)
  return text === '' ? { says: `${verb} needs a text` } : ({ does: verb, text } as Lineless<Deed>)
}

const running: Reader = (rest, body, verb) => {
  const command = textOf(rest, body)
  return command === '' ? { says: `${verb} needs a command` } : ({ does: verb, command } as Lineless<Deed>)
}

const filing: Reader = (path, body, verb) => {
  if (path === '') return { says: `${verb} needs a ${verb === 'artifact' ? 'name' : 'path'}` }
  return { does: verb, path, body: body.map((line) => `${line}\n`).join('') } as Lineless<Deed>
}

const editing: Reader = (path, body) => {
  if (path === '') return { says: 'edit needs a path' }
  const strange = body.find((line) => !EDIT_LINE.test(line))
  if (strange !== undefined)
    return {
      says: `the lines below edit begin with "- ", "+ " or two spaces, after their indentation; not ${JSON.stringify(strange.slice(0, 40))}`,
    }
  const side = (other: string) => body.filter((line) => !line.startsWith(other)).map((line) => line.slice(2))
  const [before, after] = [side('+').join('\n'), side('-').join('\n')]
  if (before === '') return { says: 'edit needs lines that begin with "- ": what is to be replaced' }
  return { does: 'edit', path, before, after }
}

const deleting: Reader = (path, body) =>
  bodiless(body) ?? (path === '' ? { says: 'delete needs a path' } : { does: 'delete', path })

const asking: Reader = (rest, body) => {
  const parts = /^(?<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(?<port>\d{1,5}))?$/.exec(rest)?.groups
  if (parts === undefined) return { says: 'ask-network needs a host, or host:port' }
  const port = Number(parts.port ?? HTTPS_PORT)
  if (port < 1 || port > 65_535) return { says: 'the port must be between 1 and 65535' }
  return bodiless(body) ?? { does: 'ask-network', host: parts.host ?? '', port }
}

const waiting: Reader = (rest, body) => {
  const seconds = numberIn(rest, WAIT_SECONDS_MAX)
  if (seconds === undefined) return { says: `wait needs a number of seconds, at most ${WAIT_SECONDS_MAX}` }
  return bodiless(body) ?? { does: 'wait', seconds }
}

const spamming: Reader = (rest, body) => {
  const count = numberIn(rest, SPAM_LINES_MAX)
  if (count === undefined || !Number.isInteger(count))
    return { says: `spam needs a number of lines, at most ${SPAM_LINES_MAX}` }
  return bodiless(body) ?? { does: 'spam', count }
}

const limiting: Reader = (rest, body) => {
  const minutes = rest === '' ? LIMIT_MINUTES : numberIn(rest, LIMIT_MINUTES_MAX)
  if (minutes === undefined) return { says: `limit takes a number of minutes, at most ${LIMIT_MINUTES_MAX}` }
  return bodiless(body) ?? { does: 'limit', minutes }
}

const crashing: Reader = (rest, body) => {
  const code = rest === '' ? undefined : numberIn(rest, 255)
  if (rest !== '' && (code === undefined || !Number.isInteger(code)))
    return { says: 'crash takes an exit code from 0 to 255' }
  return bodiless(body) ?? { does: 'crash', ...(code === undefined ? {} : { code }) }
}

const hanging: Reader = (rest, body) => {
  if (rest !== '' && rest !== 'deaf') return { says: 'hang takes nothing but deaf' }
  return bodiless(body) ?? { does: 'hang', deaf: rest === 'deaf' }
}

const READERS: Readonly<Record<Deed['does'], Reader>> & Readonly<Record<string, Reader>> = {
  say: saying,
  write: filing,
  append: filing,
  edit: editing,
  delete: deleting,
  run: running,
  try: running,
  commit: saying,
  remember: saying,
  artifact: filing,
  subagent: saying,
  'ask-network': asking,
  wait: waiting,
  spam: spamming,
  fail: saying,
  limit: limiting,
  crash: crashing,
  hang: hanging,
}
export const VERBS = Object.keys(READERS)

function textOf(rest: string, body: readonly string[]): string {
  return [rest, ...body].join('\n').trim()
}

function bodiless(body: readonly string[]): Fault | undefined {
  return body.length === 0 ? undefined : { says: 'takes no body; the next line must not be indented' }
}

function numberIn(text: string, max: number): number | undefined {
  const value = /^\d{1,9}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN
  return value <= max ? value : undefined
}
