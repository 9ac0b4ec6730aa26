/**
 * Parses the scripted agent's command line, which is agentA's; unsupported flags are ignored.
 *
 * An unknown flag takes the next word as its value unless that looks like a flag too, because most flags have a value
 * and the worker passes the prompt on standard input. Pure.
 */

export type OutputFormat = 'text' | 'json' | 'stream-json'

export interface ScriptedOptions {
  readonly print: boolean
  readonly format: OutputFormat
  readonly verbose: boolean
  readonly sessionId?: string
  readonly resume?: string
  readonly maxTurns?: number
  readonly maxCostUsd?: number
  readonly prompt?: string
}

export type ParsedOptions =
  | { readonly ok: true; readonly options: ScriptedOptions }
  | { readonly ok: false; readonly error: string }

const SWITCHES = [
  '-p',
  '--print',
  '--verbose',
  '--dangerously-skip-permissions',
  '--continue',
  '--fork-session',
  '--include-partial-messages',
  '--replay-user-messages',
  '--no-session-persistence',
  '--strict-mcp-config',
  '--forward-subagent-text',
  '--include-hook-events',
  '--bare',
  '--safe-mode',
  '--restricted',
]
const FORMATS: readonly string[] = ['text', 'json', 'stream-json']
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function parseOptions(args: readonly string[]): ParsedOptions {
  const { flags, words } = splitArguments(args)
  const value = (name: string) => flags.get(name)
  const format = value('--output-format') ?? 'text'
  const [print, verbose] = [flags.has('-p') || flags.has('--print'), flags.has('--verbose')]
  const problem = findProblem(flags, format, print && !verbose)
  if (problem !== undefined) return { ok: false, error: problem }
  const options: ScriptedOptions = {
    print,
    verbose,
    format: format as OutputFormat,
    ...optional('sessionId', value('--session-id')),
    ...optional('resume', value('--resume') ?? value('-r')),
    ...optional('maxTurns', numberOf(value('--max-turns'))),
    ...optional('maxCostUsd', numberOf(value('--max-budget-usd'))),
    ...optional('prompt', words[0]),
  }
  return { ok: true, options }
}

function splitArguments(args: readonly string[]): { flags: Map<string, string>; words: string[] } {
  const flags = new Map<string, string>()
  const words: string[] = []
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    const next = args[at + 1]
    const [name = '', joined] = arg.startsWith('--') ? arg.split(/=(.*)/s) : [arg]
    if (arg === '--') return { flags, words: [...words, ...args.slice(at + 1)] }
    if (!arg.startsWith('-') || arg === '-') words.push(arg)
    else if (joined !== undefined) flags.set(name, joined)
    else if (SWITCHES.includes(arg) || next === undefined || next.startsWith('-')) flags.set(arg, '')
    else {
      flags.set(arg, next)
      at += 1
    }
  }
  return { flags, words }
}

function findProblem(
  flags: ReadonlyMap<string, string>,
  format: string,
  isQuiet: boolean,
): string | undefined {
  if (!FORMATS.includes(format)) return `Error: --output-format must be one of ${FORMATS.join(', ')}`
  if (format === 'stream-json' && isQuiet)
    return 'Error: When using --print, --output-format=stream-json requires --verbose'
  for (const name of ['--session-id', '--resume', '-r']) {
    const id = flags.get(name)
    if (id !== undefined && !UUID.test(id)) return `Error: ${name} must be a UUID`
  }
  for (const name of ['--max-turns', '--max-budget-usd']) {
    const number = flags.get(name)
    if (number !== undefined && !(Number(number) > 0)) return `Error: ${name} must be a positive number`
  }
  return undefined
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text)
}

function optional<K extends string, V>(key: K, value: V | undefined): { readonly [key in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [key in K]: V })
}
