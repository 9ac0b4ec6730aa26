/**
 * A command line for an agent, put together so that no secret and no word of a ticket is in it.
 *
 * The command is a small shell script, the same for every run of its kind, with the agent's arguments behind it as
 * arguments of its own: whatever a model is called, the shell never reads it. The script first makes the agent's own
 * folder what the worker wants it to be, whatever an earlier execution left there; then it takes the secret out of a
 * file that exists only inside, and becomes the agent. The prompt comes on standard input.
 */
import { type SandboxFile, WORK } from '../sandbox/arguments.ts'
import type { AgentCommand, AgentTask, LocatedAgent } from './agent.ts'

export const SECRET_FILE = '/run/cred/agent'
/** Where programs of the worker's own are seen inside. */
const TOOLS_FOLDER = '/opt/switchyard'
const SYSTEM_PATH = ['/usr/local/bin', '/usr/bin', '/bin']

/** A worker's checkout has the same path inside on every machine, and so has its transcripts' folder. */
export const PROJECT_KEY = WORK.replace(/[^a-zA-Z0-9]/g, '-')

export interface AgentCommandOptions {
  readonly task: Pick<AgentTask, 'credential' | 'environment'> & {
    readonly agent: Pick<AgentTask['agent'], 'command'>
    /** Absent: what it is told, a person types. */
    readonly prompt?: string
  }
  readonly found: LocatedAgent
  /** Commands of the shell, run one after the other before the agent; the first that fails ends it all. */
  readonly script: readonly string[]
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Texts that `script` puts where the agent wants them, by their path; nothing secret. */
  readonly texts?: Readonly<Record<string, string>>
  /** Of the same kind, but secret. */
  readonly secrets?: Readonly<Record<string, string>>
}

export function buildAgentCommand({
  task,
  found,
  script,
  args,
  environment,
  texts = {},
  secrets = {},
}: AgentCommandOptions): AgentCommand {
  const override = withoutNul(task.agent.command ?? '').trim()
  const lines = ['set -e', ...script, override === '' ? 'exec "$@"' : `exec ${override} "$@"`]
  const program = override === '' ? [programPath(found)] : []
  return {
    command: ['/bin/sh', '-c', lines.join('\n'), 'agent', ...program, ...args.map(withoutNul)],
    environment: { ...task.environment, ...environment, ...pathVariable(found) },
    files: [
      ...secretFile(task),
      ...Object.entries(texts).map(publicFile),
      ...Object.entries(secrets).map(([path, text]): SandboxFile => ({ path, mode: '0400', text })),
    ],
    // Into a folder that an agent has had for itself, nobody outside writes: `script` does it, inside.
    seeds: [],
    ...(task.prompt === undefined ? {} : { stdin: task.prompt }),
    readOnlyPaths: override === '' && found.is === 'found' ? found.readOnlyPaths : [],
  }
}

/** Lines that put the secret, which is one line, into the environment of what comes after, and of nothing else. */
export function exportSecretLines(variable: string): string[] {
  return [`IFS= read -r ${variable} < ${SECRET_FILE} || [ -n "$${variable}" ]`, `export ${variable}`]
}

/** Lines that make a folder anew, whatever stood there: a link is not followed, and what is unwritable goes too. */
export function recreateFolderLines(path: string): string[] {
  return [...removeFolderLines(path), `mkdir -p -m 0700 ${path}`]
}

export function removeFolderLines(path: string): string[] {
  return [
    `if [ -d ${path} ] && [ ! -L ${path} ]; then chmod -R u+rwX ${path}; fi`,
    `if [ -e ${path} ] || [ -L ${path} ]; then rm -rf ${path}; fi`,
  ]
}

function programPath(found: LocatedAgent): string {
  if (found.is === 'found') return found.program
  throw new Error(`a command line for an agent that is not there: ${found.reason}`)
}

/** Only where the program needs one of its own: otherwise whoever runs it knows better. */
function pathVariable(found: LocatedAgent): { readonly PATH?: string } {
  if (found.is === 'missing' || found.path === undefined) return {}
  return { PATH: [...found.path, TOOLS_FOLDER, ...SYSTEM_PATH].join(':') }
}

function secretFile({ credential }: Pick<AgentTask, 'credential'>): SandboxFile[] {
  return credential === undefined ? [] : [{ path: SECRET_FILE, mode: '0400', text: credential.value }]
}

const publicFile = ([path, text]: readonly [string, string]): SandboxFile => ({ path, mode: '0444', text })

/** An argument can't hold one; a name that does is refused by whoever reads it, not by the system. */
const withoutNul = (text: string): string => text.replaceAll('\0', '')
