/**
 * Builds an agent's command line without any secret or ticket text in it.
 *
 * The command is a small shell script, identical for every run of the agent; the agent's arguments are passed as
 * positional parameters, so the shell never interprets them. The script resets the agent's configuration folder, reads
 * the secret from a file that exists only inside the sandbox, and then executes the agent. The prompt is passed on
 * standard input.
 */
import type { SandboxFile } from '../sandbox/driver.ts'
import { WORK } from '../sandbox/inside-paths.ts'
import type { AgentCommand, AgentTask, LocatedAgent } from './agent.ts'

export const SECRET_FILE = '/run/cred/agent'
/** Folder of the worker's own programs inside the sandbox. */
const TOOLS_FOLDER = '/opt/switchyard'
const SYSTEM_PATH = ['/usr/local/bin', '/usr/bin', '/bin']

/** The name of the transcript folder, the same on every machine because the checkout is always at WORK. */
export const PROJECT_KEY = WORK.replace(/[^a-zA-Z0-9]/g, '-')

export interface AgentCommandOptions {
  readonly task: Pick<AgentTask, 'credential' | 'environment'> & {
    readonly agent: Pick<AgentTask['agent'], 'command'>
    /** Absent when a person types at a terminal. */
    readonly prompt?: string
  }
  readonly found: LocatedAgent
  /** Shell lines to run before the agent; the first failing one ends the command. */
  readonly script: readonly string[]
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Files by path, which `script` copies to their final place. Must hold no secrets. */
  readonly texts?: Readonly<Record<string, string>>
  /** Like `texts`, but secret. */
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
    // The worker never writes into a folder that an agent could change; `script` does so inside the sandbox.
    seeds: [],
    ...(task.prompt === undefined ? {} : { stdin: task.prompt }),
    readOnlyPaths: override === '' && found.is === 'found' ? found.readOnlyPaths : [],
  }
}

/** Shell lines that export the secret (a single line) to the commands after them. */
export function exportSecretLines(variable: string): string[] {
  return [`IFS= read -r ${variable} < ${SECRET_FILE} || [ -n "$${variable}" ]`, `export ${variable}`]
}

/**
 * Shell lines that recreate a folder. A link in its place is removed, not followed; unwritable content is removed too.
 */
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
  throw new Error(`cannot build a command line, the agent is not installed: ${found.reason}`)
}

/** Sets PATH only when the program needs its own; otherwise the caller's PATH applies. */
function pathVariable(found: LocatedAgent): { readonly PATH?: string } {
  if (found.is === 'missing' || found.path === undefined) return {}
  return { PATH: [...found.path, TOOLS_FOLDER, ...SYSTEM_PATH].join(':') }
}

function secretFile({ credential }: Pick<AgentTask, 'credential'>): SandboxFile[] {
  return credential === undefined ? [] : [{ path: SECRET_FILE, mode: '0400', text: credential.value }]
}

const publicFile = ([path, text]: readonly [string, string]): SandboxFile => ({ path, mode: '0444', text })

/** Arguments cannot contain NUL. Without it the agent rejects a bad name, instead of the system failing the start. */
const withoutNul = (text: string): string => text.replaceAll('\0', '')
