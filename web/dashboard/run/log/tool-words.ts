/** Calls of tools in words that do not depend on the vendor: a verb, an object, an outcome. */
import type { AgentCall, AgentMessage, AgentPart } from '../../../../client/agent-messages.ts'
import { shortenEnd } from '../../../../protocol/shorten.ts'

const VERBS: Readonly<Record<string, string>> = {
  agent: 'Delegate',
  bash: 'Run',
  command: 'Run',
  edit: 'Edit',
  glob: 'Search',
  google_web_search: 'Search',
  grep: 'Search',
  list_directory: 'List',
  ls: 'List',
  multiedit: 'Edit',
  notebookedit: 'Edit',
  read: 'Read',
  read_file: 'Read',
  read_many_files: 'Read',
  replace: 'Edit',
  run_shell_command: 'Run',
  search_file_content: 'Search',
  task: 'Delegate',
  todowrite: 'Plan',
  web_fetch: 'Fetch',
  webfetch: 'Fetch',
  websearch: 'Search',
  write: 'Write',
  write_file: 'Write',
}

/** Codex starts every command with a shell. */
const SHELL = /^(?:\/\S*\/)?(?:bash|sh|zsh) -l?c (?:'([\s\S]*)'|"([\s\S]*)")$/

export function wordsOfCall({ tool, subject, input }: AgentCall) {
  const verb = VERBS[tool.toLowerCase()] ?? tool
  if (verb === 'Run') return { verb, object: subject.replace(SHELL, (_, single, double) => single ?? double) }
  if (verb !== 'Search') return { verb, object: subject }
  const place = typeof input.path === 'string' ? ` in ${input.path}` : ''
  const { pattern } = input
  return { verb, object: typeof pattern === 'string' ? `"${pattern}"${place}` : subject }
}

export interface ToolOutcome {
  readonly text: string
  readonly isError: boolean
  /** The event whose lines are what the tool printed; absent when the text is all of it. */
  readonly output?: number
}

type Outcome = Extract<AgentPart, { readonly is: 'outcome' }>

const CHARS_MAX = 120

/** `218 lines`, `no matches`, the first line that is an error. */
export function wordsOfOutcome(
  verb: string,
  { text, isError }: Pick<Outcome, 'text' | 'isError'>,
): ToolOutcome {
  const lines = text.trim() === '' ? [] : text.trimEnd().split('\n')
  if (isError)
    return { text: shortenEnd(lines.find(isErrorOfTool) ?? lines[0] ?? 'failed', CHARS_MAX), isError }
  if (verb === 'Search')
    return { text: lines.length === 0 ? 'no matches' : count(lines.length, 'match', 'matches'), isError }
  const words =
    lines.length === 0
      ? ''
      : lines.length === 1
        ? shortenEnd(lines[0] ?? '', CHARS_MAX)
        : count(lines.length, 'line', 'lines')
  // The answer to an edit repeats the file's name.
  return { text: verb === 'Edit' || verb === 'Write' ? '' : words, isError }
}

/** How many lines an edit adds and removes, as far as its arguments say. */
export function changesOfCall({
  input,
}: AgentCall): { readonly added: number; readonly removed: number } | undefined {
  const edits = Array.isArray(input.edits) ? (input.edits as readonly AgentMessage[]) : [input]
  let [added, removed, isEdit] = [0, 0, false]
  for (const { old_string: before, new_string: after, content } of edits) {
    const written = after ?? (before === undefined ? content : undefined)
    if (typeof written !== 'string') continue
    isEdit = true
    added += linesOf(written)
    removed += typeof before === 'string' ? linesOf(before) : 0
  }
  return isEdit ? { added, removed } : undefined
}

const linesOf = (text: string): number => (text === '' ? 0 : text.replace(/\n$/, '').split('\n').length)
const count = (amount: number, noun: string, plural: string): string =>
  `${amount.toLocaleString('en-US')} ${amount === 1 ? noun : plural}`

/** Words of an error anywhere in a line of standard error. */
const ERROR_WORDS =
  /\b(?:error|errors|failed|failure|fatal|panic|panicked|exception|traceback|unhandled|segmentation fault|cannot|refused|denied|not found|ERR!)\b|\b(?:[A-Z]\w*)(?:Error|Exception)\b|^\s*(?:expect\(|Expected:|Received:)/i
/** Words that begin a line of standard output, where much is said about errors that is none. */
const ERROR_BEGINNING =
  /^\s*(?:[Ee]rror(?:\[\w+\])?:|error TS\d+|fatal:|panic:|Traceback \(|npm (?:ERR!|error)|(?:Uncaught )?[A-Z]\w*(?:Error|Exception):|FAIL(?:ED)?\b|not ok \d|✕|✗|×)/
/** `0 errors`, `no error`, `errors: 0`. */
const NO_ERROR =
  /\b(?:0|no|without)\s+(?:errors?|failed|failures?)\b|\b(?:errors?|failed|failures?)[:=]\s*0\b/i

/** Tells lines that report an error. Standard error holds progress and warnings too, so the words decide. */
export function isErrorLine(stream: 'stdout' | 'stderr', text: string): boolean {
  const pattern = stream === 'stderr' ? ERROR_WORDS : ERROR_BEGINNING
  return pattern.test(text) && !NO_ERROR.test(text)
}

/** Programs that an agent starts write to both streams, and their output is one text. */
export const isErrorOfTool = (text: string): boolean =>
  isErrorLine('stdout', text) || isErrorLine('stderr', text)
