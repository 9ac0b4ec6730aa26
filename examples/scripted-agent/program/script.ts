/**
 * Parses the scripted agent's language, the content of the last fenced `switchyard` block of a prompt.
 *
 * Pure: a text becomes steps, or an error sentence with its line. `ScriptStep` describes the language.
 */

/**
 * A step of a script. The language:
 *
 *     ```switchyard
 *     # a comment
 *     say TEXT                writes a text message
 *     write PATH              writes the body to a file; `append PATH` appends it, `delete PATH` deletes a file
 *     edit PATH               replaces a text that occurs once in the file; body lines begin with `- ` (old), `+ ` (new)
 *                             or two spaces (both)
 *     run COMMAND             runs a shell command that must succeed; `try COMMAND` may fail
 *     commit MESSAGE          commits all changes with git
 *     remember FACT           records a memory for later runs on this repository
 *     artifact NAME           writes the body to an artifact
 *     subagent TEXT           lets a second, smaller model write the text
 *     ask-network HOST[:PORT] checks whether the host can be reached
 *     wait SECONDS            waits
 *     spam N                  prints N lines that are not JSON
 *     fail MESSAGE            ends as a failure
 *     limit [MINUTES]         ends because the usage limit is reached; it resets in the given minutes
 *     crash [CODE]            exits without a result
 *     hang [deaf]             stops writing output forever; deaf: also ignores SIGINT and SIGTERM
 *     ```
 *
 * A body is the following lines indented by two spaces or a tab, or all lines up to `WORD` after `write PATH <<WORD`. A
 * text may continue in a body. For a file that contains fences, use a block with a longer fence. Paths must stay below
 * the working directory.
 */
export type ScriptStep = { readonly line: number } & (
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
  | { readonly does: 'hang'; readonly ignoresSignals: boolean }
)

export type ParsedScript =
  | { readonly is: 'script'; readonly steps: readonly ScriptStep[] }
  /** The prompt has no `switchyard` block. */
  | { readonly is: 'none' }
  | { readonly is: 'bad'; readonly line: number; readonly error: string }

export const STEPS_MAX = 1_000
const WAIT_SECONDS_MAX = 86_400
const SPAM_LINES_MAX = 1_000_000
const LIMIT_MINUTES = 60
const LIMIT_MINUTES_MAX = 10_080
const HTTPS_PORT = 443

const OPENING = /^ {0,3}(?<fence>`{3,}|~{3,}) *switchyard *$/

/** Uses the last block: earlier ones may be quotes, and a conversation ends with the current request. */
export function parsePrompt(prompt: string): ParsedScript {
  const lines = prompt.split(/\r\n|\n|\r/)
  const start = lines.findLastIndex((line) => OPENING.test(line))
  if (start < 0) return { is: 'none' }
  const fence = OPENING.exec(lines[start] ?? '')?.groups?.fence ?? ''
  const rest = lines.slice(start + 1)
  const end = rest.findIndex((line) => closesFence(line, fence))
  if (end < 0) return { is: 'bad', line: rest.length, error: `the block has no end; close it with ${fence}` }
  return parseScript(rest.slice(0, end))
}

export function parseScript(lines: readonly string[]): ParsedScript {
  const steps: ScriptStep[] = []
  for (let at = 0; at < lines.length; ) {
    const parsed = parseStepAt(lines, at)
    if ('error' in parsed) return { is: 'bad', line: at + 1, error: parsed.error }
    if (parsed.step !== undefined) steps.push(parsed.step)
    if (steps.length > STEPS_MAX)
      return { is: 'bad', line: at + 1, error: `more than ${STEPS_MAX} steps; split the ticket` }
    at = parsed.next
  }
  return { is: 'script', steps }
}

// ---- lines and bodies --------------------------------------------------------------------------------------------

interface ParsedStep {
  readonly step?: ScriptStep
  readonly next: number
}
interface ScriptError {
  readonly error: string
}
interface StepBody {
  readonly lines: readonly string[]
  readonly next: number
}

const INDENT = /^( {2}|\t)/
/** A `-` or `+` alone means an empty line. */
const EDIT_LINE = /^([-+]( .*)?| {2}.*|)$/
const HEREDOC = /^(?<head>.*?)\s*<<(?<word>[A-Za-z_]\w*)$/

function closesFence(line: string, fence: string): boolean {
  const text = line.trim()
  return text.length >= fence.length && [...text].every((char) => char === fence[0])
}

function parseStepAt(lines: readonly string[], at: number): ParsedStep | ScriptError {
  const line = lines[at] ?? ''
  if (line.trim() === '' || line.startsWith('#')) return { next: at + 1 }
  if (/^\s/.test(line)) return { error: 'is indented, but the line above takes no body' }
  const [verb = '', ...words] = line.trimEnd().split(/(?<=^\S+)\s+/)
  const rest = words.join(' ')
  // Shell commands may contain here-documents; only `<<WORD` as the whole command belongs to the script language.
  const isShellHeredoc = (verb === 'run' || verb === 'try') && !rest.startsWith('<<')
  const heredoc = isShellHeredoc ? undefined : HEREDOC.exec(rest)?.groups
  const body =
    heredoc === undefined ? readIndentedBody(lines, at + 1) : readBodyUntil(lines, at + 1, heredoc.word ?? '')
  if (body === undefined) return { error: `its text has no end; close it with a line ${heredoc?.word}` }
  const step = parseStep(verb, heredoc?.head ?? rest, body.lines)
  return 'error' in step ? step : { step: { ...step, line: at + 1 }, next: body.next }
}

/** Blank lines belong to the body when more indented lines follow. */
function readIndentedBody(lines: readonly string[], from: number): StepBody {
  let next = from
  for (let at = from; at < lines.length; at += 1) {
    const line = lines[at] ?? ''
    if (INDENT.test(line) && line.trim() !== '') next = at + 1
    else if (line.trim() !== '') break
  }
  return { lines: lines.slice(from, next).map((line) => line.replace(INDENT, '')), next }
}

function readBodyUntil(lines: readonly string[], from: number, word: string): StepBody | undefined {
  const end = lines.findIndex((line, at) => at >= from && line.trimEnd() === word)
  return end < 0 ? undefined : { lines: lines.slice(from, end), next: end + 1 }
}

// ---- steps -------------------------------------------------------------------------------------------------------

/** Each member without its line number, which the caller adds. */
type WithoutLine<D> = D extends unknown ? Omit<D, 'line'> : never
type StepReader = (
  rest: string,
  body: readonly string[],
  verb: string,
) => WithoutLine<ScriptStep> | ScriptError

function parseStep(
  verb: string,
  rest: string,
  body: readonly string[],
): WithoutLine<ScriptStep> | ScriptError {
  const reader = Object.hasOwn(STEP_READERS, verb) ? STEP_READERS[verb] : undefined
  if (reader !== undefined) return reader(rest, body, verb)
  return { error: `${JSON.stringify(verb.slice(0, 40))} is no step; use one of ${VERBS.join(', ')}` }
}

const readTextStep: StepReader = (rest, body, verb) => {
  const text = joinText(rest, body)
  return text === '' ? { error: `${verb} needs a text` } : ({ does: verb, text } as WithoutLine<ScriptStep>)
}

const readCommandStep: StepReader = (rest, body, verb) => {
  const command = joinText(rest, body)
  return command === ''
    ? { error: `${verb} needs a command` }
    : ({ does: verb, command } as WithoutLine<ScriptStep>)
}

const readFileStep: StepReader = (path, body, verb) => {
  if (path === '') return { error: `${verb} needs a ${verb === 'artifact' ? 'name' : 'path'}` }
  return { does: verb, path, body: body.map((line) => `${line}\n`).join('') } as WithoutLine<ScriptStep>
}

const readEdit: StepReader = (path, body) => {
  if (path === '') return { error: 'edit needs a path' }
  const malformed = body.find((line) => !EDIT_LINE.test(line))
  if (malformed !== undefined)
    return {
      error: `the lines below edit begin with "- ", "+ " or two spaces, after their indentation; not ${JSON.stringify(malformed.slice(0, 40))}`,
    }
  const side = (otherMark: string) =>
    body.filter((line) => !line.startsWith(otherMark)).map((line) => line.slice(2))
  const [before, after] = [side('+').join('\n'), side('-').join('\n')]
  if (before === '') return { error: 'edit needs lines that begin with "- ": what is to be replaced' }
  return { does: 'edit', path, before, after }
}

const readDelete: StepReader = (path, body) =>
  requireNoBody(body) ?? (path === '' ? { error: 'delete needs a path' } : { does: 'delete', path })

const readNetworkCheck: StepReader = (rest, body) => {
  const parts = /^(?<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(?<port>\d{1,5}))?$/.exec(rest)?.groups
  if (parts === undefined) return { error: 'ask-network needs a host, or host:port' }
  const port = Number(parts.port ?? HTTPS_PORT)
  if (port < 1 || port > 65_535) return { error: 'the port must be between 1 and 65535' }
  return requireNoBody(body) ?? { does: 'ask-network', host: parts.host ?? '', port }
}

const readWait: StepReader = (rest, body) => {
  const seconds = parseNumber(rest, WAIT_SECONDS_MAX)
  if (seconds === undefined) return { error: `wait needs a number of seconds, at most ${WAIT_SECONDS_MAX}` }
  return requireNoBody(body) ?? { does: 'wait', seconds }
}

const readSpam: StepReader = (rest, body) => {
  const count = parseNumber(rest, SPAM_LINES_MAX)
  if (count === undefined || !Number.isInteger(count))
    return { error: `spam needs a number of lines, at most ${SPAM_LINES_MAX}` }
  return requireNoBody(body) ?? { does: 'spam', count }
}

const readLimit: StepReader = (rest, body) => {
  const minutes = rest === '' ? LIMIT_MINUTES : parseNumber(rest, LIMIT_MINUTES_MAX)
  if (minutes === undefined) return { error: `limit takes a number of minutes, at most ${LIMIT_MINUTES_MAX}` }
  return requireNoBody(body) ?? { does: 'limit', minutes }
}

const readCrash: StepReader = (rest, body) => {
  const code = rest === '' ? undefined : parseNumber(rest, 255)
  if (rest !== '' && (code === undefined || !Number.isInteger(code)))
    return { error: 'crash takes an exit code from 0 to 255' }
  return requireNoBody(body) ?? { does: 'crash', ...(code === undefined ? {} : { code }) }
}

const readHang: StepReader = (rest, body) => {
  if (rest !== '' && rest !== 'deaf') return { error: 'hang takes nothing but deaf' }
  return requireNoBody(body) ?? { does: 'hang', ignoresSignals: rest === 'deaf' }
}

const STEP_READERS: Readonly<Record<ScriptStep['does'], StepReader>> & Readonly<Record<string, StepReader>> =
  {
    say: readTextStep,
    write: readFileStep,
    append: readFileStep,
    edit: readEdit,
    delete: readDelete,
    run: readCommandStep,
    try: readCommandStep,
    commit: readTextStep,
    remember: readTextStep,
    artifact: readFileStep,
    subagent: readTextStep,
    'ask-network': readNetworkCheck,
    wait: readWait,
    spam: readSpam,
    fail: readTextStep,
    limit: readLimit,
    crash: readCrash,
    hang: readHang,
  }
export const VERBS = Object.keys(STEP_READERS)

function joinText(rest: string, body: readonly string[]): string {
  return [rest, ...body].join('\n').trim()
}

function requireNoBody(body: readonly string[]): ScriptError | undefined {
  return body.length === 0 ? undefined : { error: 'takes no body; the next line must not be indented' }
}

function parseNumber(text: string, max: number): number | undefined {
  const value = /^\d{1,9}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN
  return value <= max ? value : undefined
}
